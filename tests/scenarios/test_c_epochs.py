"""Scenarios C: leader epochs and truncation, played on the machines by themselves."""

import pytest

from minikafka.broker.replica.follower import (
    DELAY_MIN_MS,
    Append,
    AskLeaderOffsets,
    Fetched,
    FetchPosition,
    Halted,
    HighWatermarkMoved,
    LogStartRaised,
    RestartAt,
    TruncateTo,
)
from minikafka.broker.replica.history import find_divergence
from minikafka.broker.replica.state import PartitionMetadata
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import OffsetAndEpoch

from ..broker.model import Cluster, Entry, MemoryLog
from ..broker.test_follower import NOW, fetched, following


def test_c_01_a_restarted_follower_keeps_what_its_high_watermark_had_not_reached() -> None:
    """Given a follower with m2 in its log and an older high watermark; when it restarts, and the
    leader dies at once; then it is elected with m2: nobody truncates to a high watermark
    (KIP-101)."""
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
    """Given two logs of which each lost what the other has; when both return and one leads after
    the other; then the logs are equal, byte for byte (KIP-101)."""
    cluster = Cluster(min_isr=1, brokers=(1, 2))
    cluster.brokers[1].log = MemoryLog("11")
    cluster.brokers[2].log = MemoryLog("12")
    for leader in (1, 2, 1):
        cluster.controller.lead(leader, leader_epoch=cluster.controller.metadata.leader_epoch + 4)
        cluster.settle()
    assert cluster.brokers[1].log.entries == cluster.brokers[2].log.entries


def test_c_03_after_fast_failovers_every_follower_ends_equal() -> None:
    """Given three quick changes of leader, each leaving a tail that nobody else has; then every
    follower ends with the log of the last leader: no gap, no offset twice (KIP-279)."""
    cluster = Cluster()
    for broker, tail in zip(cluster.brokers.values(), ("112", "11345", "16666"), strict=True):
        broker.log = MemoryLog(tail)
    cluster.controller.lead(1, leader_epoch=8)
    cluster.settle()
    assert [str(b.log) for b in cluster.brokers.values()] == ["112", "112", "112"]
    logs = [broker.log.entries for broker in cluster.brokers.values()]
    assert logs[0] == logs[1] == logs[2]


def test_c_04_an_epoch_unknown_to_the_leader_is_walked_back_to_a_common_one() -> None:
    """Given a follower whose last epoch 5 the leader never had (it has 3 and 7); then it is told
    where epoch 3 ends there, truncates, and asks again until they agree."""
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
    """Given two histories; then the follower truncates to where they part, and no further; cases A
    to G."""
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
    """Given a leader elected twice that appended nothing; then its epoch file says where its epoch
    begins, and a follower with data of a later epoch than its last record can truncate
    (KAFKA-7415)."""
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
    """Given a conflicting epoch in the file where there is no record of it; when the leader says
    where to truncate and that is our end; then the entry goes, and fetching goes on
    (KAFKA-10706)."""
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
    """Given a new leader epoch of the same leader; then the follower fetches anew, in that epoch
    (KAFKA-7164)."""
    log = MemoryLog("99")
    follower, position = following(log)
    follower.on_fetched(position, Fetched(ErrorCode.FENCED_LEADER_EPOCH), log, NOW)
    assert follower.next_fetch(log, NOW + 60_000) is None
    same = PartitionMetadata(1, 10, 6, (1, 2, 3), (1, 2, 3))
    assert follower.on_metadata(same)
    assert follower.next_fetch(log, NOW) == FetchPosition(2, 9, 10)


def test_c_09_an_empty_answer_leaves_the_last_fetched_epoch_as_it_was() -> None:
    """Given an answer without records; then the next request names the same last epoch as before
    (KAFKA-15510)."""
    log = MemoryLog("1133")
    follower, position = following(log)
    assert follower.on_fetched(position, Fetched(high_watermark=0), log, NOW) == ()
    assert follower.next_fetch(log, NOW) == position


def test_c_10_nothing_else_in_a_diverging_answer_is_believed() -> None:
    """Given an answer that tells of a divergence and carries a high watermark and a log start; then
    neither is believed: they are of another history."""
    log = MemoryLog("1199")
    follower, position = following(log)
    answer: Fetched[Entry] = Fetched(
        high_watermark=4, log_start_offset=1, diverging=OffsetAndEpoch(2, 1)
    )
    assert follower.on_fetched(position, answer, log, NOW) == (TruncateTo(2),)
    assert follower.high_watermark == 0


def test_c_11_an_answer_that_the_log_has_moved_past_is_ignored() -> None:
    """Given a fetch under way; when the log is truncated, or the partition gets another leader;
    then the late answer is ignored."""
    log = MemoryLog("9999")
    follower, position = following(log)
    log.truncate_to(2)
    assert follower.on_fetched(position, fetched(4, 2), log, NOW) == ()
    moved = PartitionMetadata(3, 10, 6, (1, 2, 3), (1, 2, 3))
    position = FetchPosition(2, 9, 9)
    follower.on_metadata(moved)
    assert follower.on_fetched(position, fetched(2, 2), log, NOW) == ()


def test_c_12_a_follower_below_the_leaders_start_begins_there() -> None:
    """Given a follower that ends at 5, and a leader that begins at 100; then it begins anew at 100,
    with a high watermark of at least 100 (KAFKA-9491)."""
    log = MemoryLog("99999")
    follower, position = following(log, high_watermark=5)
    out_of_range: Fetched[Entry] = Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.on_fetched(position, out_of_range, log, NOW) == (AskLeaderOffsets(),)
    assert follower.next_fetch(log, NOW) is None
    assert follower.on_leader_offsets(100, 200, log) == (RestartAt(100), HighWatermarkMoved(100))
    log.restart_at(100)
    assert follower.next_fetch(log, NOW) == FetchPosition(100, -1, 9)


