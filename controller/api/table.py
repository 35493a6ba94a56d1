"""The table of the requests that a controller answers: who answers each, and who may make it."""

from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.api import ApiKey
from ...protocol.control import messages as m
from ...protocol.control import quorum_messages as q
from . import broker_heartbeat, brokers, fetch_metadata, forwarded, quorum

Api = Callable[[Any, Any], Awaitable[object]]

APIS: dict[type[Any], Api] = {
    m.RegisterBroker: brokers.register_broker,
    m.BrokerHeartbeat: broker_heartbeat.answer,
    m.FetchMetadata: fetch_metadata.fetch_metadata,
    m.FetchSnapshot: fetch_metadata.fetch_snapshot,
    m.AlterPartitions: brokers.alter_partitions,
    m.ForwardedRequest: forwarded.answer,
    m.AllocateProducerIds: brokers.allocate_producer_ids,
    q.Vote: quorum.answer,
    q.BeginQuorumEpoch: quorum.answer,
    q.EndQuorumEpoch: quorum.answer,
    q.FetchQuorumLog: quorum.answer,
    m.ReportLogEnds: brokers.report_log_ends,
    m.OfflinePartitions: brokers.offline_partitions,
}
AT_ANY_CONTROLLER = (
    m.FetchSnapshot,
    q.Vote,
    q.BeginQuorumEpoch,
    q.EndQuorumEpoch,
    q.FetchQuorumLog,
)
"""Requests that a controller answers even if it is not the active one."""
OF_VOTERS = (q.Vote, q.BeginQuorumEpoch, q.EndQuorumEpoch, q.FetchQuorumLog)
OF_TOOLS = (ApiKey.DESCRIBE_QUORUM,)
"""The requests that a tool may have forwarded; it asks everything else of a broker."""


def why_not(role: int, request: Any) -> str | None:
    """Return why a peer whose Hello named this role may not make the request; None if it may."""
    name = type(request).__name__
    if role == m.ROLE_TOOL:
        if isinstance(request, m.ForwardedRequest) and request.api_key in OF_TOOLS:
            return None
        return f"a tool must not send {name}: ask a broker"
    if isinstance(request, OF_VOTERS):
        return None if role == m.ROLE_CONTROLLER else "only controllers vote and fetch"
    if role == m.ROLE_BROKER or isinstance(request, m.FetchSnapshot):
        return None
    return f"only brokers send {name}"
