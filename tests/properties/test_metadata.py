"""Registrations, fencing, elections and ISR changes in any order: what always holds.

Numbers are those of docs/invariants.md.
"""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.protocol.control.batches import load_snapshot, snapshot_batches
from minikafka.protocol.control.image import MetadataImage, PartitionState
from minikafka.protocol.control.messages import SnapshotId
from minikafka.protocol.control.records import (
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import NO_LEADER, TopicIdPartition

from ..controller.machine import Machine, error

pytestmark = pytest.mark.slow

BROKERS = st.integers(1, 4)
NAMES = st.sampled_from(["a", "b"])
UNCLEAN = "unclean.leader.election.enable"


class Metadata(RuleBasedStateMachine):
    """One machine, watched."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.incarnations: dict[int, int] = {}
        self.seen = 0
        """Records already looked at."""
        self.before: dict[TopicIdPartition, PartitionState] = {}
        self.leaders: dict[tuple[TopicIdPartition, int], int] = {}
        self.snapshot: tuple[bytes, SnapshotId] | None = None

    @initialize(unclean=st.booleans())
    def begin(self, unclean: bool) -> None:
        self.machine = Machine(brokers_up=3, unclean=unclean)
        self.incarnations = {1: 1, 2: 1, 3: 1}

    # What may happen.

    @rule(broker=BROKERS, is_new=st.booleans(), directory=st.integers(0, 1))
    def register(self, broker: int, is_new: bool, directory: int) -> None:
        incarnation = self.incarnations.get(broker, 0) + (is_new or broker not in self.incarnations)
        before = len(self.machine.log)
        live = self.machine.live.get(broker, False)
        old = self.machine.image.brokers.get(broker)
        answer = self.machine.register(broker, incarnation=incarnation, directories=[directory])
        if answer.error:
            assert error(answer) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert live
            assert len(self.machine.log) == before
            return
        self.incarnations[broker] = incarnation
        now = self.machine.broker(broker)
        assert answer.broker_epoch == now.broker_epoch
        if old is None or old.incarnation_id != now.incarnation_id:
            assert now.broker_epoch >= before
            record = self.machine.log[now.broker_epoch]
            assert isinstance(record, RegisterBrokerRecord)
            assert (record.broker_id, record.incarnation_id) == (broker, now.incarnation_id)
            assert now.fenced
        else:
            assert (now.broker_epoch, now.fenced) == (old.broker_epoch, old.fenced)

    @rule(
        broker=BROKERS,
        wish=st.sampled_from(["serve", "serve", "fence", "shut down"]),
        is_behind=st.booleans(),
        others=st.none() | st.integers(-1, 200),
    )
    def beat(self, broker: int, wish: str, is_behind: bool, others: int | None) -> None:
        if broker not in self.machine.image.brokers:
            return
        before = self.machine.broker(broker)
        answer = self.machine.beat(
            broker,
            want_fence=wish == "fence",
            want_shutdown=wish == "shut down",
            metadata_offset=before.broker_epoch - 1 if is_behind else before.broker_epoch,
            applied_by_others=others,
        )
        self.machine.live[broker] = True
        after = self.machine.broker(broker)
        assert answer.is_fenced == after.fenced
        if before.fenced and is_behind:
            assert after.fenced  # Scenario D-07
        if answer.should_shut_down:
            assert after.fenced
            assert self.led_by(broker) == 0

    @rule(broker=BROKERS)
    def lease_ends(self, broker: int) -> None:
        if broker in self.machine.image.brokers:
            self.machine.fence(broker)

    @rule(name=NAMES, partitions=st.integers(1, 3), factor=st.integers(1, 3))
    def create(self, name: str, partitions: int, factor: int) -> None:
        alive = len(self.machine.cluster.active_brokers())
        exists = name in self.machine.image.topic_ids
        code = error(self.machine.create(name, partitions, factor))
        assert (code == 0) == (not exists and factor <= alive)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.machine.delete(name)

    @rule(name=NAMES, count=st.integers(1, 5))
    def grow(self, name: str, count: int) -> None:
        self.machine.grow(name, count)

    @rule(name=NAMES, members=st.lists(BROKERS, max_size=4), stale=st.integers(0, 2))
    def propose(self, name: str, members: list[int], stale: int) -> None:
        """The leader, a zombie or nonsense: only an ISR of the living may come of it."""
        topic = self.machine.image.topic(name)
        if topic is None:
            return
        state = topic.partitions[0]
        if state.leader == NO_LEADER:
            return
        epochs: dict[str, Any] = {
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
        }
        if stale:
            epochs["partition_epoch" if stale == 1 else "leader_epoch"] -= 1
        answer = self.machine.alter(name, members, **epochs)
        after = self.machine.state(name)
        if answer.error:
            assert after == state
        else:
            assert not stale
            assert after.isr == tuple(members)
            assert after.leader == state.leader in members
            assert after.leader_epoch == state.leader_epoch

    @rule(name=NAMES, value=st.sampled_from(["true", "false", None]), everywhere=st.booleans())
    def allow_unclean_election(self, name: str, value: str | None, everywhere: bool) -> None:
        how: dict[str, Any] = {"operation": 1 if value is None else 0}
        if everywhere:
            self.machine.configure("", kind=4, unclean_leader_election_enable=value, **how)
        else:
            self.machine.configure(name, unclean_leader_election_enable=value, **how)

    @rule()
    def take_snapshot(self) -> None:
        image = self.machine.image
        data = b"".join(snapshot_batches(image, 0))
        self.snapshot = (data, SnapshotId(image.offset + 1, image.epoch))

    # What always holds.

    def led_by(self, broker: int) -> int:
        return sum(state.leader == broker for _, state in self.machine.image.partitions())

    @invariant()
    def i_12_one_leader_per_leader_epoch(self) -> None:
        for partition, state in self.machine.image.partitions():
            leader = self.leaders.setdefault((partition, state.leader_epoch), state.leader)
            assert leader == state.leader

    @invariant()
    def i_13_members_are_replicas_that_live_or_the_last_that_did(self) -> None:
        for _, state in self.machine.image.partitions():
            assert state.isr
            assert len(set(state.isr)) == len(state.isr)
            assert set(state.isr) <= set(state.replicas)
            assert state.elr == ()
            dead = [each for each in state.isr if not self.machine.cluster.is_active(each)]
            assert not dead or (len(state.isr) == 1 and state.leader == NO_LEADER)
            if state.leader != NO_LEADER:
                assert state.leader in state.isr
            if state.recovering and state.leader != NO_LEADER:
                assert state.isr == (state.leader,)

    @invariant()
    def i_29_whoever_may_lead_does(self) -> None:
        for partition, state in self.machine.image.partitions():
            if state.leader != NO_LEADER:
                continue
            if not self.is_copy_away(state):
                assert not any(self.machine.cluster.is_active(each) for each in state.isr)
            topic = self.machine.image.topics[partition.topic_id]
            if self.machine.cluster.unclean_election(topic.name):
                assert not any(self.machine.cluster.is_active(each) for each in state.replicas)

    def is_copy_away(self, state: PartitionState) -> bool:
        """Are its last good records on a disk that its broker came back without?"""
        brokers = self.machine.image.brokers
        there = [each for member in state.isr for each in brokers[member].directory_ids]
        return any(directory not in there for directory in state.directories)

    @invariant()
    def i_14_epochs_grow_by_one_for_each_change(self) -> None:
        changes: dict[TopicIdPartition, list[PartitionChangeRecord]] = {}
        for record in self.machine.log[self.seen :]:
            if isinstance(record, PartitionChangeRecord):
                partition = TopicIdPartition(record.topic_id, record.partition)
                changes.setdefault(partition, []).append(record)
        self.seen = len(self.machine.log)
        now = dict(self.machine.image.partitions())
        for partition, state in now.items():
            old = self.before.get(partition)
            if old is None:
                continue
            made = changes.get(partition, [])
            elections = sum(record.leader is not None for record in made)
            assert state.partition_epoch == old.partition_epoch + len(made)
            assert state.leader_epoch == old.leader_epoch + elections
            # Once for each decision; an unclean election is two.
            assert len(made) <= 1 + any(record.electing for record in made)
            assert bool(made) == (state != old)
            for record in made:
                if record.recovering:
                    topic = self.machine.image.topics[partition.topic_id]
                    assert self.machine.cluster.unclean_election(topic.name)
                    assert state.unclean_epoch == state.leader_epoch
        self.before = now

    @precondition(lambda self: self.snapshot is not None)
    @invariant()
    def i_19_snapshot_and_tail_are_the_log(self) -> None:
        assert self.snapshot is not None
        image = load_snapshot(*self.snapshot)
        for offset in range(image.offset + 1, len(self.machine.log)):
            image.apply(self.machine.log[offset], offset)
        assert image == self.machine.image

    def teardown(self) -> None:
        image = MetadataImage()
        for offset, record in enumerate(self.machine.log):
            image.apply(record, offset)
        assert image == self.machine.image


TestMetadata = Metadata.TestCase
