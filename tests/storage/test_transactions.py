from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.storage.aborted import AbortedIndex, AbortedTransaction, aborted_between
from minikafka.storage.log import Log
from minikafka.storage.markers import TransactionMarker, read_marker
from minikafka.storage.producer_snapshots import decode_producers, encode_producers
from minikafka.storage.producer_state import NOT_VERIFIED, ProducerState
from tests.storage.support import SMALL, TestRuntime, batch, recovered, topic
from tests.storage.transactions import (
    Writer,
    aborted_in,
    append,
    marker,
    stable_offset,
    transactional,
)

A, B = Writer(1), Writer(2)


async def opened(runtime: TestRuntime, path: Path) -> Log:
    return await Log.open(runtime, str(path / "t-0"), topic(**SMALL), clean=True)


@pytest.fixture
async def log(runtime: TestRuntime, tmp_path: Path) -> AsyncIterator[Log]:
    """A new log, closed in the end."""
    made = await opened(runtime, tmp_path)
    yield made
    await made.close()


def interleaved(log: Log) -> None:
    """A: 0-1 aborted at 4; B: 2 committed at 5; A: 6 open."""
    append(log, transactional(0, A, 0, count=2), transactional(2, B), batch(3))
    append(log, marker(4, A, commits=False), marker(5, B, commits=True), transactional(6, A, 2))


# Open and decided.


async def test_open_transactions_bound_what_is_stable(log: Log) -> None:
    append(log, batch(0), transactional(1, A), transactional(2, B), batch(3))
    assert stable_offset(log) == 1
    append(log, marker(4, A, commits=True))
    assert stable_offset(log) == 2
    append(log, marker(5, B, commits=False))
    assert stable_offset(log) == 6


async def test_a_marker_decides_only_below_the_high_watermark(log: Log) -> None:
    append(log, batch(0), transactional(1, A), marker(2, A, commits=True), batch(3))
    assert stable_offset(log, 2) == 1
    assert stable_offset(log, 3) == 3


async def test_an_empty_transaction_holds_nobody_back(log: Log) -> None:
    append(log, batch(0), marker(1, A, commits=False))
    assert stable_offset(log, 1) == 1
    assert aborted_in(log) == []


async def test_aborted_transactions_are_indexed_with_what_was_stable_then(log: Log) -> None:
    interleaved(log)
    assert aborted_in(log) == [AbortedTransaction(1, 0, 4, 2)]
    append(log, marker(7, A, commits=False))
    assert aborted_in(log)[1:] == [AbortedTransaction(1, 6, 7, 8)]


async def test_readers_hear_of_what_was_aborted_among_their_records(log: Log) -> None:
    append(log, transactional(0, A), marker(1, A, commits=False))
    append(log, *(batch(offset) for offset in range(2, 40)))  # a few segments
    append(log, transactional(40, B), transactional(41, A, 1), marker(42, B, commits=False))
    append(log, *(batch(offset) for offset in range(43, 60)), marker(60, A, commits=False))
    assert len(log.segments) > 4

    def told(start: int, end: int) -> list[tuple[int, int]]:
        found = aborted_between(log.segments, start, end)
        return [(each.producer_id, each.first_offset) for each in found]

    assert told(0, 1) == [(1, 0)]
    assert told(2, 40) == []
    assert told(1, 2) == [(1, 0)]  # Its marker ends it.
    assert told(2, 41) == [(2, 40)]
    assert told(43, 50) == [(1, 41)]  # The marker lies segments behind.
    assert told(0, 61) == [(1, 0), (2, 40), (1, 41)]


# On disk.


