"""Every request a controller answers, and who answers it."""

from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.control import messages as m
from . import (
    allocate_producer_ids,
    alter_partitions,
    broker_heartbeat,
    fetch_metadata,
    fetch_snapshot,
    forwarded,
    lost_replicas,
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
    m.ReportLogEnds: report_log_ends.answer,
    m.OfflinePartitions: lost_replicas.answer,
}
