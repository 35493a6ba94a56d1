"""The follower's rules, each as a sentence with its whole input and output."""

import pytest

from minikafka.broker.replica.follower import (
    DELAY_MAX_MS,
    DELAY_MIN_MS,
    Append,
    AskLeaderOffsets,
    Fetched,
    FetchPosition,
    FollowerReplica,
    Halted,
    HighWatermarkMoved,
    LogStartRaised,
    OffsetsLost,
    Phase,
    RestartAt,
    TruncateTo,
)
from minikafka.broker.replica.history import find_divergence
from minikafka.broker.replica.state import PartitionMetadata
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import OffsetAndEpoch

from .model import Broker, Cluster, Entry, MemoryLog

NOW = 1_000


def following(
    log: MemoryLog, *, epoch: int = 9, high_watermark: int = 0, unclean_epoch: int = -1
) -> tuple[FollowerReplica, FetchPosition]:
    follower = FollowerReplica(high_watermark)
    metadata = PartitionMetadata(1, epoch, 5, (1, 2, 3), (1, 2, 3), unclean_epoch=unclean_epoch)
    assert follower.on_metadata(metadata)
    position = follower.next_fetch(log, NOW)
    assert position is not None
    return follower, position


def records(first: int, count: int, epoch: int = 9) -> list[Entry]:
    return [(epoch, f"{epoch}.{first + n}") for n in range(count)]


def fetched(first: int, count: int, *, high_watermark: int = 0, start: int = 0) -> Fetched[Entry]:
    return Fetched(
        high_watermark=high_watermark,
        log_start_offset=start,
        batches=records(first, count),
        first_offset=first,
        next_offset=first + count,
    )


def test_a_fetch_names_our_end_and_the_epoch_of_our_last_record() -> None:
    assert following(MemoryLog("1133"))[1] == FetchPosition(4, 3, 9)


def test_records_are_appended_before_the_high_watermark_follows() -> None:
    log = MemoryLog("99")
    follower, position = following(log)
    answer = fetched(2, 3, high_watermark=4)
    assert follower.on_fetched(position, answer, log, NOW) == (Append(), HighWatermarkMoved(4))


def test_the_high_watermark_never_passes_our_own_end() -> None:
    log = MemoryLog("99")
    follower, position = following(log)
    answer = fetched(2, 3, high_watermark=90)
    assert follower.on_fetched(position, answer, log, NOW) == (Append(), HighWatermarkMoved(5))


def test_the_high_watermark_does_not_fall_because_a_new_leader_still_learns_it() -> None:
    log = MemoryLog("99999")
    follower, position = following(log, high_watermark=5)
    assert follower.on_fetched(position, Fetched(high_watermark=3), log, NOW) == ()
    assert follower.high_watermark == 5


def test_f_15_log_start_follows_the_leader_but_never_passes_the_high_watermark() -> None:
    log = MemoryLog("99999")
    follower, position = following(log, high_watermark=3)
    answer: Fetched[Entry] = Fetched(high_watermark=3, log_start_offset=2)
    assert follower.on_fetched(position, answer, log, NOW) == (LogStartRaised(2),)


def test_c_03_after_fast_failovers_every_follower_ends_equal() -> None:
    """KIP-279: three leaders, each with a tail that nobody else has."""
    cluster = Cluster()
    for broker, tail in zip(cluster.brokers.values(), ("112", "11345", "16666"), strict=True):
        broker.log = MemoryLog(tail)
    cluster.controller.lead(1, leader_epoch=8)
    cluster.settle()
    assert [str(b.log) for b in cluster.brokers.values()] == ["112", "112", "112"]
    logs = [broker.log.entries for broker in cluster.brokers.values()]
    assert logs[0] == logs[1] == logs[2]


