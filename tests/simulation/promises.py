"""The product's guarantees about power losses: which machines may lose power without data loss.

With eligible leader replicas, min ISR - 1 copies of a partition may lose unsynced data until they
are in sync again, whichever brokers are killed meanwhile. Without them, the last member of an ISR
must not lose data: so one machine at a time may lose power, while all replicas are in sync. With
flush.policy=group all machines may. This module also tells faults when a record was just
acknowledged.
"""

import asyncio
from collections.abc import Sequence

from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.control.records import TOPIC
from minikafka.protocol.types import AUDIT_TOPIC, NO_LEADER, TopicIdPartition

from .cluster import Cluster, Daemon
from .invariants import Invariants
from .metadata_checks import ELR_FEATURE
from .shape import Shape

CONNECT_TOPICS = ("counted", "connect-offsets", "connect-configs", "connect-status")
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", AUDIT_TOPIC)


class Promises:
    """Judges power losses by the committed metadata and by the data that was lost before."""

    def __init__(self, cluster: Cluster, invariants: Invariants, shape: Shape) -> None:
        self.cluster = cluster
        self.invariants = invariants
        self.flushed = {topic.name: None for topic in shape.topics if topic.group}
        self._all_flushed = shape.all_group
        if shape.all_group:
            self.flushed.update(
                dict.fromkeys(
                    (
                        *("extra-1", "extra-2", "state", "later", "now", "also"),
                        *CONNECT_TOPICS,
                        *INTERNAL_TOPICS,
                    )
                )
            )
        self._overlap = shape.overlap
        self._names = {id: each.name for id, each in cluster.brokers.items()}
        self._next: asyncio.Future[None] | None = None

    def on_acknowledged(self) -> None:
        """Note that a producer got an acknowledgement."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def until_something_is_promised(self, seconds: float) -> None:
        """Wait for the next acknowledgement, for `seconds` at most."""
        if self._next is None or self._next.done():
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._next], timeout=seconds)

    def leaders(self) -> list[int]:
        """Return the brokers that lead any partition."""
        image = self.invariants.image
        states = [state for _, state in image.partitions()] if image is not None else []
        found = {state.leader: None for state in states if state.leader != NO_LEADER}
        return list(found)

    def is_flushed(self, key: TopicIdPartition) -> bool:
        """Return whether the partition's acknowledged records are on stable storage.

        A topic that a producer created anew under an old name has no settings of its own.
        """
        truth, image = self.invariants.truths.get(key), self.invariants.image
        if truth is None or image is None or truth.topic not in self.flushed:
            return False
        said = image.configs.get((TOPIC, truth.topic), {}).get("flush.policy")
        if said is None and truth.topic in INTERNAL_TOPICS:
            return self._all_flushed  # As the brokers' own setting says.
        return said == "group"

    def survive_without(self, victims: Sequence[Daemon]) -> bool:
        """Return whether these brokers may lose their unsynced data."""
        image = self.invariants.image
        if image is None or any(each.host.disk.has_lied or not each.host.up for each in victims):
            return False
        names = [victim.name for victim in victims]
        return all(self._survives(key, state, names) for key, state in image.partitions())

    @property
    def has_elr(self) -> bool:
        """True if the cluster has eligible leader replicas."""
        image = self.invariants.image
        return image is not None and image.features.get(ELR_FEATURE, 0) > 0

    def are_recovered(self, victims: Sequence[Daemon]) -> bool:
        """Return whether the data that these brokers have lost is of no importance any more.

        That is so if they are in sync again. Without eligible leaders it is enough that they have
        left every ISR whose data they may lack.
        """
        image = self.invariants.image
        if image is None:
            return False
        distrusted = self.invariants.distrusted
        names = [victim.name for victim in victims]
        return not any(
            self._names[member] in names and (self._names[member], key) in distrusted
            for key, state in image.partitions()
            for member in (state.replicas if self.has_elr else state.isr)
        )

    def _survives(self, key: TopicIdPartition, state: PartitionState, victims: list[str]) -> bool:
        hit = [member for member in state.replicas if self._names[member] in victims]
        if not hit:
            return True
        distrusted, rotten = self.invariants.distrusted, self.invariants.rotten
        if self.is_flushed(key):
            # A crash cuts a log where it has rotted. That replica vouches for more than it holds,
            # and may be elected unless somebody in sync stays up (docs/decisions/0020).
            stays_up = any(member not in hit for member in state.isr)
            return stays_up or not any((self._names[member], key) in rotten for member in hit)
        lossy = [
            member
            for member in state.replicas
            if member in hit or (self._names[member], key) in distrusted
        ]
        if self._overlap > 1:
            return False  # Nobody else may die until the controller knows.
        if self.has_elr:
            known = (*state.isr, *state.elr, *state.last_known_elr)
            holders = [member for member in known if member not in lossy]
            return bool(holders) and len(lossy) < self.invariants.truths[key].weakest_min_isr
        whole = len(state.isr) == len(state.replicas) and state.leader != NO_LEADER
        living = all(self.cluster.brokers[member].alive for member in state.replicas)
        return len(lossy) == 1 and whole and living and len(state.replicas) > 1
