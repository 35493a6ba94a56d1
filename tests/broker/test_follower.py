"""The follower's rules, each as a sentence with its whole input and output."""

from minikafka.broker.replica.follower import (
    DELAY_MAX_MS,
    DELAY_MIN_MS,
    Append,
    Fetched,
    FetchPosition,
    FollowerReplica,
    Halted,
    HighWatermarkMoved,
    LogStartRaised,
    OffsetsLost,
    Phase,
    TruncateTo,
)
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


def test_records_that_do_not_continue_our_log_are_refused() -> None:
    log = MemoryLog("9999")
    follower, position = following(log)
    assert follower.on_fetched(position, fetched(2, 5), log, NOW) == ()
    assert follower.phase is Phase.DELAYED


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


def test_the_log_and_not_the_epoch_file_says_where_our_last_epoch_ends() -> None:
    """A file that names an epoch past the log's end is trimmed when the log is loaded."""
    log = MemoryLog("11")
    log.assign(4, 2)
    log.truncate_to(2)
    assert following(log)[1] == FetchPosition(2, 1, 9)


def test_a_fetch_of_an_old_epoch_is_fenced_and_cannot_join_the_isr() -> None:
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
