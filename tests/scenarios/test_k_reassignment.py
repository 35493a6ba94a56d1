"""Scenarios K: replicas move to other brokers."""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from minikafka.protocol.types import NO_LEADER

from ..controller.machine import Machine, error
from ..simulation.stage import Stage, staged
from .eligible import MIN_ISR, cut_off, holds

T = ("t", 0)


def machine(*replicas: int, brokers: int = 6, min_isr: int = 2) -> Machine:
    """t-0 on these brokers, all in sync, the first leads."""
    made = Machine(brokers_up=brokers, elr=True, min_isr=min_isr)
    made.create("t", replicas=[replicas])
    return made


async def reassign(stage: Stage, replicas: list[int] | None, broker: int = 1) -> int:
    """Move t-0 there, or cancel; the error code."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topics = [ReassignableTopic(name="t", partitions=[partition])]
    answer = await stage.ask(broker, AlterPartitionReassignmentsRequest(topics=topics))
    return int(answer.responses[0].partitions[0].error_code)


async def moving(stage: Stage, broker: int = 1) -> list[tuple[list[int], list[int]]]:
    """Newcomers and leavers of every partition on the move, as a client is told."""
    answer = await stage.ask(broker, ListPartitionReassignmentsRequest(topics=None))
    return [
        (list(each.adding_replicas), list(each.removing_replicas))
        for topic in answer.topics
        for each in topic.partitions
    ]


@staged(brokers=4)
async def test_k_01_a_replica_moves_and_the_old_one_is_deleted(stage: Stage) -> None:
    """Given t-0 on (1, 2, 3); when it is to be on (1, 2, 4) and 4 has caught up; then one record
    completes it, 3 deletes its copy, and the ISR never has fewer than three members."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0", b"1")
    assert await reassign(stage, [1, 2, 4]) == ErrorCode.NONE
    await stage.until(lambda: stage.state("t").replicas == (1, 2, 4), "it has moved")
    state = stage.state("t")
    assert sorted(state.isr) == [1, 2, 4]
    assert (state.adding, state.removing) == ((), ())
    assert await moving(stage) == []
    await stage.until(lambda: not holds(stage, 3), "3 has deleted it")
    await stage.send("t", b"2")
    assert await stage.read("t") == [b"0", b"1", b"2"]
    assert [each.leader_epoch for each in stage.log(4, "t")] == [0, 0, 1]


def test_k_01_the_isr_is_not_made_smaller_than_min_isr_by_the_move() -> None:
    """Given one of those who are to stay out of sync; when the newcomer is in sync; then whoever is
    to go stays until enough others are."""
    moved = machine(1, 2, 3)
    assert moved.reassign(T, [4, 1]) == ErrorCode.NONE
    moved.fence(1)
    assert moved.state("t").leader in (2, 3)
    moved.alter("t", [2, 3, 4])
    state = moved.state("t")
    assert state.replicas == (4, 1, 2, 3)
    assert sorted(state.isr) == [2, 3, 4]
    moved.come_up(1, incarnation=2)
    answer = moved.alter("t", [2, 3, 4, 1])
    assert error(answer) == ErrorCode.NEW_LEADER_ELECTED
    state = moved.state("t")
    assert (state.replicas, sorted(state.isr), state.leader) == ((4, 1), [1, 4], 4)


def test_k_01_newcomers_do_not_raise_the_number_that_must_be_in_sync() -> None:
    """Given one replica and min ISR 2, which one replica makes 1; when it is to be on three; then
    it is not short of members while the newcomers catch up."""
    moved = machine(1)
    moved.reassign(T, [1, 2, 3])
    state = moved.state("t")
    assert (state.isr, state.elr, state.leader) == ((1,), (), 1)
    assert state.effective_min_isr(2) == 1
    assert error(moved.alter("t", [1, 2, 3])) == 0
    assert moved.state("t").effective_min_isr(2) == 2


