"""Computes the cost of a plan, and refuses a plan that is dangerous. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...client.partitions import name_of
from ...protocol.types import TopicPartition
from .cluster import Cluster, Placement, PlanRefused

KEPT_FREE: Final = 0.1
"""The share of a broker's free bytes that a plan leaves free."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The bytes that are copied: in all, into each broker, and out of each."""

    copied_bytes: int
    into: Mapping[int, int]
    out_of: Mapping[int, int]

    def least_ms(self, bytes_per_second: int) -> int:
        """Return the least time that the copies take if each broker is throttled to this rate."""
        most = max((*self.into.values(), *self.out_of.values()), default=0)
        return most * 1000 // bytes_per_second


def cost_of(cluster: Cluster, changes: Placement) -> Cost:
    """Add up what is copied: each new replica, from the partition's leader."""
    into: dict[int, int] = {}
    out_of: dict[int, int] = {}
    for where, replicas in changes.items():
        now = cluster.partitions[where]
        for broker in replicas:
            if broker not in now.replicas:
                into[broker] = into.get(broker, 0) + now.size_bytes
                out_of[now.leader] = out_of.get(now.leader, 0) + now.size_bytes
    return Cost(sum(into.values()), into, out_of)


def check(cluster: Cluster, changes: Placement) -> None:
    """Raise PlanRefused for a change that could lose records or fill a disk."""
    for where, replicas in changes.items():
        _check_partition(cluster, where, replicas)
    cost = cost_of(cluster, changes)
    for node_id, size in sorted(cost.into.items()):
        free = cluster.brokers[node_id].free_bytes
        if free is None or size <= free * (1 - KEPT_FREE):
            continue
        largest = max(
            (where for where, replicas in changes.items() if node_id in replicas),
            key=lambda one: (cluster.partitions[one].size_bytes, one),
        )
        raise PlanRefused(
            f"broker {node_id} has {free} bytes free and would get {size}, the most of it with "
            f"{name_of(largest)}: {KEPT_FREE:.0%} must stay free"
        )


def _check_partition(cluster: Cluster, where: TopicPartition, replicas: tuple[int, ...]) -> None:
    now = cluster.partitions[where]
    live = [one for one in now.isr if one in cluster.brokers and not cluster.brokers[one].is_fenced]
    if any(one not in now.replicas for one in replicas):
        # A new replica is in sync before an old one goes, but it needs somebody to copy from.
        if now.leader < 0 or not live:
            raise PlanRefused(f"{name_of(where)}: it has no leader that could be copied from")
    elif not any(one in live for one in replicas):
        raise PlanRefused(f"{name_of(where)}: its last replica in sync would go")
