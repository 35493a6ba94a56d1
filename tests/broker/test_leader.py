"""The leader's rules, each as a sentence with its whole input and output."""

from minikafka.broker.replica.leader import (
    REFUSED_PAUSE_MS,
    EpochStarted,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderReplica,
    ProposeIsr,
)
from minikafka.broker.replica.state import KnownBrokers
from minikafka.protocol.errors import ErrorCode

from .leading import EPOCHS, ME, B, C, fetch, leading, members, proposing, record
from .model import LAG_MAX_MS


def test_a_new_epoch_is_written_down_before_anything_else() -> None:
    """KAFKA-7415: a follower with data of epochs that we never saw needs it to truncate."""
    leader = LeaderReplica(ME, KnownBrokers(), LAG_MAX_MS, 5)
    assert leader.on_metadata(record(), 7, now_ms=0) == (
        EpochStarted(1, 7),
        IsrChanged((ME, B, C)),
    )


def test_everything_on_the_whole_isr_is_committed() -> None:
    leader = leading()
    assert leader.on_appended(5, now_ms=1) == ()
    assert fetch(leader, B, 5) == ()
    assert fetch(leader, C, 3) == (HighWatermarkAdvanced(3),)
    assert fetch(leader, C, 5) == (HighWatermarkAdvanced(5),)


def test_alone_in_the_isr_an_append_is_committed_at_once() -> None:
    leader = leading(ME, min_isr=1)
    assert leader.on_appended(5, now_ms=1) == (HighWatermarkAdvanced(5),)


def test_an_older_record_changes_nothing() -> None:
    leader = leading(partition_epoch=4)
    assert leader.on_metadata(record(ME, partition_epoch=3), 0, now_ms=1) == ()
    assert leader.on_metadata(record(ME, partition_epoch=4), 0, now_ms=1) == ()
    assert leader.isr == (ME, B, C)


def test_an_ineligible_member_is_let_go_and_proposed_again_later() -> None:
    leader = leading(ME, B)
    leader.on_appended(5, now_ms=1)
    fetch(leader, B, 5)
    (expand,) = leader.on_follower_fetched(C, 5, 1, EPOCHS[C])
    assert isinstance(expand, ProposeIsr)
    leader.on_proposal_failed(expand, ErrorCode.INELIGIBLE_REPLICA, now_ms=2)
    assert leader.maximal_isr == (ME, B)
    assert fetch(leader, C, 5, now_ms=3) == ()
    assert fetch(leader, C, 5, now_ms=2 + REFUSED_PAUSE_MS) == (expand,)


def test_a_member_joins_only_under_the_epoch_it_is_registered_with() -> None:
    leader = leading(ME, B)
    assert leader.on_follower_fetched(C, 0, 1, EPOCHS[C] + 1) == ()
    leader._brokers.eligible[C] = EPOCHS[C] + 1
    assert leader.on_follower_fetched(C, 0, 2, EPOCHS[C] + 1) == (
        ProposeIsr(((ME, 11), (B, -1), (C, 14)), 1, 1),
    )


def test_a_follower_that_falls_further_behind_is_dropped() -> None:
    leader = leading()
    for tick in range(1, 7):
        now_ms = tick * LAG_MAX_MS // 4
        leader.on_appended(tick * 2, now_ms)
        fetch(leader, B, tick * 2, now_ms)
        fetch(leader, C, tick, now_ms)
    (shrink,) = leader.on_lag_check(now_ms)
    assert isinstance(shrink, ProposeIsr)
    assert members(shrink) == (ME, B)


def shrunk(leader: LeaderReplica, now_ms: int) -> ProposeIsr:
    """Propose to go on without the laggards, and have it accepted."""
    (shrink,) = leader.on_lag_check(now_ms)
    assert isinstance(shrink, ProposeIsr)
    accepted = record(*members(shrink), partition_epoch=shrink.partition_epoch + 1)
    leader.on_proposal_accepted(shrink, accepted, now_ms)
    return shrink


def test_a_silent_follower_that_was_dropped_is_not_taken_back_before_it_fetches_again() -> None:
    """Its last fetch was recent, and at the high watermark that it alone held back."""
    leader = leading()
    fetch(leader, B, 0, now_ms=1)
    fetch(leader, C, 0, now_ms=1)
    leader.on_appended(9, now_ms=2)
    fetch(leader, B, 9, now_ms=LAG_MAX_MS + 1)
    fetch(leader, C, 0, now_ms=LAG_MAX_MS + 1)
    shrunk(leader, now_ms=LAG_MAX_MS + 2)
    assert (leader.isr, leader.proposal, leader.high_watermark) == ((ME, B), None, 9)
    assert leader.on_brokers_changed(now_ms=LAG_MAX_MS + 3) == ()
    assert fetch(leader, C, 8, now_ms=LAG_MAX_MS + 4) == ()
    assert fetch(leader, C, 9, now_ms=LAG_MAX_MS + 5) == (
        proposing(ME, B, C, fetched=(B, C), partition_epoch=2),
    )