@staged(brokers=4)
async def test_k_02_a_leader_that_is_moved_out_is_told_so(stage: Stage) -> None:
    """Given leader 1, to be replaced by 4; when its own proposal brings 4 in; then the answer is
    NEW_LEADER_ELECTED, 1 waits for metadata and deletes its copy, and a producer goes on."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    producer = await stage.producer()
    await producer.send("t", b"0")
    assert await reassign(stage, [4, 2, 3]) == ErrorCode.NONE
    await stage.until(lambda: stage.state("t").replicas == (4, 2, 3), "it has moved")
    assert stage.state("t").leader == 4
    assert any("NEW_LEADER_ELECTED" in line for line in stage.logs(1)), stage.logs(1)
    await producer.send("t", b"1")
    assert await stage.read("t") == [b"0", b"1"]
    await stage.until(lambda: not holds(stage, 1), "1 has deleted it")


def test_k_02_the_record_is_written_though_the_answer_is_an_error() -> None:
    """Given the same by itself: the one error that has an effect."""
    moved = machine(1, 2, 3)
    moved.reassign(T, [4, 2, 3])
    before = moved.state("t")
    answer = moved.alter("t", [1, 2, 3, 4])
    after = moved.state("t")
    assert error(answer) == ErrorCode.NEW_LEADER_ELECTED
    assert (after.replicas, sorted(after.isr), after.leader) == ((4, 2, 3), [2, 3, 4], 4)
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


@staged(brokers=4)
async def test_k_03_a_cancelled_move_leads_back_to_where_it_began(stage: Stage) -> None:
    """Given a move that 4 cannot complete, as it hears nothing of the leader; when it is cancelled;
    then the replicas are those of before, 4 deletes what it has, and nothing is lost."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    await stage.send("t", b"0")
    stage.cut(1, 4)
    assert await reassign(stage, [4, 2, 3]) == ErrorCode.NONE
    assert await moving(stage) == [([4], [1])]
    await stage.send("t", b"1")
    await stage.sleep(1)
    assert await moving(stage) == [([4], [1])]
    assert await reassign(stage, None) == ErrorCode.NONE
    state = stage.state("t")
    assert sorted(state.replicas) == [1, 2, 3]
    assert (state.adding, state.removing, state.leader) == ((), (), 1)
    assert await reassign(stage, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    stage.heal()
    await stage.until(lambda: not holds(stage, 4), "4 has deleted it")
    assert await stage.read("t") == [b"0", b"1"]


def test_k_03_a_cancelled_move_elects_among_those_of_before() -> None:
    """Given a newcomer that leads already; when the move is cancelled; then one of those leads who
    were there before and are in sync; if none is, it cannot be cancelled without loss."""
    moved = machine(1, 2, 3, brokers=5)
    moved.reassign(T, [4, 5, 1])
    moved.alter("t", [1, 2, 3, 4])
    moved.fence(1)
    assert moved.state("t").leader == 4
    assert moved.reassign(T, None) == ErrorCode.NONE
    state = moved.state("t")
    assert (sorted(state.replicas), state.isr, state.leader) == ([1, 2, 3], (2, 3), 2)
    stuck = machine(1, 2, 3, brokers=5)
    stuck.reassign(T, [4, 5, 1])
    stuck.alter("t", [1, 2, 3, 4])
    stuck.fence(1)
    stuck.alter("t", [4])
    stuck.fence(2, 3)
    for broker in (1, 2, 3):
        stuck.register(broker, incarnation=2)
    assert stuck.state("t").isr == (4,)
    assert stuck.reassign(T, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_k_03_a_new_target_lets_go_of_newcomers_it_does_not_need() -> None:
    """Given a move to 4 under way; when it is to be 5 instead; then 4 is out at once; cancelling
    leads back to the replicas there were at first."""
    moved = machine(1, 2, 3)
    moved.reassign(T, [4, 2, 3])
    moved.reassign(T, [5, 2, 3])
    state = moved.state("t")
    assert (state.replicas, state.adding, state.removing) == ((5, 2, 3, 1), (5,), (1,))
    moved.reassign(T, None)
    state = moved.state("t")
    assert (sorted(state.replicas), state.adding, state.removing) == ([1, 2, 3], (), ())


@pytest.mark.parametrize("phase", ["begun", "caught up", "completed"])
def test_k_04_a_controller_that_fails_in_any_phase_changes_nothing(phase: str) -> None:
    """Given a move in any of its phases, on three controllers; when the active one is killed; then
    the next completes it."""

    async def story(stage: Stage) -> None:
        await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
        await stage.send("t", b"0")
        stage.cut(1, 4)
        assert await reassign(stage, [4, 2, 3]) == ErrorCode.NONE
        if phase != "begun":
            stage.heal()
        if phase == "caught up":
            await stage.until(lambda: stage.partition(4, "t").log_end_offset == 1, "4 has it")
        if phase == "completed":
            await stage.until(lambda: not stage.state("t").adding, "it has moved")
        active = stage.active_name()
        assert active is not None
        stage.kill(active)
        stage.heal()
        await stage.until(lambda: stage.active_name() not in (None, active), "another is active")
        await stage.until(lambda: stage.state("t").replicas == (4, 2, 3), "it has moved")
        await stage.send("t", b"1")
        assert await stage.read("t") == [b"0", b"1"]

    Stage(brokers=4, controllers=3).play(story)


@staged(brokers=6)
async def test_k_05_it_may_move_to_others_altogether(stage: Stage) -> None:
    """Given t-0 on (1, 2, 3); when it is to be on (4, 5, 6); then it is, with all it had."""
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    producer = await stage.producer()
    for number in range(5):
        await producer.send("t", b"%d" % number)
    assert await reassign(stage, [4, 5, 6]) == ErrorCode.NONE
    for number in range(5, 10):
        await producer.send("t", b"%d" % number)
    await stage.until(lambda: stage.state("t").replicas == (4, 5, 6), "it has moved")
    assert stage.state("t").leader in (4, 5, 6)
    await producer.send("t", b"10")
    assert await stage.read("t") == [b"%d" % number for number in range(11)]
    for broker in (1, 2, 3):
        assert not holds(stage, broker)


def test_k_06_a_preferred_leader_that_joined_last_is_elected_cleanly() -> None:
    """Given a newcomer that is the preferred leader; when the change that brings it in elects it;
    then the election is clean: it is in the ISR that this change makes (KAFKA-19212)."""
    moved = machine(1)
    moved.reassign(T, [4])
    answer = moved.alter("t", [1, 4])
    state = moved.state("t")
    assert error(answer) == ErrorCode.NEW_LEADER_ELECTED
    assert (state.replicas, state.isr, state.leader) == ((4,), (4,), 4)
    assert not state.recovering
    assert state.unclean_epoch == -1


@staged(brokers=4)
async def test_k_06_in_a_whole_cluster(stage: Stage) -> None:
    """Given the only replica of a topic; when it moves; then nobody truncates or reports a loss."""
    await stage.create_topic("t", [[1]], configs={MIN_ISR: "1"})
    await stage.send("t", b"0")
    assert await reassign(stage, [4]) == ErrorCode.NONE
    await stage.until(lambda: stage.state("t").replicas == (4,), "it has moved")
    assert stage.state("t").unclean_epoch == -1
    await stage.send("t", b"1")
    assert await stage.read("t") == [b"0", b"1"]


# What belongs to them.


def test_a_move_that_has_nothing_to_wait_for_is_done_at_once() -> None:
    """Fewer replicas, or the same in another order."""
    moved = machine(1, 2, 3)
    moved.reassign(T, [3, 2, 1])
    assert (moved.state("t").replicas, moved.state("t").leader) == ((3, 2, 1), 1)
    moved.reassign(T, [2, 3])
    state = moved.state("t")
    assert (state.replicas, sorted(state.isr), state.leader) == ((2, 3), [2, 3], 2)
    assert (state.adding, state.removing) == ((), ())


@pytest.mark.parametrize(
    ("named", "replicas", "expected"),
    [
        (("u", 0), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 7), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (T, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T, [1, 99], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_moved(
    named: tuple[str, int], replicas: list[int] | None, expected: ErrorCode
) -> None:
    moved = machine(1, 2, 3)
    before = moved.state("t")
    assert moved.reassign(named, replicas) == expected
    assert moved.state("t") == before


def test_the_number_of_replicas_may_be_kept_from_changing() -> None:
    moved = machine(1, 2, 3)
    assert moved.reassign(T, [1, 2], keeps_count=True) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert moved.reassign(T, [1, 2, 4], keeps_count=True) == ErrorCode.NONE


def test_preferred_leaders_lead_again_once_they_are_in_sync() -> None:
    moved = machine(1, 2, 3)
    assert moved.elect(ElectionType.PREFERRED, T) == {T: ErrorCode.ELECTION_NOT_NEEDED}
    moved.fence(1)
    assert moved.elect(ElectionType.PREFERRED, T) == {T: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    moved.come_up(1, incarnation=2)
    assert moved.elect(ElectionType.PREFERRED, T) == {T: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    moved.alter("t", [2, 3, 1])
    epoch = moved.state("t").leader_epoch
    assert moved.elect(ElectionType.PREFERRED, everywhere=True) == {T: ErrorCode.NONE}
    state = moved.state("t")
    assert (state.leader, state.leader_epoch, sorted(state.isr)) == (1, epoch + 1, [1, 2, 3])
    assert moved.elect(ElectionType.PREFERRED, everywhere=True) == {}


def test_an_unclean_election_is_not_for_partitions_that_have_a_leader() -> None:
    moved = machine(1, 2, 3)
    assert moved.elect(ElectionType.UNCLEAN, T) == {T: ErrorCode.ELECTION_NOT_NEEDED}
    moved.fence(1, 2, 3)
    assert moved.state("t").leader == NO_LEADER
    unavailable = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert moved.elect(ElectionType.UNCLEAN, T) == {T: unavailable}
    unknown = ("t", 9)
    assert moved.elect(ElectionType.UNCLEAN, unknown) == {
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


@staged(brokers=3, controller={"leader.imbalance.check.interval.seconds": "5"})
async def test_leaders_go_back_by_themselves(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={MIN_ISR: "2"})
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader == 2, "2 leads")
    stage.start(1)
    await stage.until(lambda: len(stage.state("t").isr) == 3, "1 is back in sync")
    await stage.until(lambda: stage.state("t").leader == 1, "1 leads again", 12)
    await cut_off(stage, 3, b"0")