def test_c_04_an_epoch_unknown_to_the_leader_is_walked_back_to_a_common_one() -> None:
    leader, log = MemoryLog("33377"), MemoryLog("3335555")
    follower, position = following(log)
    diverging = find_divergence(leader, position.offset, position.last_fetched_epoch)
    assert diverging == OffsetAndEpoch(3, 3)
    answer: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(3, 3))
    assert follower.on_fetched(position, answer, log, NOW) == (TruncateTo(3),)
    log.truncate_to(3)
    again = follower.next_fetch(log, NOW)
    assert again == FetchPosition(3, 3, 9)
    assert find_divergence(leader, again.offset, again.last_fetched_epoch) is None


@pytest.mark.parametrize(
    ("case", "leader", "follower", "truncated_to"),
    [
        ("A: behind, nothing diverges", "111", "11", None),
        ("B: behind by an epoch, nothing diverges", "1122", "11", None),
        ("C: ahead in the same epoch", "11", "1111", 2),
        ("D: ahead in a later epoch", "11", "1133", 2),
        ("E: one fork", "1122", "1111", 2),
        ("F: two forks", "1333", "1222", 1),
        ("G: no epoch in common", "222", "111", 0),
    ],
)
def test_c_05_truncation_finds_the_common_prefix(
    case: str, leader: str, follower: str, truncated_to: int | None
) -> None:
    cluster = Cluster(brokers=(1, 2))
    cluster.brokers[1].log = MemoryLog(leader)
    cluster.brokers[2].log = MemoryLog(follower)
    cluster.controller.lead(1, leader_epoch=5)
    cluster.settle()
    truncations = [line for line in cluster.take_story() if line.startswith("2 truncates")]
    last = int(truncations[-1].rsplit(" ", 1)[1]) if truncations else None
    assert last == truncated_to, case
    assert cluster.brokers[1].log.entries == cluster.brokers[2].log.entries


def test_c_06_a_leader_elected_twice_without_appending_can_be_followed() -> None:
    cluster = Cluster(brokers=(1, 2))
    cluster.brokers[1].log = MemoryLog("111")
    cluster.brokers[2].log = MemoryLog("11144")
    cluster.controller.lead(1, leader_epoch=5)
    cluster.publish(1)
    cluster.controller.lead(1)
    cluster.settle()
    assert cluster.brokers[1].log.epochs[-1] == (6, 3)
    assert str(cluster.brokers[2].log) == "111"


def test_c_07_a_conflicting_epoch_is_forgotten_even_where_no_record_is() -> None:
    """KAFKA-10706: we led epoch 4 and appended nothing; the leader never heard of it."""
    leader, log = MemoryLog("1115"), MemoryLog("111")
    log.assign(4, 3)
    follower, position = following(log)
    assert position == FetchPosition(3, 4, 9)
    diverging = find_divergence(leader, 3, 4)
    assert diverging == OffsetAndEpoch(3, 1)
    answer: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(3, 1))
    assert follower.on_fetched(position, answer, log, NOW) == (TruncateTo(3),)
    log.truncate_to(3)
    assert follower.next_fetch(log, NOW) == FetchPosition(3, 1, 9)


def test_c_08_a_new_epoch_of_the_same_leader_starts_the_fetch_anew() -> None:
    log = MemoryLog("99")
    follower, position = following(log)
    follower.on_fetched(position, Fetched(ErrorCode.FENCED_LEADER_EPOCH), log, NOW)
    assert follower.next_fetch(log, NOW + 60_000) is None
    same = PartitionMetadata(1, 10, 6, (1, 2, 3), (1, 2, 3))
    assert follower.on_metadata(same)
    assert follower.next_fetch(log, NOW) == FetchPosition(2, 9, 10)


def test_c_09_an_empty_answer_leaves_the_last_fetched_epoch_as_it_was() -> None:
    log = MemoryLog("1133")
    follower, position = following(log)
    assert follower.on_fetched(position, Fetched(high_watermark=0), log, NOW) == ()
    assert follower.next_fetch(log, NOW) == position


