"""Scenarios B: ISR, high watermark and AlterPartition, played on the leader by itself."""

import pytest

from minikafka.broker.replica.leader import (
    EpochStarted,
    HighWatermarkAdvanced,
    IsrChanged,
    ProposeIsr,
)
from minikafka.broker.replica.state import PartitionMetadata
from minikafka.protocol.errors import ErrorCode

from ..broker.leading import Ruled, fetch, leading, members, record
from ..broker.model import LAG_MAX_MS, Cluster


def test_b_02_while_a_member_is_proposed_to_leave_the_high_watermark_waits_for_it() -> None:
    """Given an ISR of three of which the third is to leave, and no answer yet; when the second
    has fetched everything; then nothing commits until the controller has agreed."""
    leader = leading(1, 2, 3)
    leader.on_appended(5, now_ms=1)
    fetch(leader, 2, 5, now_ms=LAG_MAX_MS + 1)
    (shrink,) = leader.on_lag_check(now_ms=LAG_MAX_MS + 1)
    assert isinstance(shrink, ProposeIsr)
    assert members(shrink) == (1, 2)
    leader.on_appended(9, LAG_MAX_MS + 2)
    assert fetch(leader, 2, 9, now_ms=LAG_MAX_MS + 3) == ()
    accepted = record(1, 2, partition_epoch=2)
    assert leader.on_proposal_accepted(shrink, accepted, LAG_MAX_MS + 4) == (
        IsrChanged((1, 2)),
        HighWatermarkAdvanced(9),
    )


def test_b_03_a_member_proposed_to_join_is_waited_for_before_the_answer() -> None:
    """Given an ISR of two and a third proposed; when something is appended and the second has it;
    then it commits only once the third has it too: the controller may have agreed already."""
    leader = leading(1, 2)
    leader.on_appended(5, now_ms=1)
    fetch(leader, 2, 5)
    fetch(leader, 3, 5)
    assert members(leader.proposal) == (1, 2, 3)
    late_ms = 2 * LAG_MAX_MS  # It has not been caught up for long: nothing else speaks for it.
    leader.on_appended(9, late_ms)
    assert fetch(leader, 2, 9, late_ms) == ()
    assert fetch(leader, 3, 9, late_ms) == (HighWatermarkAdvanced(9),)


def test_b_04_a_change_of_unknown_outcome_stands_until_metadata_decides() -> None:
    """Given a shrink that the controller applied, its answer lost; when the repeat is refused with
    INVALID_UPDATE_VERSION; then the leader waits for all three until metadata tells."""
    ruled = Ruled(1, 2, 3)
    leader = ruled.leader
    leader.on_appended(5, ruled.now_ms)
    ruled.now_ms += LAG_MAX_MS + 1
    ruled.fetch(2, 5)
    (shrink,) = leader.on_lag_check(ruled.now_ms)
    assert isinstance(shrink, ProposeIsr)
    assert ruled.propose(shrink) is ErrorCode.NONE
    assert ruled.refuse(shrink, ErrorCode.REQUEST_TIMED_OUT) == (shrink,), "sent again"
    error = ruled.propose(shrink)
    assert error is ErrorCode.INVALID_UPDATE_VERSION
    assert ruled.refuse(shrink, error) == ()
    assert leader.maximal_isr == (1, 2, 3)
    assert leader.on_lag_check(ruled.now_ms) == (), "one change at a time"
    assert leader.high_watermark == 0
    assert ruled.publish() == (IsrChanged((1, 2)), HighWatermarkAdvanced(5))


def test_b_05_a_member_fenced_while_its_proposal_was_under_way_is_let_go() -> None:
    """Given a proposal to take the third in, delayed; when the controller fences it, which changes
    no epoch of the partition; then INELIGIBLE_REPLICA, and the leader is back at what is committed.
    """
    ruled = Ruled(1, 2)
    ruled.leader.on_appended(5, ruled.now_ms)
    ruled.fetch(2, 5)
    ruled.fetch(3, 5)
    expand = ruled.leader.proposal
    assert expand is not None
    before = ruled.state
    ruled.controller.fence(3)
    assert ruled.state == before
    error = ruled.propose(expand)
    assert error is ErrorCode.INELIGIBLE_REPLICA
    ruled.refuse(expand, error)
    assert (ruled.leader.proposal, ruled.leader.maximal_isr) == (None, (1, 2))
    ruled.leader.on_appended(9, ruled.now_ms)
    ruled.publish()
    assert ruled.fetch(2, 9) == (HighWatermarkAdvanced(9),), "nobody waits for it"


