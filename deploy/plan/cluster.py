"""The cluster as a plan sees it, and the draft of a new placement of replicas. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...client.partitions import name_of
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError

EMPTY_REPLICA_BYTES: Final = 1 << 20
"""The load of a replica in addition to its size, so that empty replicas are spread too."""

Placement = Mapping[TopicPartition, tuple[int, ...]]


class PlanRefused(MinikafkaError):
    """A change that must not be made; the message names a partition or a broker, and why."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that may hold replicas."""

    node_id: int
    rack: str | None = None
    is_fenced: bool = False
    free_bytes: int | None = None
    """The free bytes of the volumes of its log directories; None if the broker does not report
    them."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it is now."""

    replicas: tuple[int, ...]
    """The broker ids of the replicas, the preferred leader first."""
    isr: tuple[int, ...]
    leader: int
    """The leader's id; -1 if there is none."""
    size_bytes: int = 0
    """The size of the largest of its replicas."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers and partitions, by id."""

    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicPartition, Partition]

    @property
    def placement(self) -> Placement:
        """The replicas of every partition as they are now."""
        return {where: one.replicas for where, one in self.partitions.items()}


class Draft:
    """A placement that is being changed, with the load of each broker that may get replicas."""

    def __init__(self, cluster: Cluster, allowed: Iterable[int], *, ignore_racks: bool) -> None:
        """`allowed` are the brokers that may get replicas; a fenced one never gets any."""
        self.cluster = cluster
        self.placed = {where: list(one.replicas) for where, one in cluster.partitions.items()}
        self._ignore_racks = ignore_racks
        self.loads: dict[int, int] = {
            each: 0
            for each in sorted(allowed)
            if each in cluster.brokers and not cluster.brokers[each].is_fenced
        }
        self.held: dict[int, dict[TopicPartition, None]] = {each: {} for each in self.loads}
        for where, replicas in self.placed.items():
            for broker in replicas:
                self._note(where, broker)

    def weight(self, where: TopicPartition) -> int:
        """Return the load of one replica of the partition."""
        return self.cluster.partitions[where].size_bytes + EMPTY_REPLICA_BYTES

    def racks(self, replicas: Iterable[int]) -> int:
        """Count the racks of these brokers; a broker without a rack is one of its own."""
        return len({self._rack(each) for each in replicas})

    def rack_count(self) -> int:
        """Count the racks of the brokers that may get replicas."""
        return self.racks(self.loads)

    def replace(self, where: TopicPartition, old: int, new: int) -> None:
        """Replace the replica on broker `old` by one on broker `new`."""
        replicas = self.placed[where]
        replicas[replicas.index(old)] = new
        self._forget(where, old)
        self._note(where, new)

    def add(self, where: TopicPartition, new: int) -> None:
        """Add a replica on broker `new`."""
        self.placed[where].append(new)
        self._note(where, new)

    def remove(self, where: TopicPartition, old: int) -> None:
        """Remove the replica on broker `old`."""
        self.placed[where].remove(old)
        self._forget(where, old)

    def best(self, where: TopicPartition, others: Sequence[int]) -> int:
        """Choose a broker for a replica besides `others`: another rack, then the least load.

        Raise PlanRefused if every allowed broker has a replica of the partition.
        """
        free = [each for each in self.loads if each not in self.placed[where]]
        if not free:
            why = f"{name_of(where)}: no broker is left for another replica"
            raise PlanRefused(f"{why}: {len(self.placed[where])} have one")
        return min(free, key=lambda one: (-self.racks([*others, one]), self.loads[one], one))

    def changes(self) -> Placement:
        """Return the partitions whose replicas changed, as they are now in the draft."""
        return {
            where: tuple(replicas)
            for where, replicas in sorted(self.placed.items())
            if tuple(replicas) != self.cluster.partitions[where].replicas
        }

    def _rack(self, broker: int) -> str | int:
        known = self.cluster.brokers.get(broker)
        if known is None or known.rack is None or self._ignore_racks:
            return broker
        return known.rack

    def _note(self, where: TopicPartition, broker: int) -> None:
        if broker in self.loads:
            self.loads[broker] += self.weight(where)
            self.held[broker][where] = None

    def _forget(self, where: TopicPartition, broker: int) -> None:
        if broker in self.loads:
            self.loads[broker] -= self.weight(where)
            del self.held[broker][where]