def test_c_13_an_empty_follower_begins_with_the_batch_that_holds_the_leaders_start() -> None:
    """Given a leader whose log starts inside a batch, at 100 of 90 to 110; then a follower with an
    empty log begins at 90, with the whole batch, and shows what is from 100 on."""
    log = MemoryLog("", start=100)
    follower, position = following(log, high_watermark=100)
    answer = fetched(90, 21, high_watermark=111, start=100)
    assert follower.on_fetched(position, answer, log, NOW) == (
        RestartAt(90),
        Append(),
        HighWatermarkMoved(111),
        LogStartRaised(100),
    )


@pytest.mark.parametrize(("high_watermark", "unclean_epoch"), [(3, -1), (0, -1), (7, 9), (5, 9)])
def test_c_20_a_tail_that_ends_up_below_the_leaders_start_goes_as_a_whole(
    high_watermark: int, unclean_epoch: int
) -> None:
    """Given a leader of epoch 9 since offset 3 that begins at 6 and knows no epoch 7 any more, and
    a follower with a tail of epoch 7 from 3 to 8; then it does not keep 3 to 6, which nobody can
    compare, but begins anew at 6."""
    leader = MemoryLog("9999", start=6)
    log = MemoryLog("77777777")
    follower, position = following(log, high_watermark=high_watermark, unclean_epoch=unclean_epoch)
    diverging = find_divergence(leader, position.offset, position.last_fetched_epoch)
    assert diverging == OffsetAndEpoch(6, 7)
    answer: Fetched[Entry] = Fetched(
        high_watermark=10, log_start_offset=6, diverging=OffsetAndEpoch(6, 7)
    )
    assert follower.on_fetched(position, answer, log, NOW) == (RestartAt(6), HighWatermarkMoved(6))
    log.restart_at(6)
    follower.check_invariants(log)
    assert follower.next_fetch(log, NOW) == FetchPosition(6, -1, 9)


def test_c_20_so_does_one_that_ends_just_where_the_leader_begins() -> None:
    """Given the same with a tail that ends at 6 of itself; then nothing diverges, and it begins
    anew there all the same: with the batch from 5 on in which the leader's start lies, too."""
    leader = MemoryLog("9999", start=6)
    for answer, effects in (
        (fetched(6, 4, high_watermark=8, start=6), (RestartAt(6), Append(), HighWatermarkMoved(8))),
        (
            fetched(5, 5, high_watermark=8, start=6),
            (RestartAt(6), RestartAt(5), Append(), HighWatermarkMoved(8), LogStartRaised(6)),
        ),
        (Fetched(high_watermark=6, log_start_offset=6), (RestartAt(6), HighWatermarkMoved(6))),
    ):
        log = MemoryLog("777777")
        follower, position = following(log, high_watermark=3)
        assert find_divergence(leader, position.offset, position.last_fetched_epoch) is None
        assert follower.on_fetched(position, answer, log, NOW) == effects


@pytest.mark.parametrize(
    ("epochs", "high_watermark"),
    [("777777", 6), ("777999", 3)],
    ids=["committed", "of the leader's own epoch"],
)
def test_c_20_what_is_surely_the_leaders_is_kept_below_its_start(
    epochs: str, high_watermark: int
) -> None:
    """Given the same, but all that the follower holds is committed, or its last record is of the
    leader's epoch; then its log begins at 6 and what it knows of producers stays."""
    log = MemoryLog(epochs)
    follower, position = following(log, high_watermark=high_watermark)
    answer = fetched(6, 4, high_watermark=8, start=6)
    assert follower.on_fetched(position, answer, log, NOW) == (
        Append(),
        HighWatermarkMoved(8),
        LogStartRaised(6),
    )


def test_c_20_a_leader_that_deleted_all_it_has_keeps_no_tail_of_others_either() -> None:
    """Given a leader whose log is empty at 6, and a follower with a tail from 3 to 8; then the
    follower begins anew at 6."""
    log = MemoryLog("77777777")
    follower, position = following(log, high_watermark=3)
    out_of_range: Fetched[Entry] = Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.on_fetched(position, out_of_range, log, NOW)
    assert follower.on_leader_offsets(6, 6, log) == (RestartAt(6), HighWatermarkMoved(6))


def test_c_16_without_an_unclean_election_nothing_below_the_high_watermark_is_removed() -> None:
    """Given clean elections only; when a follower is told to truncate below its high watermark;
    then it refuses, halts and says why."""
    log = MemoryLog("1111")
    follower, position = following(log, high_watermark=3)
    answer: Fetched[Entry] = Fetched(diverging=OffsetAndEpoch(2, 1))
    (halted,) = follower.on_fetched(position, answer, log, NOW)
    assert isinstance(halted, Halted)
    assert "offsets 2 to 3" in halted.why
    assert follower.next_fetch(log, NOW + 60_000) is None


def test_c_18_a_leader_behind_on_metadata_is_asked_again_later_and_nothing_is_truncated() -> None:
    """Given a leader that has not yet heard of its epoch; then UNKNOWN_LEADER_EPOCH: the follower
    asks again later, and truncates nothing."""
    log = MemoryLog("99")
    follower, position = following(log)
    behind: Fetched[Entry] = Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert follower.on_fetched(position, behind, log, NOW) == ()
    assert follower.next_fetch(log, NOW) is None
    assert follower.next_deadline_ms() == NOW + DELAY_MIN_MS
    assert follower.next_fetch(log, NOW + DELAY_MIN_MS) == position