def test_a_follower_joins_only_if_it_could_stay() -> None:
    """Its fetches take so long that as a member it would be dropped again (scenario N-04)."""
    leader = leading()
    slow_ms = LAG_MAX_MS // 2 + 1
    for turn in range(1, 12):
        now_ms = turn * slow_ms
        leader.on_appended(turn * 2, now_ms)
        fetch(leader, C, turn * 2 - 2, now_ms)
        fetch(leader, B, turn * 2, now_ms)
        if turn == 4:
            assert leader.isr == (ME, B, C)
            shrunk(leader, now_ms + slow_ms - 1)
        if turn > 4:
            assert (leader.isr, leader.proposal) == ((ME, B), None)
            assert leader.high_watermark == turn * 2, "nobody waits for it"


def test_a_follower_that_joins_with_steady_fetches_stays() -> None:
    leader = leading(ME, B)
    slow_ms = LAG_MAX_MS // 2
    for turn in range(1, 9):
        now_ms = turn * slow_ms
        leader.on_appended(turn * 2, now_ms)
        fetch(leader, C, turn * 2 - 2, now_ms)
        fetch(leader, B, turn * 2, now_ms)
        if leader.proposal is not None:
            accepted = record(ME, B, C, partition_epoch=2)
            leader.on_proposal_accepted(leader.proposal, accepted, now_ms)
        assert leader.on_lag_check(now_ms + slow_ms - 1) == ()
    assert leader.isr == (ME, B, C)


def test_b_14_below_min_isr_no_acks_all_append_begins() -> None:
    assert leading(ME, B).has_min_isr
    assert not leading(ME).has_min_isr


def test_b_15_what_was_appended_before_the_isr_shrank_commits_when_a_member_returns() -> None:
    leader = leading(ME, B, log_end=10, high_watermark=10)
    leader.on_appended(11, now_ms=1)
    leader.on_metadata(record(ME, partition_epoch=2), 11, now_ms=2)
    assert leader.high_watermark == 10
    (expand,) = leader.on_follower_fetched(B, 11, 3, EPOCHS[B])
    assert isinstance(expand, ProposeIsr)
    accepted = record(ME, B, partition_epoch=3)
    assert leader.on_proposal_accepted(expand, accepted, now_ms=4) == (
        IsrChanged((ME, B)),
        HighWatermarkAdvanced(11),
    )


def test_b_16_below_min_isr_the_high_watermark_stands_still() -> None:
    leader = leading(ME)
    assert leader.on_appended(5, now_ms=1) == ()
    assert leader.high_watermark == 0


def test_b_18_a_new_leader_does_not_know_its_high_watermark_until_its_epoch_commits() -> None:
    leader = leading(log_end=10, high_watermark=8)
    assert not leader.is_high_watermark_settled
    fetch(leader, B, 10)
    assert fetch(leader, C, 10) == (HighWatermarkAdvanced(10),)
    assert leader.is_high_watermark_settled


def test_b_23_a_broker_that_shuts_down_is_neither_waited_for_nor_taken_back() -> None:
    leader = leading(ME, B)
    del leader._brokers.eligible[C]
    leader.on_appended(5, now_ms=1)
    assert fetch(leader, C, 0) == ()
    assert fetch(leader, B, 5) == (HighWatermarkAdvanced(5),)
    assert fetch(leader, C, 5) == ()


def test_an_eligible_outsider_that_keeps_up_is_waited_for_until_it_dies() -> None:
    leader = leading(ME, B)
    fetch(leader, C, 0)  # Caught up: it is proposed, and refused by a controller that lags.
    assert leader.proposal is not None
    leader.on_proposal_failed(leader.proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms=1)
    leader.on_appended(5, now_ms=2)
    assert fetch(leader, B, 5, now_ms=2) == ()
    del leader._brokers.eligible[C]
    assert leader.on_brokers_changed(now_ms=3) == (HighWatermarkAdvanced(5),)


def test_an_uncleanly_elected_leader_reports_itself_recovered_before_anything_joins() -> None:
    leader = leading(ME, recovering=True)
    assert leader.proposal == proposing(ME)
    assert fetch(leader, B, 0) == (), "one change at a time"


def test_a_refused_report_of_recovery_is_made_again() -> None:
    leader = leading(ME, recovering=True)
    assert leader.proposal is not None
    leader.on_proposal_failed(leader.proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms=1)
    assert leader.on_lag_check(now_ms=2) == ()
    assert leader.on_lag_check(now_ms=1 + REFUSED_PAUSE_MS) == (proposing(ME),)
