"""Describes the quorum by asking the controllers, for a tool that can reach no broker.

Any controller may be asked first; one that is not active names the active one.
"""

from collections.abc import Sequence
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.codec import decode, encode_bytes
from ...protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_TOOL,
    ForwardedRequest,
    Hello,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_quorum import DescribeQuorumResponse
from ...runtime.runtime import Runtime
from ...security.control_proof import ControlProof
from ...security.principal import ANONYMOUS
from ..errors import Attempt, BootstrapError
from ..net.address import Address
from ..net.control import ControlConnection
from .cluster_types import MetadataQuorum
from .quorum import quorum_of, quorum_question

QUORUM_VERSION: Final = 2


async def describe_quorum(
    runtime: Runtime,
    controllers: Sequence[Address],
    *,
    timeout_ms: int,
    keys: ControlProof | None = None,
) -> tuple[str, MetadataQuorum]:
    """Return the cluster's id and its quorum, as the active controller describes them.

    Raise BootstrapError with a reason for each controller if none of them leads to an answer.
    `timeout_ms` bounds both the connecting to each controller and its answer. `keys` are needed
    where the control plane is sealed.
    """
    left, attempts = list(dict.fromkeys(controllers)), list[Attempt]()
    asked: dict[Address, None] = {}
    while left:
        address = left.pop(0)
        asked[address] = None
        phase = "connect"
        try:
            connection = await ControlConnection.open(
                *address, tool_hello(runtime), timeout_ms=timeout_ms, keys=keys
            )
            phase = "ask"
            try:
                active = connection.peer.active_controller
                quorum = await _ask(connection, timeout_ms)
                return connection.peer.cluster_id or "", quorum
            finally:
                connection.close()
                if active is not None and (hint := Address(active.host, active.port)) not in asked:
                    left.insert(0, hint)
        except ApiError as error:
            attempts.append(Attempt(str(address), phase, str(error)))
    raise BootstrapError(attempts)


def tool_hello(runtime: Runtime) -> Hello:
    """Return the Hello, the first message of a connection, of a tool that belongs to no cluster."""
    return Hello(
        cluster_id=None,
        min_version=PROTOCOL_VERSION_MIN,
        max_version=PROTOCOL_VERSION_MAX,
        node_id=-1,
        role=ROLE_TOOL,
        incarnation_id=runtime.rng.randbytes(16),
    )


async def _ask(connection: ControlConnection, timeout_ms: int) -> MetadataQuorum:
    request = ForwardedRequest(
        api_key=ApiKey.DESCRIBE_QUORUM,
        api_version=QUORUM_VERSION,
        body=encode_bytes(quorum_question(), QUORUM_VERSION),
        principal=str(ANONYMOUS),
        deadline_ms=timeout_ms,
    )
    answer = await connection.call(request, timeout_ms=timeout_ms)
    if answer.error:
        raise ApiError(ErrorCode(answer.error), answer.message)
    return quorum_of(decode(DescribeQuorumResponse, QUORUM_VERSION, answer.body))