async def test_the_index_has_kafkas_format(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path)
    append(log, transactional(0, Writer(258)), batch(1), marker(2, Writer(258), commits=False))
    await log.close()
    expected = "00000000000000000102000000000000000000000000000000020000000000000003"
    assert (tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes().hex() == expected


async def test_a_log_without_aborts_has_no_index_of_them(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    append(log, transactional(0, A), marker(1, A, commits=True), batch(2))
    log.roll()
    append(log, batch(3))
    await log.close()
    assert not list((tmp_path / "t-0").glob("*.txnindex"))


@pytest.mark.parametrize("clean", [True, False])
async def test_transactions_survive_a_restart(
    runtime: TestRuntime, tmp_path: Path, clean: bool
) -> None:
    log = await opened(runtime, tmp_path)
    interleaved(log)
    log.roll()
    append(log, batch(7), transactional(8, B, 1), marker(9, B, commits=False))
    known = aborted_in(log)
    if clean:
        await log.close()
        again = await opened(runtime, tmp_path)
    else:
        log.abandon()
        again = await recovered(runtime, tmp_path)
    assert aborted_in(again) == known
    assert stable_offset(again) == 6
    assert again.producers.has_open_transaction(1, 0)
    append(again, marker(10, A, commits=True))
    assert stable_offset(again) == 11
    await again.close()


@pytest.mark.parametrize("epochs", [0, 6])
async def test_what_was_undecided_at_a_clean_stop_is_undecided_after_it(
    runtime: TestRuntime, tmp_path: Path, epochs: int
) -> None:
    """A follower stops before it has heard that a marker is committed: it may yet be cut off."""
    log = await opened(runtime, tmp_path)
    append(log, batch(0), transactional(1, A), transactional(2, B))
    assert stable_offset(log) == 1
    append(log, marker(3, A, commits=True))
    log.roll()
    append(log, *(transactional(4 + n, Writer(2, n), n) for n in range(epochs)))
    append(log, marker(4 + epochs, Writer(2, max(epochs - 1, 0)), commits=False))
    assert stable_offset(log, 3) == 1
    await log.close()
    again = await opened(runtime, tmp_path)
    assert stable_offset(again, 3) == 1
    assert stable_offset(again, 4) == 2
    assert stable_offset(again) == 5 + epochs
    await again.close()
    at_last = await opened(runtime, tmp_path)
    assert stable_offset(at_last) == 5 + epochs
    await at_last.close()


async def test_what_was_undecided_stays_so_though_producers_are_learnt_again(log: Log) -> None:
    append(log, batch(0), transactional(1, A), batch(2), marker(3, A, commits=True))
    assert stable_offset(log, 3) == 1
    log.roll()
    append(log, *(transactional(4 + n, B, n) for n in range(9)))
    log.truncate_to(5)
    assert log.producers.has_open_transaction(2, 0)
    assert stable_offset(log, 3) == 1
    assert stable_offset(log, 4) == 4


@pytest.mark.parametrize("damage", ["missing", "torn", "nonsense"])
async def test_a_lost_index_is_made_anew(runtime: TestRuntime, tmp_path: Path, damage: str) -> None:
    """Of a segment that is trusted; the transaction began in the segment before."""
    log = await opened(runtime, tmp_path)
    append(log, transactional(0, A), batch(1))
    log.roll()
    append(log, batch(2), marker(3, A, commits=False))
    log.roll()
    append(log, batch(4))
    await log.close()
    file = tmp_path / "t-0" / f"{2:020d}.txnindex"
    if damage == "missing":
        file.unlink()
        file.with_suffix(".index").unlink()  # As after a loss of power: it is written later.
    else:
        file.write_bytes(file.read_bytes()[:-1] if damage == "torn" else bytes(34))
    again = await opened(runtime, tmp_path)
    assert aborted_in(again) == [AbortedTransaction(1, 0, 3, 4)]
    assert file.stat().st_size == 34
    await again.close()


async def test_what_recovery_cuts_off_is_aborted_no_more(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    append(log, transactional(0, A), marker(1, A, commits=False))
    append(log, transactional(2, A, 1), marker(3, A, commits=False))
    log.segments[-1].save_indexes()
    position = log.segments[-1].size - marker(3, A, commits=False)[0].size
    log.abandon()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: position + 10])
    again = await recovered(runtime, tmp_path)
    assert aborted_in(again) == [AbortedTransaction(1, 0, 1, 2)]
    assert stable_offset(again) == 2
    await again.close()


async def test_the_index_goes_with_its_segment(
    log: Log, runtime: TestRuntime, tmp_path: Path
) -> None:
    append(log, transactional(0, A), marker(1, A, commits=False))
    log.roll()
    append(log, batch(2, timestamp=runtime.now_ms))
    assert list((tmp_path / "t-0").glob("*.txnindex"))
    log.reconfigure(topic(**SMALL, retention_ms=1))
    log.delete_old_segments(runtime.now_ms, 2)
    assert log.log_start_offset == 2
    assert not list((tmp_path / "t-0").glob("*.txnindex"))


@pytest.mark.parametrize("rot", [b"", None, b"nonsense"])
async def test_an_index_that_the_disk_loses_is_written_anew(
    log: Log, tmp_path: Path, rot: bytes | None
) -> None:
    append(log, transactional(0, A), marker(1, A, commits=False))
    log.roll()
    segment = log.segments[0]
    file = tmp_path / "t-0" / f"{0:020d}.txnindex"
    written = file.read_bytes()
    assert not segment.aborted.mend()
    if rot is None:
        file.unlink()
    else:
        file.write_bytes(rot)
    assert segment.aborted.mend()
    assert file.read_bytes() == written
    assert not segment.aborted.mend()


def test_an_index_that_cannot_be_true_is_refused() -> None:
    index = AbortedIndex()
    index.add(AbortedTransaction(1, 10, 14, 12))
    index.add(AbortedTransaction(2, 12, 20, 21))
    data = index.encode()
    assert AbortedIndex.decode(data, 10, 30) is not None
    assert AbortedIndex.decode(data, 10, 20) is None  # A marker behind the end.
    assert AbortedIndex.decode(data, 15, 30) is None  # One before the segment.
    assert AbortedIndex.decode(data[34:] + data[:34], 10, 30) is None
    assert AbortedIndex.decode(data[:-1], 10, 30) is None
    assert AbortedIndex.decode(b"\0\1" + data[2:], 10, 30) is None


# Truncation.


async def test_a_marker_that_is_cut_off_ended_nothing(log: Log) -> None:
    interleaved(log)
    log.truncate_to(4)
    assert stable_offset(log) == 0
    assert aborted_in(log) == []
    assert log.producers.has_open_transaction(1, 0)
    assert log.producers.has_open_transaction(2, 0)
    append(log, marker(4, A, commits=True))
    assert stable_offset(log) == 2


async def test_a_transaction_that_is_cut_off_never_began(log: Log) -> None:
    interleaved(log)
    log.truncate_to(6)
    assert not log.producers.has_open_transaction(1, 0)
    assert stable_offset(log) == 6
    assert aborted_in(log) == [AbortedTransaction(1, 0, 4, 2)]


async def test_a_new_epoch_that_is_cut_off_never_was(log: Log) -> None:
    append(log, transactional(0, Writer(1, 0), 0), marker(1, Writer(1, 1), commits=True))
    append(log, transactional(2, Writer(1, 1), 0))
    log.truncate_to(1)
    known = log.producers.get(1)
    assert known is not None
    assert (known.epoch, known.coordinator_epoch, known.transaction_start) == (0, -1, 0)
    assert [each.first_sequence for each in known.batches] == [0]


async def test_what_was_settled_is_learnt_again_when_it_is_cut_after_all(log: Log) -> None:
    """Only an unclean election cuts below the high watermark."""
    append(log, batch(0), transactional(1, A), marker(2, A, commits=False), batch(3))
    assert stable_offset(log) == 4
    log.truncate_to(2)
    assert log.producers.has_open_transaction(1, 0)
    assert stable_offset(log) == 1


# Who may append.


def test_a_transaction_begins_only_once_it_is_verified() -> None:
    state = ProducerState()
    first = transactional(0, A, 5)[0]
    assert state.check_transactional(first, NOT_VERIFIED) is ErrorCode.INVALID_TXN_STATE
    assert state.check_transactional(first, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check_transactional(first, 5) is None
    state.observe(first, 0)
    assert state.check_transactional(transactional(1, A, 6)[0], NOT_VERIFIED) is None


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    state = ProducerState()
    state.observe(transactional(0, A, 0)[0], 0)
    plain = batch(1, producer=(1, 0, 1))[0]
    assert state.check(plain) is ErrorCode.INVALID_TXN_STATE
    state.observe_marker(TransactionMarker(1, 0, 0, is_commit=True), 1, 0)
    assert state.check(plain) is None


def test_a_fenced_producer_is_told_so_before_anything_else() -> None:
    state = ProducerState()
    state.observe_marker(TransactionMarker(1, 3, 0, is_commit=False), 0, 0)
    old = transactional(1, Writer(1, 2), 9)[0]
    assert state.check_transactional(old, NOT_VERIFIED) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_marker_of_a_newer_epoch_sequences_begin_at_0() -> None:
    state = ProducerState()
    state.observe(transactional(0, Writer(1, 0), 0)[0], 0)
    state.observe_marker(TransactionMarker(1, 1, 0, True, transaction_version=2), 1, 0)
    late = transactional(2, Writer(1, 1), 1)[0]
    assert state.check_transactional(late, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check_transactional(transactional(2, Writer(1, 1), 0)[0], 9) is None


@pytest.mark.parametrize(
    ("marker", "answer"),
    [
        (TransactionMarker(1, 4, 9, True), ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionMarker(1, 5, 2, True), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (TransactionMarker(1, 5, 3, True), ErrorCode.NONE),
        (TransactionMarker(1, 6, 4, False), ErrorCode.NONE),
        (TransactionMarker(1, 5, 3, True, transaction_version=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionMarker(1, 6, 3, True, transaction_version=2), ErrorCode.NONE),
        (TransactionMarker(9, 0, 0, True, transaction_version=2), ErrorCode.NONE),
    ],
)
def test_markers_are_fenced(marker: TransactionMarker, answer: ErrorCode) -> None:
    state = ProducerState()
    state.observe_marker(TransactionMarker(1, 5, 3, is_commit=True), 0, 0)
    state.observe(transactional(1, Writer(1, 5), 0)[0], 0)
    assert state.check_marker(marker) is answer


def test_a_marker_may_come_again() -> None:
    """Its answer was lost: it ends nothing, and says so to nobody."""
    state = ProducerState()
    state.observe(transactional(0, Writer(1, 0), 0)[0], 0)
    ending = TransactionMarker(1, 1, 0, False, transaction_version=2)
    assert state.observe_marker(ending, 1, 0) == AbortedTransaction(1, 0, 1, 2)
    assert state.check_marker(ending) is ErrorCode.NONE
    assert state.observe_marker(ending, 2, 0) is None


def test_an_open_transaction_never_expires() -> None:
    state = ProducerState()
    state.observe(transactional(0, A, 0)[0], 100)
    state.observe(batch(1, producer=(2, 0, 0))[0], 100)
    assert state.remove_expired(10_000, 1_000) == 1
    assert state.get(1) is not None
    state.observe_marker(TransactionMarker(1, 0, 0, is_commit=True), 2, 100)
    assert state.remove_expired(10_000, 1_000) == 1


def test_a_snapshot_keeps_an_open_transaction_behind_which_much_is_staged() -> None:
    state = ProducerState()
    for number in range(12):
        state.observe(transactional(number, A, number)[0], 0)
    again = decode_producers(encode_producers(state, 1), 0)
    assert again is not None
    assert again.has_open_transaction(1, 0)
    assert again.first_undecided(100) == 0


def test_a_snapshot_does_not_tell_of_producers_that_came_later() -> None:
    state = ProducerState()
    state.observe(transactional(0, A, 0)[0], 0)
    state.observe_marker(TransactionMarker(2, 0, 0, is_commit=True), 1, 0)
    before, after = (decode_producers(encode_producers(state, end), 0) for end in (1, 2))
    assert before is not None
    assert after is not None
    assert (before.get(2), len(after)) == (None, 2)


def test_other_control_records_end_nothing() -> None:
    header, buffer = batch(0, producer=(1, 0, 0))
    assert read_marker(header, buffer) is None


def test_ten_thousand_producers_are_cheap() -> None:
    import tracemalloc

    headers = [batch(n, producer=(n, 0, 0))[0] for n in range(10_000)]
    state = ProducerState()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for header in headers:
        state.observe(header, 0)
    each = (tracemalloc.get_traced_memory()[0] - before) / len(headers)
    tracemalloc.stop()
    assert each < 600