def test_c_10_nothing_else_in_a_diverging_answer_is_believed() -> None:
    log = MemoryLog("1199")
    follower, position = following(log)
    answer: Fetched[Entry] = Fetched(
        high_watermark=4, log_start_offset=1, diverging=OffsetAndEpoch(2, 1)
    )
    assert follower.on_fetched(position, answer, log, NOW) == (TruncateTo(2),)
    assert follower.high_watermark == 0


def test_c_11_an_answer_that_the_log_has_moved_past_is_ignored() -> None:
    log = MemoryLog("9999")
    follower, position = following(log)
    log.truncate_to(2)
    assert follower.on_fetched(position, fetched(4, 2), log, NOW) == ()
    moved = PartitionMetadata(3, 10, 6, (1, 2, 3), (1, 2, 3))
    position = FetchPosition(2, 9, 9)
    follower.on_metadata(moved)
    assert follower.on_fetched(position, fetched(2, 2), log, NOW) == ()


def test_c_12_a_follower_below_the_leaders_start_begins_there() -> None:
    log = MemoryLog("99999")
    follower, position = following(log, high_watermark=5)
    out_of_range: Fetched[Entry] = Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.on_fetched(position, out_of_range, log, NOW) == (AskLeaderOffsets(),)
    assert follower.next_fetch(log, NOW) is None
    assert follower.on_leader_offsets(100, 200, log) == (RestartAt(100), HighWatermarkMoved(100))
    log.restart_at(100)
    assert follower.next_fetch(log, NOW) == FetchPosition(100, -1, 9)


def test_c_13_an_empty_follower_begins_with_the_batch_that_holds_the_leaders_start() -> None:
    log = MemoryLog("", start=100)
    follower, position = following(log, high_watermark=100)
    answer = fetched(90, 21, high_watermark=111, start=100)
    assert follower.on_fetched(position, answer, log, NOW) == (
        RestartAt(90),
        Append(),
        HighWatermarkMoved(111),
    )


def test_records_that_do_not_continue_our_log_are_refused() -> None:
    log = MemoryLog("9999")
    follower, position = following(log)
    assert follower.on_fetched(position, fetched(2, 5), log, NOW) == ()
    assert follower.phase is Phase.DELAYED


def test_c_16_without_an_unclean_election_nothing_below_the_high_watermark_is_removed() -> None:
    log = MemoryLog("1111")
    follower, position = following(log, high_watermark=3)
    answer: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(2, 1))
    (halted,) = follower.on_fetched(position, answer, log, NOW)
    assert isinstance(halted, Halted)
    assert "offsets 2 to 3" in halted.why
    assert follower.next_fetch(log, NOW + 60_000) is None


def test_an_unclean_election_may_cost_committed_offsets_and_they_are_named_once() -> None:
    log = MemoryLog("111122")
    follower, position = following(log, high_watermark=5, unclean_epoch=8)
    first: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(4, 1))
    effects = follower.on_fetched(position, first, log, NOW)
    assert effects == (TruncateTo(4), HighWatermarkMoved(4))
    log.truncate_to(4)
    second: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(2, 1))
    position = FetchPosition(4, 1, 9)
    effects = follower.on_fetched(position, second, log, NOW)
    assert effects == (TruncateTo(2), HighWatermarkMoved(2))
    log.truncate_to(2)
    position = FetchPosition(2, 1, 9)
    answer = fetched(2, 1)
    assert follower.on_fetched(position, answer, log, NOW) == (OffsetsLost(2, 6), Append())
    for entry in answer.batches:
        log.append(entry)
    position = FetchPosition(3, 9, 9)
    assert follower.on_fetched(position, fetched(3, 1), log, NOW) == (Append(),)


