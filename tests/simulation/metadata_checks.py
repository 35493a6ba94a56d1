"""Checks the metadata that controllers commit and brokers follow.

Each partition and broker that a commit has changed is checked once.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minikafka.protocol.control.image import BrokerRegistration, MetadataImage, PartitionState
from minikafka.protocol.types import NO_LEADER, TopicIdPartition

from .inside import partitions_of
from .loop import Process
from .truth import Truth

if TYPE_CHECKING:
    from .invariants import Invariants

ELR_FEATURE = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
TOPIC = 2
DEFAULT_MIN_ISR = 2


class MetadataChecks:
    """Follows the newest committed image."""

    def __init__(self, invariants: "Invariants") -> None:
        self._all = invariants
        self._states: dict[TopicIdPartition, PartitionState] = {}
        self._brokers: dict[int, BrokerRegistration] = {}
        self._registered: dict[int, Process | None] = {}
        """The process whose registration is in the metadata, by broker."""
        self._names: dict[str, bytes] = {}
        self._by_epoch: dict[tuple[TopicIdPartition, int], PartitionState] = {}
        self.reused_names: dict[str, None] = {}
        """Names of topics that were deleted and made again."""

    def check_follower(
        self, where: str, image: MetadataImage, seen: dict[TopicIdPartition, PartitionState]
    ) -> Iterator[str]:
        """Check that a broker's metadata is a prefix of the committed, no older than `seen`."""
        if image.offset >= self._all.quorum.committed_end:
            yield (
                f"invariant 18: {where} has metadata up to {image.offset}, committed are"
                f" {self._all.quorum.committed_end}"
            )
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                key = TopicIdPartition(topic.topic_id, index)
                if seen.get(key) is not state:
                    seen[key] = state
                    known = self._by_epoch.get((key, state.partition_epoch), state)
                    if known != state:
                        yield f"invariant 18: {where} {topic.name}-{index}: {state}, not {known}"

    def check(self, image: MetadataImage) -> Iterator[str]:
        """Check the newest image, which has changed."""
        back = self._follow_brokers(image)
        for topic in image.topics.values():
            if self._names.setdefault(topic.name, topic.topic_id) != topic.topic_id:
                self._names[topic.name] = topic.topic_id
                self.reused_names[topic.name] = None
                self._note("topic-name-used-again")
            for index, state in topic.partitions.items():
                key = TopicIdPartition(topic.topic_id, index)
                old = self._states.get(key)
                if old is state:
                    continue
                self._states[key] = state
                truth = self._all.truths.get(key)
                if truth is None:
                    truth = self._all.truths[key] = Truth(topic.name, index)
                yield from self.check_same(truth, key, state)
                if old == state:
                    continue
                yield from self._check_state(image, truth, state)
                self._follow_copies(image, truth, state)
                if old is not None:
                    yield from self._check_change(truth, key, old, state)
        self._follow_deletions(image)
        for broker_id in back:
            yield from self._check_back(image, broker_id)

    def check_same(
        self, truth: Truth, key: TopicIdPartition, state: PartitionState
    ) -> Iterator[str]:
        """Check that all nodes have the same state of a partition at a partition epoch (18)."""
        known = self._by_epoch.setdefault((key, state.partition_epoch), state)
        if known != state:
            yield f"invariant 18: {truth.name}: {state} where {known} was committed"

    # -- what must be -----------------------------------------------------------------------

    def _check_state(
        self, image: MetadataImage, truth: Truth, state: PartitionState
    ) -> Iterator[str]:
        name = truth.name
        elr_on = image.features.get(ELR_FEATURE, 0) > 0
        candidates = (*state.isr, *state.elr)
        if any(member not in state.replicas for member in candidates):
            yield (
                f"invariant 13: {name}: ISR {state.isr} and ELR {state.elr} of replicas"
                f" {state.replicas}"
            )
        if not state.isr and not (elr_on and state.leader == NO_LEADER):
            yield f"invariant 13: {name}: no ISR, leader {state.leader}"
        if len(dict.fromkeys(candidates)) != len(candidates):
            yield f"invariant 13: {name}: ISR {state.isr} and ELR {state.elr} overlap"
        if state.elr and not elr_on:
            yield f"invariant 13: {name}: ELR {state.elr} without eligible leader replicas"
        if state.elr and len(state.isr) >= self.min_isr(image, truth, state):
            yield f"invariant 13: {name}: ISR {state.isr} suffices, ELR {state.elr} is kept"
        for member in state.isr:
            last_one = len(state.isr) == 1 and not elr_on
            if image.brokers[member].fenced and not last_one:
                yield f"invariant 13: {name}: broker {member} is fenced and in ISR {state.isr}"
        if state.leader != NO_LEADER and state.leader not in state.isr:
            yield f"invariant 12: {name}: leader {state.leader} is outside of ISR {state.isr}"

    def _check_change(
        self, truth: Truth, key: TopicIdPartition, old: PartitionState, state: PartitionState
    ) -> Iterator[str]:
        name = truth.name
        if state.partition_epoch <= old.partition_epoch:
            yield (
                f"invariant 14: {name}: partition epoch went from {old.partition_epoch} to"
                f" {state.partition_epoch}"
            )
        grown = state.leader_epoch - old.leader_epoch
        if grown < 0 or (state.leader != old.leader and grown == 0):
            yield (
                f"invariant 14: {name}: leader {old.leader} epoch {old.leader_epoch} became"
                f" leader {state.leader} epoch {state.leader_epoch}"
            )
        if state.unclean_epoch > truth.unclean_epoch and self._all.may_be_unclean(truth.topic):
            truth.unclean_epoch = state.unclean_epoch
            truth.is_cut = False
            truth.excused = {
                daemon.name: None
                for broker_id, daemon in self._all.cluster.brokers.items()
                if broker_id not in state.isr
            }
        self._count_change(old, state)
        for member in state.isr:
            if member not in old.isr:
                if grown == 0:
                    yield from self._check_proved(truth, key, state, member)
                yield from self._check_joined(truth, key, member)

    def _check_joined(self, truth: Truth, key: TopicIdPartition, member: int) -> Iterator[str]:
        daemon = self._all.cluster.brokers[member]
        if (daemon.name, key) in self._all.distrusted and not daemon.alive:
            return  # The controller does not know yet that it died.
        self._all.distrusted.pop((daemon.name, key), None)
        truth.excused.pop(daemon.name, None)
        if truth.is_cut:
            end = truth.ledger.end
            yield from self._all.check_committed(daemon, key, end, "invariant 15")

    def _check_proved(
        self, truth: Truth, key: TopicIdPartition, state: PartitionState, member: int
    ) -> Iterator[str]:
        """Check that a member back in the ISR knows the leader epoch since its latest start."""
        daemon = self._all.cluster.brokers[member]
        process = daemon.process
        if process is None or not process.alive or process is not self._registered.get(member):
            return
        replica = partitions_of(process).get(key)
        if replica is None or replica.leader_epoch < state.leader_epoch:
            yield (
                f"invariant 15: {truth.name}: {daemon.name} is back in ISR {state.isr} of epoch"
                f" {state.leader_epoch}, of which its present start knows nothing"
            )

    def _check_back(self, image: MetadataImage, broker_id: int) -> Iterator[str]:
        """Check that a broker back after an unclean end is no eligible leader of a partition."""
        daemon = self._all.cluster.brokers[broker_id]
        before = self._registered.get(broker_id)
        self._registered[broker_id] = daemon.process
        if before in (None, daemon.process, daemon.stopped_in_order):
            return
        for key, state in image.partitions():
            if broker_id in state.elr:
                name = f"{image.topics[key.topic_id].name}-{key.partition}"
                yield (
                    f"invariant 15: {name}: {daemon.name} is back after an unclean end and kept in"
                    f" ELR {state.elr}"
                )

    # -- what is remembered -----------------------------------------------------------------

    @staticmethod
    def min_isr(image: MetadataImage, truth: Truth, state: PartitionState) -> int:
        """Return the topic's min.insync.replicas, but at most the number of replicas."""
        text = image.configs.get((TOPIC, truth.topic), {}).get(MIN_ISR, DEFAULT_MIN_ISR)
        return min(int(text), len(state.replicas))

    def _follow_copies(self, image: MetadataImage, truth: Truth, state: PartitionState) -> None:
        min_isr = self.min_isr(image, truth, state)
        if len(state.isr) == len(state.replicas):
            truth.weakest_min_isr = min_isr
        else:
            truth.weakest_min_isr = min(truth.weakest_min_isr, min_isr)

    def _follow_deletions(self, image: MetadataImage) -> None:
        gone = [key for key in self._states if image.partition(*key) is None]
        for key in gone:
            del self._states[key]
            self._all.truths[key].is_deleted = True
            if key.partition == 0:
                self._note("topic-deleted")

    def _follow_brokers(self, image: MetadataImage) -> list[int]:
        """Return the ids of the brokers that have registered since the last image."""
        back: list[int] = []
        for broker_id, broker in image.brokers.items():
            old = self._brokers.get(broker_id)
            if old is broker or old == broker:
                continue
            self._brokers[broker_id] = broker
            if old is None or old.broker_epoch != broker.broker_epoch:
                self._note("broker-registered" if old is None else "broker-registered-again")
                back.append(broker_id)
            if broker.fenced and old is not None and not old.fenced:
                self._note("broker-fenced")
            if not broker.fenced and (old is None or old.fenced):
                self._note("broker-unfenced")
            if broker.in_controlled_shutdown and not (old and old.in_controlled_shutdown):
                self._note("broker-shutting-down")
        return back

    def _note(self, transition: str) -> None:
        self._all.coverage.note("transition", transition)

    def _count_change(self, old: PartitionState, state: PartitionState) -> None:
        note = self._note
        if any(member not in state.isr for member in old.isr):
            note("isr-shrunk" if state.isr else "isr-emptied")
        if any(member not in old.isr for member in state.isr):
            note("isr-grown")
        if state.leader == NO_LEADER and old.leader != NO_LEADER:
            note("leaderless")
        elif state.leader != NO_LEADER and state.leader_epoch > old.leader_epoch:
            if state.unclean_epoch > old.unclean_epoch:
                note("leader-uncleanly")
            elif state.leader in old.elr:
                note("leader-from-elr")
            else:
                note("leader-from-isr")
        if any(member not in old.elr for member in state.elr):
            note("elr-grown")
        if any(member not in state.elr for member in old.elr):
            note("elr-left")
        moving, moved = (old.adding or old.removing), (state.adding or state.removing)
        if moved and not moving:
            note("reassignment-began")
        elif moving and not moved:
            target = [each for each in old.replicas if each not in old.removing]
            done = sorted(target) == sorted(state.replicas)
            note("reassignment-completed" if done else "reassignment-cancelled")
