"""Leader and two followers under random delivery, crashes and elections.

What was acknowledged stays, whatever happens short of losing a disk; replicas agree below their
high watermarks; nothing committed is ever truncated. Bugs planted in the machines are found.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from minikafka.broker.replica.follower import FollowerReplica
from minikafka.broker.replica.leader import LeaderReplica

from ..broker.model import LAG_MAX_MS, Answer, Broker, Cluster, Proposal, Verdict

BROKERS = st.sampled_from((1, 2, 3))
FEW = settings(
    max_examples=40,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=400, stateful_step_count=80)


class Replication(RuleBasedStateMachine):
    """One partition, min ISR 2, clean elections only."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(min_isr=2)
        self.cluster.publish()
        self.values = 0
        self.waiting: list[tuple[int, int, int, str]] = []
        self.acknowledged: dict[int, str] = {}
        self.deleted_below = 0

    @rule(broker=BROKERS)
    def produce(self, broker: int) -> None:
        """To whoever believes to lead: zombies are asked too."""
        replica = self.cluster.brokers[broker]
        if replica.leader is None or not replica.leader.has_min_isr:
            return
        self.values += 1
        value = f"v{self.values}"
        offset = replica.append(value, self.cluster.now_ms)
        self.waiting.append((broker, replica.metadata_epoch, offset, value))

    @rule(broker=BROKERS)
    def fetch(self, broker: int) -> None:
        self.cluster.fetch(broker)

    @rule(broker=BROKERS, times=st.integers(1, 3))
    def fetch_and_hear(self, broker: int, times: int) -> None:
        for _ in range(times):
            request = self.cluster.fetch(broker)
            if request is None:
                return
            self.cluster.deliver(request)
            for message in list(self.cluster.messages):
                if isinstance(message, Answer) and message.request is request:
                    self.cluster.deliver(message)

    @rule(which=st.integers(0, 7))
    def deliver(self, which: int) -> None:
        if self.cluster.messages:
            self.cluster.deliver(self.cluster.messages[which % len(self.cluster.messages)])

    @rule(which=st.integers(0, 7))
    def lose(self, which: int) -> None:
        """A proposal without an answer is sent again, as the broker would."""
        messages = self.cluster.messages
        if messages:
            lost = messages.pop(which % len(messages))
            if isinstance(lost, Proposal | Verdict):
                messages.append(lost if isinstance(lost, Proposal) else lost.proposal)

    @rule(broker=BROKERS)
    def hear_metadata(self, broker: int) -> None:
        self.cluster.publish(broker)

    @rule(broker=BROKERS)
    def crash(self, broker: int) -> None:
        replica = self.cluster.brokers[broker]
        if replica.is_alive:
            replica.crash()

    @rule(broker=BROKERS, fenced_first=st.booleans())
    def restart(self, broker: int, fenced_first: bool) -> None:
        if not self.cluster.brokers[broker].is_alive:
            if fenced_first:
                self.cluster.controller.fence(broker)
            self.cluster.restart(broker)

    @rule(broker=BROKERS)
    def checkpoint(self, broker: int) -> None:
        replica = self.cluster.brokers[broker]
        if replica.is_alive:
            replica.checkpointed = replica.high_watermark

    @rule(broker=BROKERS, kept=st.integers(0, 2))
    def delete_records(self, broker: int, kept: int) -> None:
        """Of those that are committed, all but a few."""
        replica = self.cluster.brokers[broker]
        start = replica.high_watermark - kept
        if replica.leader is not None and start > replica.log.log_start_offset:
            replica.log.raise_start(start)
            self.deleted_below = max(start, self.deleted_below)

    @rule(broker=BROKERS)
    def fence(self, broker: int) -> None:
        self.cluster.controller.fence(broker)

    @rule(broker=BROKERS)
    def unfence(self, broker: int) -> None:
        if self.cluster.brokers[broker].is_alive:
            self.cluster.controller.unfence(broker)

    @rule(broker=BROKERS)
    def prefer(self, broker: int) -> None:
        self.cluster.controller.prefer(broker)

    @rule(passed_ms=st.sampled_from((1, LAG_MAX_MS // 2, LAG_MAX_MS // 2 + 1)))
    def wait(self, passed_ms: int) -> None:
        """Fetches come quickly or slowly."""
        self.cluster.now_ms += passed_ms

    @rule(broker=BROKERS)
    def lag(self, broker: int) -> None:
        self.cluster.now_ms += LAG_MAX_MS + 1
        replica = self.cluster.brokers[broker]
        if replica.leader is not None:
            replica.carry_out_leader(replica.leader.on_lag_check(self.cluster.now_ms))
            self.cluster._collect(replica)

    @invariant()
    def acknowledged_records_are_on_every_candidate(self) -> None:
        self._acknowledge()
        for member in self.cluster.controller.metadata.isr:
            self._holds_all(self.cluster.brokers[member])

    @invariant()
    def replicas_agree_below_their_high_watermarks(self) -> None:
        """On their disks: below their log starts, too."""
        replicas = list(self.cluster.brokers.values())
        for one in replicas:
            for other in replicas:
                first = max(one.log.first_offset, other.log.first_offset)
                agreed = max(first, min(one.high_watermark, other.high_watermark))
                assert (
                    one.log.read(first)[: agreed - first] == other.log.read(first)[: agreed - first]
                )

    @invariant()
    def nothing_committed_is_truncated(self) -> None:
        assert not [line for line in self.cluster.story if "halted" in line]

    @invariant()
    def whoever_is_proposed_has_proved_it_in_this_epoch(self) -> None:
        for broker in self.cluster.brokers.values():
            leader = broker.leader
            if leader is None or leader.proposal is None:
                continue
            for member, _ in leader.proposal.isr:
                if member not in (leader.broker_id, *leader.isr):
                    held = leader.followers[member].held_offset
                    assert held >= leader.epoch_start_offset, f"{member} joins at {held}"

    @invariant()
    def the_leader_waits_for_everyone_it_should(self) -> None:
        now = self.cluster.controller.metadata
        if now.leader < 0:
            return
        leader = self.cluster.brokers[now.leader].leader
        if leader is not None and leader.metadata.leader_epoch == now.leader_epoch:
            assert set(now.isr) <= set(leader.maximal_isr)

    def teardown(self) -> None:
        """Faults stop: everybody returns, and all logs become one."""
        for broker in self.cluster.brokers.values():
            if not broker.is_alive:
                self.cluster.restart(broker.id)
        for broker in self.cluster.brokers.values():
            self.cluster.controller.unfence(broker.id)
        for _ in range(4):
            self.cluster.now_ms += LAG_MAX_MS
            self.cluster.settle()
        self.acknowledged_records_are_on_every_candidate()
        logs = [broker.log for broker in self.cluster.brokers.values()]
        first = max(log.first_offset for log in logs)
        assert logs[0].read(first) == logs[1].read(first) == logs[2].read(first)
        assert set(self.cluster.controller.metadata.isr) == {1, 2, 3}

    def _acknowledge(self) -> None:
        waiting, self.waiting = self.waiting, []
        for entry in waiting:
            broker, epoch, offset, value = entry
            leader = self.cluster.brokers[broker].leader
            if leader is None or leader.metadata.leader_epoch != epoch:
                continue  # Answered NOT_LEADER_OR_FOLLOWER: the outcome is unknown.
            if leader.high_watermark <= offset:
                self.waiting.append(entry)
            elif leader.commits_with_min_isr:
                self.acknowledged[offset] = value

    def _holds_all(self, broker: Broker) -> None:
        held = dict(broker.log.numbered())
        assert broker.log.first_offset <= self.deleted_below
        for offset, value in self.acknowledged.items():
            if offset < broker.log.first_offset:
                continue
            assert held.get(offset, (0, "nothing"))[1] == value, f"{offset} on {broker.id}"


def test_what_was_acknowledged_survives_everything() -> None:
    run_state_machine_as_test(Replication, settings=FEW)


@pytest.mark.slow
def test_what_was_acknowledged_survives_everything_for_longer() -> None:
    run_state_machine_as_test(Replication, settings=MANY)


@contextmanager
def patched(owner: type, name: str, value: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        yield


def counting_the_fastest(leader: LeaderReplica) -> None:
    fastest = max(
        (leader.followers[m] for m in leader.isr if m != leader.broker_id),
        key=lambda progress: progress.log_end_offset,
        default=None,
    )
    leader._quorum = () if fastest is None else (fastest,)


def trusting_any_prefix(self: FollowerReplica, *_: object) -> tuple[()]:
    return ()


def shrinking_at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    """Scenario B-02: the ISR is smaller as soon as that is proposed."""

    def check(leader: LeaderReplica, now_ms: int) -> Any:
        effects = original(leader, now_ms)
        if leader.proposal is not None:
            isr = tuple(broker for broker, _ in leader.proposal.isr)
            leader.metadata = replace(leader.metadata, isr=isr)
            leader._count_quorum()
        return effects

    return check


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (LeaderReplica, "_count_quorum", counting_the_fastest),
        (FollowerReplica, "_on_diverging", trusting_any_prefix),
        (LeaderReplica, "on_lag_check", shrinking_at_once(LeaderReplica.on_lag_check)),
    ],
    ids=["fastest-follower", "no-truncation", "b-02"],
)
def test_a_planted_bug_is_found(owner: type, name: str, bug: object) -> None:
    quick = settings(MANY, phases=(Phase.generate,))
    with patched(owner, name, bug), pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Replication, settings=quick)
