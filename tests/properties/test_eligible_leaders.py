"""Everything that can happen to partitions, in any order, with eligible leaders on and off.

Numbers are those of docs/invariants.md.
"""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from minikafka.controller.metadata import elections
from minikafka.controller.metadata.decision import Decision
from minikafka.controller.metadata.eligible_leaders import on_level_changed
from minikafka.protocol.control.image import MetadataImage, PartitionState
from minikafka.protocol.control.records import (
    ELIGIBLE_LEADERS,
    FeatureRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.types import NO_LEADER, TopicIdPartition

from ..controller.machine import Machine, error

pytestmark = pytest.mark.slow

BROKERS = st.integers(1, 5)
T = ("t", 0)


class EligibleLeaders(RuleBasedStateMachine):
    """t-0 on (1, 2, 3), five brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.incarnations = itertools.count(2)
        self.seen = 0
        self.image = MetadataImage()
        """Replayed record by record, and looked at after each."""
        self.emptied: dict[int, None] = {}
        """Brokers that restarted uncleanly and have not been in the ISR since."""
        self.unclean_epoch = -1

    @initialize(
        elr=st.sampled_from([True, True, False]),
        unclean=st.booleans(),
        min_isr=st.integers(1, 3),
    )
    def begin(self, elr: bool, unclean: bool, min_isr: int) -> None:
        self.machine = Machine(brokers_up=5, elr=elr, unclean=unclean, min_isr=min_isr)
        self.machine.are_reporting = False
        self.machine.create("t", replicas=[(1, 2, 3)])
        for offset, record in enumerate(self.machine.log):
            self.image.apply(record, offset)
        self.seen = len(self.machine.log)

    @property
    def state(self) -> PartitionState:
        return self.machine.state("t")

    @property
    def has_elr(self) -> bool:
        return self.machine.cluster.has_eligible_leaders

    # What may happen.

    @rule(broker=BROKERS)
    def lease_ends(self, broker: int) -> None:
        self.machine.fence(broker)

    @rule(broker=BROKERS)
    def comes_back(self, broker: int) -> None:
        self.machine.beat(broker)

    @rule(broker=BROKERS, clean=st.booleans(), directory=st.sampled_from([0, 0, 0, 1]))
    def restarts(self, broker: int, clean: bool, directory: int) -> None:
        was = self.machine.broker(broker).directory_ids
        self.machine.live[broker] = False
        answer = self.machine.register(
            broker, incarnation=next(self.incarnations), clean=clean, directories=[directory]
        )
        assert not answer.error
        if not clean or was != self.machine.broker(broker).directory_ids:
            self.emptied[broker] = None
            assert broker not in self.state.elr
            assert broker not in self.state.isr or not self.has_elr or self.state.leader != broker

    @rule(broker=BROKERS, may_wait=st.booleans())
    def stops(self, broker: int, may_wait: bool) -> None:
        self.machine.beat(broker, want_shutdown=True, applied_by_others=1 << 40, may_wait=may_wait)

    @rule(members=st.lists(BROKERS, min_size=1, max_size=4))
    def leader_proposes(self, members: list[int]) -> None:
        if self.state.leader != NO_LEADER:
            self.machine.alter("t", members)

    @rule()
    def everyone_catches_up(self) -> None:
        state = self.state
        if state.leader != NO_LEADER:
            living = [each for each in state.replicas if self.machine.cluster.is_active(each)]
            if state.recovering:
                self.machine.alter("t", [state.leader])
            self.machine.alter("t", list(dict.fromkeys([state.leader, *living])))

    @rule(broker=BROKERS)
    def loses_its_disk(self, broker: int) -> None:
        self.machine.lose_directory(broker, T)
        if broker in self.state.replicas:
            self.emptied[broker] = None

    @rule(brokers=st.lists(BROKERS, min_size=1, max_size=5), ends=st.data())
    def reports(self, brokers: list[int], ends: st.DataObject) -> None:
        numbers = st.integers(0, 3)
        for broker in brokers:
            self.machine.ends[broker] = (ends.draw(numbers), ends.draw(numbers))
        self.machine.report(*dict.fromkeys(brokers))

    @rule()
    def two_seconds_pass(self) -> None:
        self.machine.now_ms += 2_000
        self.machine.elect_longest()

    @rule(how=st.sampled_from(ElectionType))
    def operator_elects(self, how: ElectionType) -> None:
        self.machine.elect(how, T)

    @rule()
    def leaders_are_balanced(self) -> None:
        self.machine.carry_out(elections.balance(self.machine.cluster, 10))

    @rule(brokers=st.none() | st.lists(BROKERS, min_size=1, max_size=4))
    def operator_moves(self, brokers: list[int] | None) -> None:
        self.machine.reassign(T, brokers)

    @rule(value=st.integers(1, 3))
    def min_isr_changes(self, value: int) -> None:
        assert error(self.machine.configure("t", min_insync_replicas=str(value))) == 0

    @rule(value=st.sampled_from(["true", "false"]))
    def unclean_election_is_switched(self, value: str) -> None:
        self.machine.configure("t", unclean_leader_election_enable=value)

    @rule()
    def the_feature_is_switched(self) -> None:
        level = 0 if self.has_elr else 1
        for broker in self.state.isr:
            if level == 1 and broker not in self.state.offline:
                # The last in sync was trusted by its name; it goes on being so.
                self.emptied.pop(broker, None)
        records = [
            FeatureRecord(ELIGIBLE_LEADERS, level),
            *on_level_changed(self.machine.cluster, level),
        ]
        self.machine.carry_out(Decision(None, records))

    # What always holds.

    @invariant()
    def every_record_keeps_what_must_hold(self) -> None:
        log = self.machine.log
        while self.seen < len(log):
            record = log[self.seen]
            before = dict(self.image.partitions())
            self.image.apply(record, self.seen)
            self.seen += 1
            if isinstance(record, PartitionChangeRecord | PartitionRecord):
                key = TopicIdPartition(record.topic_id, record.partition)
                old, new = before.get(key), self.image.partition(*key)
                assert new is not None
                if old is not None and isinstance(record, PartitionChangeRecord):
                    self.check_change(old, new, record)
        assert self.image == self.machine.image  # 19

    def check_change(
        self, old: PartitionState, new: PartitionState, record: PartitionChangeRecord
    ) -> None:
        assert new.partition_epoch == old.partition_epoch + 1  # 14
        grown = new.leader_epoch - old.leader_epoch
        assert grown == (record.leader is not None)
        if new.leader != old.leader or any(each not in new.replicas for each in old.replicas):
            assert grown == 1
        assert new != old, "a record changes something"
        if new.unclean_epoch != old.unclean_epoch:
            assert new.unclean_epoch == new.leader_epoch
            assert (new.isr, new.elr, new.recovering) == ((new.leader,), (), True)
            assert old.electing
        elif new.leader != NO_LEADER and new.leader != old.leader:
            self.check_clean_winner(old, new)
        for member in new.isr:
            if member not in old.isr:
                # It was proposed by the leader, or elected: it has what the leader has.
                self.emptied.pop(member, None)

    def check_clean_winner(self, old: PartitionState, new: PartitionState) -> None:
        """A clean leader was in sync, is in sync now by the same change, or was eligible."""
        assert new.leader in (*old.isr, *old.elr) or new.leader in new.isr
        assert new.leader in new.isr
        if old.leader == NO_LEADER:
            assert new.leader in (*old.isr, *old.elr, *old.last_known_elr)

    @invariant()
    def i_13_members_are_what_they_must_be(self) -> None:
        state, cluster = self.state, self.machine.cluster
        members = (*state.isr, *state.elr)
        assert len(dict.fromkeys(members)) == len(members)
        assert all(each in state.replicas for each in (*members, *state.last_known_elr))
        assert not any(each in members for each in state.last_known_elr)
        assert not any(each in state.offline for each in state.isr if state.leader == each)
        if len(state.isr) >= state.effective_min_isr(cluster.min_isr("t")):
            assert state.elr == ()
        if self.has_elr:
            for member in state.isr:
                assert cluster.living.may_stay(member), "a fenced broker is in no ISR"
        else:
            assert state.elr == ()
        if state.leader != NO_LEADER:
            assert state.leader in state.isr
            assert not state.electing
            assert cluster.living.may_stay(state.leader)
        if state.recovering and state.leader != NO_LEADER:
            assert state.isr == (state.leader,)

    @invariant()
    def i_07_somebody_is_known_where_nobody_is_in_sync(self) -> None:
        state = self.state
        if not state.isr and not state.elr:
            assert state.last_known_elr or state.electing

    @invariant()
    def i_15_who_may_have_lost_something_is_trusted_with_nothing(self) -> None:
        """But as the last in sync where there are no eligible leaders: see scenario E-02."""
        state = self.state
        for broker in self.emptied:
            assert broker not in state.elr
            if self.has_elr:
                assert broker not in state.isr

    @invariant()
    def i_29_whoever_may_lead_does(self) -> None:
        state, cluster = self.state, self.machine.cluster
        if state.leader != NO_LEADER or state.directories:
            return
        able = [
            each for each in state.replicas if cluster.is_active(each) and each not in state.offline
        ]
        assert not any(each in able for each in state.isr or state.elr)
        known = state.last_known_elr
        are_back = known and not state.elr and all(each in able for each in known)
        if able and (cluster.unclean_election("t") or are_back):
            assert state.electing

    def teardown(self) -> None:
        image = MetadataImage()
        for offset, record in enumerate(self.machine.log):
            image.apply(record, offset)
        assert image == self.machine.image


TestEligibleLeaders = EligibleLeaders.TestCase
TestEligibleLeaders.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