def test_b_06_a_broker_that_came_back_empty_does_not_join_as_its_old_self() -> None:
    """Given a proposal to take the third in, delayed; when it restarts with an empty disk and is
    unfenced; then its new broker epoch refuses the proposal, and it joins once it has caught up."""
    ruled = Ruled(1, 2)
    ruled.leader.on_appended(5, ruled.now_ms)
    ruled.fetch(2, 5)
    ruled.fetch(3, 5)
    expand = ruled.leader.proposal
    assert expand is not None
    ruled.controller.fence(3)
    ruled.controller.come_up(3, incarnation=2, directories=[7])
    error = ruled.propose(expand)
    assert error is ErrorCode.INELIGIBLE_REPLICA
    assert ruled.state.isr == (1, 2)
    ruled.refuse(expand, error)
    ruled.now_ms += LAG_MAX_MS
    ruled.publish()
    assert ruled.leader.on_brokers_changed(ruled.now_ms) == (), "what its old self had is not its"
    assert ruled.fetch(3, 0) == ()
    expand = next(each for each in ruled.fetch(3, 5) if isinstance(each, ProposeIsr))
    assert members(expand) == (1, 2, 3)
    assert ruled.propose(expand) is ErrorCode.NONE


def test_b_07_a_fetch_of_an_earlier_start_leaves_no_trace() -> None:
    """Given the third broker registered anew; when a fetch that its earlier start had sent arrives;
    then the leader's view of it does not change, and nothing commits by it."""
    ruled = Ruled(1, 2, 3)
    leader = ruled.leader
    old = ruled.controller.broker(3).broker_epoch
    leader.on_appended(5, ruled.now_ms)
    ruled.controller.register(3, incarnation=1)
    ruled.controller.live[3] = False
    ruled.controller.register(3, incarnation=2)
    assert ruled.controller.broker(3).broker_epoch > old
    ruled.publish()
    ruled.fetch(2, 5)
    before = leader.followers[3]
    assert ruled.fetch(3, 5, epoch=old) == ()
    assert (leader.followers[3], leader.proposal) == (before, None)
    assert leader.followers[3].log_end_offset == -1


def test_b_08_a_proposal_made_at_an_old_partition_epoch_changes_nothing() -> None:
    """Given a leader that has not heard of the newest record; when it proposes; then the
    controller answers INVALID_UPDATE_VERSION and the record stays as it is."""
    ruled = Ruled()
    late = ProposeIsr(((1, -1), (2, -1)), ruled.state.leader_epoch, ruled.state.partition_epoch)
    ruled.controller.alter("t", [1, 3])
    before = ruled.state
    assert ruled.propose(late) is ErrorCode.INVALID_UPDATE_VERSION
    assert ruled.state == before


@pytest.mark.parametrize("ahead", [(1, 0), (0, 1)], ids=["leader-epoch", "partition-epoch"])
def test_b_09_a_controller_that_is_behind_says_that_it_is_none(ahead: tuple[int, int]) -> None:
    """Given a controller that has not heard of an epoch; when a leader proposes at that epoch; then
    NOT_CONTROLLER, and the leader asks again until a newer one answers."""
    ruled = Ruled(1, 2)
    ruled.fetch(3, 0)
    expand = ruled.leader.proposal
    assert expand is not None
    ahead_of_it = ProposeIsr(
        expand.isr, expand.leader_epoch + ahead[0], expand.partition_epoch + ahead[1]
    )
    before = ruled.state
    error = ruled.propose(ahead_of_it)
    assert error is ErrorCode.NOT_CONTROLLER
    assert ruled.state == before
    assert ruled.refuse(expand, error) == (expand,)


def test_b_10_a_zombie_leader_cannot_change_the_isr() -> None:
    """Given broker 1 fenced and broker 2 elected; when broker 1 proposes itself alone; then
    FENCED_LEADER_EPOCH, and it goes on waiting for the members that it knows."""
    ruled = Ruled(1, 2, 3)
    leader = ruled.leader
    leader.on_appended(5, ruled.now_ms)
    (shrink,) = leader.on_lag_check(ruled.now_ms + LAG_MAX_MS + 1)
    assert isinstance(shrink, ProposeIsr)
    assert members(shrink) == (1,)
    ruled.controller.fence(1)
    before = ruled.state
    assert before.leader == 2
    error = ruled.propose(shrink)
    assert error is ErrorCode.FENCED_LEADER_EPOCH
    assert ruled.state == before
    assert ruled.refuse(shrink, error) == ()
    assert (leader.maximal_isr, leader.high_watermark) == ((1, 2, 3), 0)


def test_b_11_an_outsider_must_reach_the_start_of_the_epoch() -> None:
    """Given a leader just elected at offset 10 with an old high watermark of 5, the true one being
    9; when an outsider fetches at 7, again and again; then it does not join; at 10 it does."""
    leader = leading(1, 2, log_end=10, high_watermark=5)
    for now_ms in (1, 2, 3):
        assert fetch(leader, 3, 7, now_ms) == ()
    assert leader.proposal is None
    leader.on_appended(12, now_ms=4)
    fetch(leader, 3, 10, now_ms=4)
    assert members(leader.proposal) == (1, 2, 3)


