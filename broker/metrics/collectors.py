"""Makes the collectors of a broker, in the order in which a scrape writes their metrics."""

from dataclasses import dataclass

from ...runtime.metrics import Collector
from ..edge import Edge
from ..net.timing import RequestTimes
from ..replication.isr_proposals import IsrProposals
from .auditing import AuditMetrics
from .clients import ClientMetrics
from .connections import ConnectionMetrics
from .coordinators import CoordinatorMetrics
from .forwarding import ForwardMetrics
from .group_lag import GroupLag
from .groups import GroupMetrics
from .labelled import Labelled
from .logs import LogMetrics
from .partitions import PartitionMetrics
from .quotas import QuotaMetrics
from .replication import ReplicationMetrics
from .requests import RequestMetrics
from .tracing import TraceMetrics
from .traffic import TrafficMetrics


@dataclass(frozen=True, slots=True)
class ToldOf:
    """The parts of a broker that metrics are read from, except those in its `Edge`."""

    proposals: IsrProposals
    lag: GroupLag
    times: RequestTimes | None
    """The counts and times of requests; None if requests are not counted."""


def collectors_of(edge: Edge, others: ToldOf) -> tuple[Collector, ...]:
    """Return all collectors of one broker, except those of its process."""
    labelled = Labelled(edge.partitions)
    collectors: list[Collector] = [
        # First, because it tells of each partition: so their labels are made in slices.
        LogMetrics(edge.runtime, edge.partitions.store, labelled),
        PartitionMetrics(edge, labelled),
        ReplicationMetrics(others.proposals, labelled),
        CoordinatorMetrics(edge),
        GroupMetrics(edge, others.lag),
        ConnectionMetrics(edge),
        ForwardMetrics(
            lambda: list(edge.forwarder.sources.values()),
            edge.runtime.wall_ms,
            edge.runtime.monotonic_ms,
        ),
        AuditMetrics(edge),
        QuotaMetrics(edge.quotas, edge.runtime.monotonic_ms),
        TraceMetrics(edge.tracing.queue),
    ]
    if edge.partitions.traffic is not None:
        collectors.append(TrafficMetrics(edge.partitions.traffic, labelled))
    if others.times is not None:
        collectors.append(RequestMetrics(edge, others.times))
    if edge.telemetry is not None:
        collectors.append(ClientMetrics(edge.telemetry, edge.runtime.monotonic_ms))
    return tuple(collectors)
