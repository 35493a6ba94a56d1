"""Brokers: their state, the replicas that they lead and have, how full their disks are. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ....client.admin.cluster_types import BrokerDescription
from ....client.admin.log_types import LogDirectory
from ....protocol.types import TopicPartition
from .sight import Sight

LARGEST: Final = 20


@dataclass(frozen=True, slots=True)
class DirectoryRow:
    """A log directory of a broker."""

    path: str
    error: str
    """Why the directory cannot be used; empty if it can."""
    replicas: int
    size: int
    total: int | None
    usable: int | None

    @property
    def used_share(self) -> float | None:
        """The used part of the volume, from 0 to 1; None if the broker does not report it."""
        if not self.total or self.usable is None:
            return None
        return 1 - self.usable / self.total


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker in the list."""

    node_id: int
    address: str
    rack: str
    is_fenced: bool
    leads: int
    holds: int
    in_sync: int
    directories: tuple[DirectoryRow, ...]

    @property
    def size(self) -> int | None:
        """Bytes of all replicas; None if the broker did not answer."""
        return sum(one.size for one in self.directories) if self.directories else None


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker, with its largest replicas."""

    row: BrokerRow
    largest: tuple[tuple[TopicPartition, int], ...]


LogDirs = Mapping[int, Mapping[str, LogDirectory]]


def brokers_of(sight: Sight, log_dirs: LogDirs) -> tuple[BrokerRow, ...]:
    """List the brokers, ordered by id."""
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    for _, one in sight.partitions():
        leads[one.leader_id] = leads.get(one.leader_id, 0) + 1
        for broker in one.replicas:
            holds[broker] = holds.get(broker, 0) + 1
        for broker in one.isr:
            in_sync[broker] = in_sync.get(broker, 0) + 1

    def row(broker: BrokerDescription) -> BrokerRow:
        node_id = broker.node_id
        return BrokerRow(
            node_id,
            f"{broker.host}:{broker.port}",
            broker.rack or "",
            broker.is_fenced,
            leads.get(node_id, 0),
            holds.get(node_id, 0),
            in_sync.get(node_id, 0),
            tuple(_directory(p, one) for p, one in log_dirs.get(node_id, {}).items()),
        )

    # A broker that is gone for good, but holds replicas still, is not among those described.
    known = {broker.node_id: broker for broker in sight.cluster.brokers}
    lost = [node_id for node_id in holds if node_id not in known]
    every = [*known.values(), *(BrokerDescription(i, "?", 0, None, True) for i in lost)]
    return tuple(row(broker) for broker in sorted(every, key=lambda one: one.node_id))


def broker_of(sight: Sight, node_id: int, log_dirs: LogDirs) -> BrokerView | None:
    """Return the view of one broker; None if there is no such broker."""
    rows = {row.node_id: row for row in brokers_of(sight, log_dirs)}
    if node_id not in rows:
        return None
    sizes = [
        (partition, replica.size)
        for one in log_dirs.get(node_id, {}).values()
        for partition, replica in one.replicas.items()
    ]
    largest = sorted(sizes, key=lambda each: (-each[1], each[0]))[:LARGEST]
    return BrokerView(rows[node_id], tuple(largest))


def _directory(path: str, one: LogDirectory) -> DirectoryRow:
    return DirectoryRow(
        path,
        "" if one.error is None else str(one.error),
        len(one.replicas),
        sum(replica.size for replica in one.replicas.values()),
        one.total_bytes,
        one.usable_bytes,
    )
