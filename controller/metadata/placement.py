"""Where the replicas of new partitions go.

The leader goes to the broker that leads least; the followers to brokers in racks not yet used,
among those to the ones that hold least, ties turning with the partition so that the load of a
lost leader falls on all others alike. Deterministic: equal clusters place equally.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...protocol.control.image import BrokerRegistration, PartitionState


@dataclass(slots=True)
class Load:
    """What each broker carries now, and the brokers that may carry more."""

    brokers: Sequence[BrokerRegistration]
    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, brokers: Sequence[BrokerRegistration], partitions: Iterable[PartitionState]
    ) -> "Load":
        """Count what is there. The preferred leader counts, not who leads at the moment."""
        load = cls(brokers)
        for state in partitions:
            load.add(state.replicas)
        return load

    def add(self, replicas: Sequence[int]) -> None:
        """Count one partition more."""
        for broker_id in replicas:
            self.replicas[broker_id] = self.replicas.get(broker_id, 0) + 1
        self.leaders[replicas[0]] = self.leaders.get(replicas[0], 0) + 1

    def place(self, partition: int, replication_factor: int) -> tuple[int, ...]:
        """Choose brokers for one partition, preferred leader first, and count it."""
        count = len(self.brokers)
        assert 0 < replication_factor <= count
        leader = min(range(count), key=lambda at: (*self._weight(at), at))
        # After each round over the brokers, the first follower is one place further on.
        shift = 1 + partition // count % max(1, count - 1)
        chosen = [leader]
        racks = {self._rack(leader): 1}
        while len(chosen) < replication_factor:
            position = min(
                (at for at in range(count) if at not in chosen),
                key=lambda at: (
                    racks.get(self._rack(at), 0),
                    self.replicas.get(self.brokers[at].broker_id, 0),
                    (at - leader - shift) % count,
                ),
            )
            chosen.append(position)
            racks[self._rack(position)] = racks.get(self._rack(position), 0) + 1
        replicas = tuple(self.brokers[at].broker_id for at in chosen)
        self.add(replicas)
        return replicas

    def _weight(self, at: int) -> tuple[int, int]:
        broker_id = self.brokers[at].broker_id
        return self.leaders.get(broker_id, 0), self.replicas.get(broker_id, 0)

    def _rack(self, at: int) -> str | int:
        """Brokers without a rack are each a rack of their own."""
        broker = self.brokers[at]
        return broker.broker_id if broker.rack is None else broker.rack
