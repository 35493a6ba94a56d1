"""The table of the requests that a controller answers, each with the function that answers it."""

from collections.abc import Awaitable, Callable
from typing import Any

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
