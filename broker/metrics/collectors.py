"""Puts the collectors of a broker together, in the order in which they are written."""

from ...runtime.metrics import Collector
from ..edge import Edge
from ..peers import Peers
from ..replication.isr_proposals import IsrProposals
from .connections import ConnectionMetrics
from .coordinators import CoordinatorMetrics
from .group_lag import GroupLag
from .groups import GroupMetrics
from .labelled import Labelled
from .logs import LogMetrics
from .partitions import PartitionMetrics
from .replication import ReplicationMetrics
from .traffic import TrafficMetrics


def collectors_of(edge: Edge, proposals: IsrProposals, peers: Peers) -> tuple[Collector, ...]:
    """Return everything that one broker tells, but for its process."""
    labelled = Labelled(edge.partitions)
    by_topic = () if edge.traffic is None else (TrafficMetrics(edge.traffic, labelled),)
    return (
        PartitionMetrics(edge, labelled),
        LogMetrics(edge.runtime, edge.partitions.store, labelled),
        ReplicationMetrics(proposals, labelled),
        *by_topic,
        CoordinatorMetrics(edge),
        GroupMetrics(edge, GroupLag(edge, peers)),
        ConnectionMetrics(edge),
    )
