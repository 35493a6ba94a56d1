"""`minikafka broker-api-versions`: print the APIs that each broker serves, and their versions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...protocol.api import OWN_API_KEYS, ApiKey
from ...protocol.codec import request_class
from ...protocol.errors import ApiError
from ...protocol.schema import Versions, shape_of
from ..admin.cluster_types import BrokerDescription
from .common import administer, bootstrap_server, command_config, refusal

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing broker api versions command"
ANSWER_MS = 5000
"""The milliseconds that each broker may take to answer, as in Kafka's tool."""
BETWEEN_NODES: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
)
"""Kafka's APIs between brokers and controllers, which no broker serves to clients."""


@click.command("broker-api-versions")
@bootstrap_server
@command_config()
def broker_api_versions(bootstrap: str, command_config: Path | None) -> None:
    """Print the APIs of each broker, their versions, and the newest version used by this client.

    \b
    minikafka broker-api-versions --bootstrap-server localhost:9092
    """

    async def act(admin: "Admin") -> int:
        brokers = (await admin.describe_cluster()).brokers
        served = await admin.describe_api_versions([broker.node_id for broker in brokers])
        for broker in brokers:
            print("\n".join(broker_lines(broker, served[broker.node_id])))
        return 0

    administer(
        act,
        COMPLAINT,
        bootstrap,
        command_config,
        default_api_timeout_ms=ANSWER_MS,
        request_timeout_ms=ANSWER_MS,
    )


def broker_lines(broker: BrokerDescription, served: Mapping[int, Versions] | ApiError) -> list[str]:
    """Return the lines that Kafka's tool prints for one broker, tabs included."""
    rack = "null" if broker.rack is None else broker.rack
    fenced = str(broker.is_fenced).lower()
    who = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: {fenced})"
    if isinstance(served, ApiError):
        return [f"{who} -> ERROR: {refusal(served)}"]
    known = [key for key in ApiKey if key < OWN_API_KEYS and key not in BETWEEN_NODES]
    lines = [f"\t{_api(key, served.get(key))}" for key in sorted({*known, *served})]
    return [f"{who} -> (", ",\n".join(lines), ")"]


def _api(key: int, served: Versions | None) -> str:
    try:
        name = ApiKey(key).name.title().replace("_", "")
    except ValueError:
        name = "UNKNOWN"
    if served is None:
        return f"{name}({key}): UNSUPPORTED"
    first, last = served
    text = f"{name}({key}): {first}" if first == last else f"{name}({key}): {first} to {last}"
    return text if name == "UNKNOWN" else f"{text} [{_usable(key, served)}]"


def _usable(key: int, served: Versions) -> str:
    try:
        ours = shape_of(request_class(key)).versions
    except KeyError:
        return "unusable: unknown to this client"
    if ours.last < served.first:
        return "unusable: node too new"
    if served.last < ours.first:
        return "unusable: node too old"
    return f"usable: {min(ours.last, served.last)}"
