"""A follower that stops fetching is not waited for as long as one that is merely slow."""

from minikafka.broker.replica.leader import HighWatermarkAdvanced
from minikafka.broker.replica.silence import LOOK_MS, OWN_STALL_MS, SILENT_MS, FollowersHeard

from .leading import EPOCHS, ME, B, C, fetch, leading, proposing, record
from .model import LAG_MAX_MS


def looking(heard: FollowersHeard, since_ms: int, until_ms: int) -> list[list[int]]:
    """Look as often as a broker does."""
    return [heard.silent(now_ms) for now_ms in range(since_ms, until_ms + 1, LOOK_MS)]


def test_who_fetched_once_and_stopped_is_silent() -> None:
    heard = FollowersHeard()
    heard.silent(0)
    heard.on_fetched(B, 500)
    assert looking(heard, LOOK_MS, SILENT_MS) == [[]] * (SILENT_MS // LOOK_MS)
    assert heard.silent(SILENT_MS + LOOK_MS) == [B]
    heard.on_fetched(B, SILENT_MS + LOOK_MS + 1)
    assert heard.silent(SILENT_MS + 2 * LOOK_MS) == []


def test_who_is_forgotten_is_named_again_only_after_a_fetch() -> None:
    heard = FollowersHeard()
    heard.silent(0)
    heard.on_fetched(B, 0)
    assert looking(heard, LOOK_MS, SILENT_MS + LOOK_MS)[-1] == [B]
    heard.forget(B)
    assert heard.silent(SILENT_MS + 2 * LOOK_MS) == []


def test_a_broker_that_stood_still_itself_accuses_nobody() -> None:
    """What they sent meanwhile is not read yet."""
    heard = FollowersHeard()
    heard.silent(0)
    heard.on_fetched(B, 0)
    woke_ms = 60_000
    assert heard.silent(woke_ms) == []
    assert looking(heard, woke_ms + LOOK_MS, woke_ms + SILENT_MS)[-1] == []
    assert heard.silent(woke_ms + SILENT_MS + LOOK_MS) == [B]
    assert OWN_STALL_MS < SILENT_MS


def test_a_silent_member_that_is_missed_is_left_behind() -> None:
    leader = leading()
    leader.on_appended(5, now_ms=1)
    fetch(leader, B, 5)
    fetch(leader, C, 3)
    assert leader.on_lag_check(2, silent=C) == (proposing(ME, B, fetched=(B, C)),)
    # Until the controller agrees it still counts.
    assert leader.high_watermark == 3
    accepted = record(ME, B, partition_epoch=2)
    assert HighWatermarkAdvanced(5) in leader.on_metadata(accepted, 5, now_ms=2)


def test_a_silent_member_stays_where_nothing_could_go_on_without_it() -> None:
    """Below min ISR no write is accepted either way, and fewer could lead after us."""
    leader = leading(ME, B)
    leader.on_appended(5, now_ms=1)
    fetch(leader, B, 3)
    assert leader.on_lag_check(2, silent=B) == ()
    assert leader.on_lag_check(2 + LAG_MAX_MS) != (), "the lag time is over"


def test_a_silent_member_that_nobody_waits_for_stays() -> None:
    leader = leading()
    leader.on_appended(5, now_ms=1)
    fetch(leader, C, 5)
    assert leader.on_lag_check(2, silent=C) == ()


def test_a_member_that_never_fetched_in_this_epoch_has_the_lag_time() -> None:
    leader = leading()
    leader.on_appended(5, now_ms=1)
    assert leader.on_lag_check(2, silent=C) == ()


def test_silence_of_outsiders_and_during_a_proposal_changes_nothing() -> None:
    leader = leading(ME, B, min_isr=1)
    leader.on_appended(5, now_ms=1)
    fetch(leader, B, 5)
    leader.on_appended(9, now_ms=1)
    fetch(leader, C, 1)
    assert leader.on_lag_check(2, silent=C) == ()
    assert leader.on_lag_check(2, silent=B) != ()
    assert leader.on_lag_check(2, silent=B) == (), "one proposal at a time"
    assert leader.on_lag_check(2, silent=9) == ()
    assert sorted(EPOCHS) == [ME, B, C]
