"""Connects to single addresses as a client does, and records the outcome.

A connection goes through resolve, connect, negotiate and metadata; the probe names the phase that
failed. A broker that answers at an advertised address is asked for the settings of the broker that
advertises the address. It refuses if it is another one, because brokers describe only their own.
"""

import asyncio

from ...client.admin.controllers import describe_quorum, tool_hello
from ...client.errors import BootstrapError
from ...client.net.address import Address
from ...client.net.connection import ConnectionOptions, KafkaConnection
from ...client.net.control import ControlConnection
from ...client.net.errors import ClientError, ConnectError
from ...client.net.greeting import SOFTWARE_NAME, SOFTWARE_VERSION
from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ProtocolError
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    ResourceType,
)
from ...protocol.messages.metadata import MetadataRequest, MetadataResponse
from ...protocol.schema import Versions
from ...runtime.runtime import Runtime
from ...security.client_security import ClientSecurity
from ...security.control_proof import ControlProof
from .facts import Advertised, ControllerProbe, Controllers, Probe

ASKED_KEY = "node.id"
"""The setting that is asked for to learn whether a broker is the one expected."""
_VERSIONS = ApiVersionsRequest(
    client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
)


async def probe(
    runtime: Runtime,
    address: Address,
    *,
    timeout_ms: int,
    security: ClientSecurity | None,
    expected: int | None = None,
) -> Probe:
    """Connect to an address and ask for the cluster; `timeout_ms` bounds each phase.

    With `expected`, ask the broker that answers whether it has this id.
    """
    options = ConnectionOptions(
        client_id="doctor",
        connect_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        security=security,
    )
    try:
        connection = await KafkaConnection.open(runtime, *address, options)
    except ConnectError as error:
        return Probe(address, error.attempt.phase, error.attempt.cause)
    try:
        metadata: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
        served: ApiVersionsResponse = await connection.request(_VERSIONS)
        denial = None if expected is None else await _denial(connection, expected)
    except (ClientError, ProtocolError, ApiError) as error:
        return Probe(address, "metadata", str(error).removeprefix(f"{connection.address}: "))
    finally:
        await connection.close()
    return Probe(
        address,
        cluster_id=metadata.cluster_id,
        brokers=tuple(Advertised(b.node_id, Address(b.host, b.port)) for b in metadata.brokers),
        versions={a.api_key: Versions(a.min_version, a.max_version) for a in served.api_keys},
        denial=denial,
    )


async def _denial(connection: KafkaConnection, expected: int) -> str | None:
    """Return the error by which this broker shows that it is not broker `expected`; else None."""
    if not connection.versions.supports(ApiKey.DESCRIBE_CONFIGS):
        return None
    resource = DescribeConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name=str(expected),
        configuration_keys=[ASKED_KEY],
    )
    answer: DescribeConfigsResponse = await connection.request(
        DescribeConfigsRequest(resources=[resource])
    )
    # A refusal for want of rights has no id in it, and tells nothing.
    words = [one.error_message or "" for one in answer.results if one.error_code]
    return next((each for each in words if str(expected) in each), None)


async def probe_controllers(
    runtime: Runtime,
    addresses: tuple[Address, ...],
    *,
    timeout_ms: int,
    keys: ControlProof | None = None,
) -> Controllers:
    """Connect to controllers, and have the active one describe the quorum."""
    if not addresses:
        return Controllers()
    probes = await asyncio.gather(*(_controller(runtime, a, timeout_ms, keys) for a in addresses))
    good = [one.address for one in probes if one.cause is None]
    if not good:
        return Controllers(why="no controller answered", probes=tuple(probes))
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, quorum = await describe_quorum(runtime, good, timeout_ms=timeout_ms, keys=keys)
    except (BootstrapError, TimeoutError) as error:
        why = str(error) or f"no description within {timeout_ms} ms"
        return Controllers(why=why, probes=tuple(probes))
    return Controllers(quorum, probes=tuple(probes))


async def _controller(
    runtime: Runtime, address: Address, timeout_ms: int, keys: ControlProof | None
) -> ControllerProbe:
    hello = tool_hello(runtime)
    try:
        connection = await ControlConnection.open(*address, hello, timeout_ms=timeout_ms, keys=keys)
    except ApiError as error:
        return ControllerProbe(address, error.detail or str(error))
    is_sealed, peer = connection.datagram_key is not None, connection.peer
    connection.close()
    return ControllerProbe(address, None, peer.active_id, peer.cluster_id, is_sealed)