def test_an_unclean_election_before_our_last_record_excuses_nothing() -> None:
    log = MemoryLog("1188")
    follower, position = following(log, high_watermark=4, unclean_epoch=8)
    answer: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(3, 8))
    (halted,) = follower.on_fetched(position, answer, log, NOW)
    assert isinstance(halted, Halted)


def test_c_18_a_leader_behind_on_metadata_is_asked_again_later_and_nothing_is_truncated() -> None:
    log = MemoryLog("99")
    follower, position = following(log)
    behind: Fetched[Entry] = Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert follower.on_fetched(position, behind, log, NOW) == ()
    assert follower.next_fetch(log, NOW) is None
    assert follower.next_deadline_ms() == NOW + DELAY_MIN_MS
    assert follower.next_fetch(log, NOW + DELAY_MIN_MS) == position


def test_the_delay_doubles_up_to_its_limit_and_success_resets_it() -> None:
    log, now_ms, delays = MemoryLog("99"), NOW, []
    follower, position = following(log)
    for _ in range(8):
        follower.on_fetched(position, Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER), log, now_ms)
        deadline_ms = follower.next_deadline_ms()
        assert deadline_ms is not None
        delays.append(deadline_ms - now_ms)
        now_ms = deadline_ms
        follower.next_fetch(log, now_ms)
    assert delays == [20, 40, 80, 160, 320, 640, DELAY_MAX_MS, DELAY_MAX_MS]
    follower.on_fetched(position, Fetched(), log, now_ms)
    follower.on_fetched(position, Fetched(ErrorCode.CORRUPT_MESSAGE), log, now_ms)
    assert follower.next_deadline_ms() == now_ms + DELAY_MIN_MS


def test_c_01_a_restarted_follower_keeps_what_its_high_watermark_had_not_reached() -> None:
    """KIP-101, scenario 1: it does not truncate to its high watermark."""
    cluster = Cluster(brokers=(1, 2))
    cluster.settle()
    cluster.brokers[1].append("m1", now_ms=1)
    cluster.settle()
    cluster.brokers[1].append("m2", now_ms=1)
    cluster.fetch(2)
    while cluster.messages:
        cluster.deliver(cluster.messages[0])
    assert cluster.brokers[2].high_watermark == 1
    cluster.crash(2)
    cluster.restart(2)
    cluster.crash(1)
    cluster.controller.fence(1)
    cluster.settle()
    assert [value for _, value in cluster.brokers[2].log.entries] == ["m1", "m2"]
    assert cluster.brokers[2].leader is not None


def test_c_02_two_leaders_that_lost_different_tails_end_equal() -> None:
    """KIP-101, scenario 2."""
    cluster = Cluster(min_isr=1, brokers=(1, 2))
    cluster.brokers[1].log = MemoryLog("11")
    cluster.brokers[2].log = MemoryLog("12")
    for leader in (1, 2, 1):
        cluster.controller.lead(leader, leader_epoch=cluster.controller.metadata.leader_epoch + 4)
        cluster.settle()
    assert cluster.brokers[1].log.entries == cluster.brokers[2].log.entries


def test_c_14_the_log_and_not_the_epoch_file_says_where_our_last_epoch_ends() -> None:
    """A file that names an epoch past the log's end is trimmed when the log is loaded."""
    log = MemoryLog("11")
    log.assign(4, 2)
    log.truncate_to(2)
    assert following(log)[1] == FetchPosition(2, 1, 9)


def test_c_17_a_fetch_of_an_old_epoch_is_fenced_and_cannot_join_the_isr() -> None:
    cluster = Cluster()
    cluster.settle()
    zombie = cluster.fetch(3)
    assert zombie is not None
    cluster.controller.fence(3)
    cluster.controller.unfence(3)
    cluster.controller.lead(1)
    cluster.publish(1)
    leader: Broker = cluster.brokers[1]
    assert leader.serve(zombie, now_ms=1).error is ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.controller.metadata.isr == (1, 2)
    assert leader.leader is not None
    assert leader.leader.proposal is None