def test_b_12_a_replica_removed_and_added_again_in_one_step_starts_from_nothing() -> None:
    """Given the third removed from the replicas, its log deleted, and added again, all in one delta
    for the leader; then what it had fetched is forgotten: it joins after a fetch in this epoch."""
    leader = leading(1, 2, 3)
    leader.on_appended(5, now_ms=1)
    fetch(leader, 2, 5)
    fetch(leader, 3, 5)
    leader.on_metadata(record(1, 2, leader_epoch=3, partition_epoch=3), 5, now_ms=2)
    assert leader.followers[3].log_end_offset == -1
    assert leader.proposal is None
    assert fetch(leader, 3, 3) == ()
    fetch(leader, 3, 5)
    assert members(leader.proposal) == (1, 2, 3)


def test_b_13_under_constant_small_appends_a_follower_stays_in_the_isr() -> None:
    """Given appends that come faster than fetches, so that a follower never holds the newest; when
    each fetch brings all that there was at the one before; then it is in sync."""
    leader = leading(1, 2, 3)
    for tick in range(1, 50):
        now_ms = tick * LAG_MAX_MS // 4
        leader.on_appended(tick * 2, now_ms)
        fetch(leader, 2, tick * 2, now_ms)
        fetch(leader, 3, tick * 2 - 2, now_ms)
        assert leader.on_lag_check(now_ms) == ()


def test_b_17_min_isr_is_never_more_than_the_replicas() -> None:
    """Given two replicas and min.insync.replicas 3; then 2 are enough, and writes work."""
    leader = leading(1, 2)
    leader.on_metadata(PartitionMetadata(1, 1, 2, (1, 2), (1, 2), min_isr=3), 0, now_ms=1)
    assert leader.has_min_isr
    leader.on_appended(5, now_ms=1)
    assert fetch(leader, 2, 5) == (HighWatermarkAdvanced(5),)


def test_b_19_a_new_leader_with_an_old_high_watermark_does_not_truncate() -> None:
    """Given a leader that knows two records as committed, and a follower that holds both and knows
    of none; when the follower is elected; then it keeps both, and commits them once it is followed.
    """
    cluster = Cluster(min_isr=2, brokers=(1, 2))
    cluster.settle()
    for value in ("a", "b"):
        cluster.brokers[1].append(value, now_ms=1)
    assert cluster.fetch(2) is not None
    while cluster.messages:
        cluster.deliver(cluster.messages[0])
    behind = cluster.brokers[2]
    assert (behind.log.log_end_offset, behind.high_watermark) == (2, 0)
    cluster.controller.prefer(2)
    cluster.settle()
    assert [str(b.log) for b in cluster.brokers.values()] == ["00", "00"]
    assert [b.high_watermark for b in cluster.brokers.values()] == [2, 2]


@pytest.mark.parametrize("answer_first", [True, False], ids=["answer-first", "metadata-first"])
def test_b_24_answer_and_metadata_give_the_same_state_in_either_order(answer_first: bool) -> None:
    """Given a change that was applied; when its answer and its record arrive, in either order; then
    the leader is in the same state, and no later record is undone by a late answer."""
    leader = leading(1, 2)
    fetch(leader, 3, 0)
    expand = leader.proposal
    assert expand is not None
    accepted = record(1, 2, 3, partition_epoch=2)
    for answers in (answer_first, not answer_first):
        if answers:
            leader.on_proposal_accepted(expand, accepted, now_ms=2)
        else:
            leader.on_metadata(accepted, 0, now_ms=2)
    assert (leader.isr, leader.proposal) == ((1, 2, 3), None)
    assert leader.metadata.partition_epoch == 2
    leader.on_metadata(record(1, 2, partition_epoch=3), 0, now_ms=3)
    leader.on_proposal_accepted(expand, accepted, now_ms=4)
    assert (leader.isr, leader.metadata.partition_epoch) == ((1, 2), 3)


def test_b_27_whoever_leads_again_counts_nobody_before_they_fetch_anew() -> None:
    """Given ends 10, 8, 10 and a high watermark of 8; when leadership goes to broker 2 (broker 3
    truncates to 8) and back to broker 1, which sees both in one delta; then 9 and 10 commit only
    after broker 3 has fetched them in the new epoch: until then broker 1 holds them alone."""
    leader = leading(1, 2, 3)
    leader.on_appended(10, now_ms=1)
    fetch(leader, 2, 8)
    assert fetch(leader, 3, 10) == (HighWatermarkAdvanced(8),)
    merged = record(1, 3, leader_epoch=3, partition_epoch=4)
    assert leader.on_metadata(merged, 10, now_ms=2) == (EpochStarted(3, 10), IsrChanged((1, 3)))
    assert fetch(leader, 3, 8) == ()
    assert leader.high_watermark == 8
    assert fetch(leader, 3, 10) == (HighWatermarkAdvanced(10),)
