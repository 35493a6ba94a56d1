"""Places the replicas of new partitions.

Within a topic, the brokers' numbers of preferred leaders differ by at most one, and so do their
numbers of replicas if racks allow it. The replicas of a partition are in as many racks as possible.
A leader's followers take turns as its first follower, so that the load of a lost leader is spread.
Among brokers that are equal so far, the one with the least load in the whole cluster is chosen. New
partitions of an existing topic continue its pattern. The result is deterministic.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...protocol.control.image import BrokerRegistration, PartitionState


@dataclass(slots=True)
class Count:
    """How many partitions each broker is the preferred leader of, and a replica of."""

    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    def add(self, replicas: Sequence[int]) -> None:
        """Count one more partition."""
        for broker_id in replicas:
            self.replicas[broker_id] = self.replicas.get(broker_id, 0) + 1
        self.leaders[replicas[0]] = self.leaders.get(replicas[0], 0) + 1

    def of(self, broker_id: int) -> tuple[int, int]:
        """Return the numbers of preferred leaderships and of replicas of a broker."""
        return self.leaders.get(broker_id, 0), self.replicas.get(broker_id, 0)


@dataclass(slots=True)
class Load:
    """The brokers that may get new replicas, and the counts of replicas of every broker."""

    brokers: Sequence[BrokerRegistration]
    count: Count = field(default_factory=Count)

    @classmethod
    def of(
        cls, brokers: Sequence[BrokerRegistration], partitions: Iterable[PartitionState]
    ) -> "Load":
        """Count the existing partitions."""
        load = cls(brokers)
        for state in partitions:
            load.count.add(state.replicas)
        return load


class Spread:
    """Spreads the partitions of one topic over the brokers, one after the other."""

    def __init__(self, load: Load, partitions: Iterable[PartitionState]) -> None:
        """Continue the pattern of `partitions`, which the topic has already and `load` counts."""
        self._load = load
        self._ids = [broker.broker_id for broker in load.brokers]
        self._racks: dict[int, str | int] = {
            # Brokers without a rack are each a rack of their own.
            broker.broker_id: broker.broker_id if broker.rack is None else broker.rack
            for broker in load.brokers
        }
        self._count = Count()
        self._in_rack: dict[str | int, int] = {}
        self._behind: dict[tuple[int, int], int] = {}
        """The number of partitions with this (leader, first follower); that follower would lead
        next."""
        for state in partitions:
            self._note(state.replicas)

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Choose brokers for the next partition, preferred leader first, and count them."""
        ids = self._ids
        assert 0 < replication_factor <= len(ids)
        leader = self._leader()
        start = ids.index(leader)
        turn = {each: (at - start) % len(ids) for at, each in enumerate(ids)}
        ranks = {each: self._rank(leader, each, turn) for each in ids if each != leader}
        chosen, racks = [leader], {self._racks[leader]: 1}
        while len(chosen) < replication_factor:
            follower = min(ranks, key=lambda each: (racks.get(self._racks[each], 0), ranks[each]))
            del ranks[follower]
            chosen.append(follower)
            racks[self._racks[follower]] = racks.get(self._racks[follower], 0) + 1
        behind = sorted(chosen[1:], key=lambda e: (self._behind.get((leader, e), 0), turn[e]))
        replicas = (leader, *behind)
        self._note(replicas)
        self._load.count.add(replicas)
        return replicas

    def _leader(self) -> int:
        """Choose the broker that leads the fewest partitions of the topic.

        Among equal brokers, each round over all brokers begins with the next one.
        """
        ids, count = self._ids, len(self._ids)
        of, of_all = self._count.of, self._load.count.of
        rounds = min(of(each)[0] for each in ids)
        at = min(
            range(count),
            key=lambda at: (
                *of(ids[at]),
                self._in_rack.get(self._racks[ids[at]], 0),
                *of_all(ids[at]),
                (at - rounds) % count,
            ),
        )
        return ids[at]

    def _rank(self, leader: int, broker_id: int, turn: dict[int, int]) -> tuple[int, ...]:
        leaders, replicas = self._count.of(broker_id)
        return (
            replicas,
            self._in_rack.get(self._racks[broker_id], 0),
            # Brokers with few leads are kept free, so that the next leader has few replicas too.
            -leaders,
            self._behind.get((leader, broker_id), 0),
            self._load.count.of(broker_id)[1],
            turn[broker_id],
        )

    def _note(self, replicas: Sequence[int]) -> None:
        self._count.add(replicas)
        for broker_id in replicas:
            rack = self._racks.get(broker_id)
            if rack is not None:
                self._in_rack[rack] = self._in_rack.get(rack, 0) + 1
        if len(replicas) > 1:
            pair = (replicas[0], replicas[1])
            self._behind[pair] = self._behind.get(pair, 0) + 1
