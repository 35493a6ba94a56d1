"""Every request a controller answers, and who answers it."""

from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.control import messages as m
from ...protocol.control import quorum_messages as q
from . import (
    allocate_producer_ids,
    alter_partitions,
    broker_heartbeat,
    fetch_metadata,
    fetch_snapshot,
    forwarded,
    lost_replicas,
    quorum,
    register_broker,
    report_log_ends,
)

Api = Callable[[Any, Any], Awaitable[object]]

APIS: dict[type[Any], Api] = {
    m.RegisterBroker: register_broker.answer,
    m.BrokerHeartbeat: broker_heartbeat.answer,
    m.FetchMetadata: fetch_metadata.answer,
    m.FetchSnapshot: fetch_snapshot.answer,
    m.AlterPartitions: alter_partitions.answer,
    m.ForwardedRequest: forwarded.answer,
    m.AllocateProducerIds: allocate_producer_ids.answer,
    q.Vote: quorum.answer,
    q.BeginQuorumEpoch: quorum.answer,
    q.EndQuorumEpoch: quorum.answer,
    q.FetchQuorumLog: quorum.answer,
    m.ReportLogEnds: report_log_ends.answer,
    m.OfflinePartitions: lost_replicas.answer,
}
AT_ANY_CONTROLLER = (
    m.FetchSnapshot,
    q.Vote,
    q.BeginQuorumEpoch,
    q.EndQuorumEpoch,
    q.FetchQuorumLog,
)
"""Requests that are not only the active controller's to answer."""
