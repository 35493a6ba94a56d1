"""Compaction: what stays, what goes, when, and what interrupts it."""

import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.protocol.records.record_batch import Codec, headers, read_header, records, stamp
from minikafka.protocol.types import Buffer
from minikafka.runtime.errors import CorruptLog
from minikafka.storage.compaction import compaction
from minikafka.storage.compaction.compactor import due, groups_of
from minikafka.storage.compaction.key_offsets import BYTES_PER_KEY, KeyOffsets
from minikafka.storage.log import Log
from minikafka.storage.markers import TransactionMarker, encode_marker
from minikafka.storage.reading import Cold
from minikafka.storage.record_reading import MAX_READS, read_records, read_records_cold
from minikafka.storage.topic_config import TopicConfig

from .compaction_support import InlineRuntime, all_records, compacted, folded, put, shown
from .support import contents, topic

COMPACT = {"cleanup_policy": "compact", "index_interval_bytes": 0}
DAY_MS = 24 * 60 * 60 * 1000


async def opened(runtime: InlineRuntime, path: Path, config: TopicConfig, **how: object) -> Log:
    return await Log.open(runtime, str(path / "t-0"), config, **how)  # type: ignore[arg-type]


@pytest.fixture
def runtime() -> InlineRuntime:
    return InlineRuntime()


@pytest.fixture
async def log(runtime: InlineRuntime, tmp_path: Path) -> AsyncIterator[Log]:
    """A new log, closed in the end."""
    made = await opened(runtime, tmp_path, topic(**COMPACT))
    yield made
    made.abandon()


async def test_the_newest_record_of_a_key_stays_where_it_was(
    log: Log, runtime: InlineRuntime
) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(log, (b"b", b"2"))
    log.roll()
    put(log, (b"a", b"2"), (b"d", b"1"))
    log.roll()
    put(log, (b"c", b"2"))
    assert await compacted(runtime, log) == 6
    # c=1 stays: what replaces it lies in the newest segment, which is never looked at.
    assert shown(log) == ["2 c=1", "3 b=2", "4 a=2", "5 d=1", "6 c=2"]
    assert len(log.segments) == 2
    assert log.log_end_offset == 7


@pytest.mark.parametrize("codec", list(Codec))
async def test_what_is_left_of_a_batch_is_as_it_was(
    log: Log, runtime: InlineRuntime, codec: Codec
) -> None:
    entries = [(b"key%d" % (n % 4), b"v%d" % n) for n in range(10)]
    put(log, *entries, codec=codec, timestamp=5_000, epoch=3, producer=(7, 2, 40))
    before = all_records(log)
    log.roll()
    await compacted(runtime, log)
    assert all_records(log) == before[6:]
    ((_, header),) = headers(contents(log))
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (0, 9, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert (header.max_timestamp, header.compression) == (5_009, codec)


async def test_readers_go_on_within_gaps(log: Log, runtime: InlineRuntime) -> None:
    for n in range(30):
        put(log, (b"k%d" % (n % 3), b"%d" % n))
        if n % 10 == 9:
            log.roll()
    await compacted(runtime, log)
    kept = [27, 28, 29]
    for offset in range(30):
        read = await log.reader.read_cold(offset, max_bytes=1, up_to=30)
        ((_, header),) = headers(read.data)
        assert header.base_offset == next(each for each in kept if each >= offset)


async def test_nothing_above_the_bound_or_too_young_is_touched(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, min_compaction_lag_ms=1_000))
    for n in range(4):
        put(log, (b"a", b"%d" % n), timestamp=runtime.now_ms - 3_000 + n * 700)
        log.roll()
    # The third is younger than a second; with it, whatever its age, what follows.
    assert await compacted(runtime, log, up_to=1) == 1
    assert await compacted(runtime, log) == 3
    assert shown(log) == ["2 a=2", "3 a=3"]
    log.abandon()


async def test_it_begins_when_enough_is_dirty_or_something_waits_too_long(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    config = {**COMPACT, "min_cleanable_dirty_ratio": 0.5, "max_compaction_lag_ms": 10_000}
    log = await opened(runtime, tmp_path, topic(**config))
    for n in range(4):
        put(log, (b"a%d" % n, b"x" * 100), timestamp=runtime.now_ms)
        log.roll()
    await log.flush()
    now_ms = runtime.now_ms
    assert due(log, 0, 4, now_ms)
    assert due(log, 1, 4, now_ms)
    assert due(log, 2, 4, now_ms) is None, "half is not more than half"
    late = due(log, 2, 4, now_ms + 10_001)
    assert late is not None
    assert late.is_overdue
    assert due(log, 4, 4, now_ms + 10_001) is None, "nothing is dirty"
    assert late.urgency > (due(log, 0, 4, now_ms) or late).urgency
    log.abandon()


async def test_a_tombstone_stays_until_its_horizon(runtime: InlineRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, delete_retention_ms=1_000))
    put(log, (b"a", b"1"), (b"b", b"1"), timestamp=500)
    put(log, (b"a", None), (b"c", b"1"), timestamp=700)
    log.roll()
    end = await compacted(runtime, log)
    assert shown(log) == ["1 b=1", "2 a=-", "3 c=1"]
    data = contents(log)
    (_, first), (position, second) = headers(data)
    assert not first.has_delete_horizon
    assert second.has_delete_horizon
    assert second.base_timestamp == runtime.now_ms + 1_000
    assert [record.timestamp for record in records(data, position)] == [700, 701]
    runtime.now_ms += 999
    put(log, (b"z", b"1"))
    log.roll()
    end = await compacted(runtime, log, end or 0)
    assert shown(log) == ["1 b=1", "2 a=-", "3 c=1", "4 z=1"]
    assert [h.base_timestamp for _, h in headers(contents(log)) if h.has_delete_horizon] == [
        second.base_timestamp
    ], "the horizon is set once"
    runtime.now_ms += 1
    put(log, (b"y", b"1"))
    log.roll()
    await compacted(runtime, log, end or 0)
    assert shown(log) == ["1 b=1", "3 c=1", "4 z=1", "5 y=1"]
    log.abandon()


async def test_the_last_batch_of_a_producer_and_of_a_result_stays_as_a_header(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    put(log, (b"a", b"1"), producer=(1, 0, 0))
    put(log, (b"a", b"2"), producer=(1, 0, 1))
    put(log, (b"a", b"3"), producer=(2, 0, 0))
    put(log, (b"b", b"1"))
    put(log, (b"b", b"2"))
    log.roll()
    put(log, (b"a", b"4"), (b"b", b"3"))
    log.roll()
    put(log, (b"c", b"1"))
    assert await compacted(runtime, log) == 7
    found = [(h.base_offset, h.record_count, h.producer_id) for _, h in headers(contents(log))]
    assert found == [(1, 0, 1), (2, 0, 2), (5, 2, -1), (7, 1, -1)]
    log.abandon()
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    assert {id_: one.batches[-1].last_sequence for id_, one in log.producers} == {1: 1, 2: 0}
    log.abandon()


async def test_a_segment_of_which_nothing_is_left_ends_where_it_ended(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, segment_bytes=200))
    for n in range(9):
        put(log, (b"a", b"%d" % n * 90))
    count = len(log.segments)
    assert count > 3
    ends = [segment.next_offset for segment in log.segments]
    end = await compacted(runtime, log)
    assert end == ends[-2]
    assert [segment.next_offset for segment in log.segments] == ends
    end = await compacted(runtime, log, 0)
    assert len(log.segments) < count, "what is left of them fits fewer"
    assert [r.offset for r in all_records(log)][-1] == 8
    log.abandon()


def shown_batches(data: Buffer) -> list[tuple[int, int]]:
    return [(header.base_offset, header.record_count) for _, header in headers(data)]


async def test_a_consumer_is_led_past_batches_without_records(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, segment_bytes=200))
    put(log, (b"first", b"x" * 90))
    for n in range(2 * MAX_READS):
        put(log, (b"a", b"%d" % n * 60), producer=(n, 0, 0))
    end = log.log_end_offset
    await compacted(runtime, log)
    last = end - 2  # The newest segment is not looked at.
    empty = [(n, 0) for n in range(1, last)]
    assert shown_batches(contents(log)) == [(0, 1), *empty, (last, 1), (last + 1, 1)]
    beginning = read_records(log.reader, 0, max_bytes=1 << 20, up_to=end)
    assert shown_batches(beginning.data)[0] == (0, 1)
    near = read_records(log.reader, last - MAX_READS + 1, max_bytes=1, up_to=end)
    assert shown_batches(near.data) == [(last, 1)]
    with pytest.raises(Cold):
        read_records(log.reader, 1, max_bytes=1, up_to=end)
    far = await read_records_cold(log.reader, 1, max_bytes=1, up_to=end)
    assert shown_batches(far.data) == [(last, 1)]
    # A follower gets everything, and where nothing comes behind it a consumer gets to the end.
    assert shown_batches(log.reader.read(1, max_bytes=1, up_to=end).data) == [(1, 0)]
    bounded = read_records(log.reader, last - 3, max_bytes=1, up_to=last)
    assert shown_batches(bounded.data) == [(last - 1, 0)]
    assert not read_records(log.reader, end, max_bytes=1, up_to=end).data
    log.abandon()


async def test_keys_beyond_the_memory_wait_for_the_next_round(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, min_cleanable_dirty_ratio=0))
    for n in range(20):
        put(log, (b"k%d" % (n % 5), b"%d" % n), (b"x", b"%d" % n))
        if n % 6 == 5:
            log.roll()
    log.roll()
    before = folded(all_records(log))
    to, rounds = 0, []
    while (end := await compacted(runtime, log, to, map_bytes=3 * BYTES_PER_KEY)) is not None:
        assert end > to
        assert folded(all_records(log)) == before
        to = end
        rounds.append(end)
    assert rounds[0] == 4, "k0, x and k1 fit; the third key ends it within a batch"
    assert to == 40
    await compacted(runtime, log, 0)
    assert len(all_records(log)) == 6
    log.abandon()


def test_the_map_keeps_to_its_memory() -> None:
    keys = KeyOffsets(20_000 * BYTES_PER_KEY)
    tracemalloc.start()
    try:
        for n in range(20_000):
            assert keys.put(b"some longer key than sixteen bytes, number %d" % n, 1 << 40 | n)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 20_000 * BYTES_PER_KEY
    assert not keys.put(b"one more", 5)
    assert keys.put(b"some longer key than sixteen bytes, number 7", 1 << 50)
    assert not keys.is_newest(b"some longer key than sixteen bytes, number 7", 1 << 41)
    assert keys.is_newest(b"never seen", 0)


async def test_records_without_key_go(log: Log, runtime: InlineRuntime) -> None:
    """From before the topic was compacted: nothing can ever replace them."""
    put(log, (None, b"1"), (b"a", b"1"), (None, b"2"))
    log.roll()
    await compacted(runtime, log)
    assert shown(log) == ["1 a=1"]


async def test_gaps_are_no_damage_when_the_policy_changes(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    for n in range(9):
        put(log, (b"a%d" % (n % 2), b"%d" % n))
    log.roll()
    put(log, (b"b", b"1"))
    await compacted(runtime, log)
    kept = shown(log)
    log.reconfigure(topic())
    assert shown(log) == kept
    log.abandon()
    log = await opened(runtime, tmp_path, topic())
    assert shown(log) == kept
    # So it is for a replica that copies it.
    copy = await Log.open(runtime, str(tmp_path / "copy-0"), topic())
    data = contents(log)
    copy.append_run([header for _, header in headers(data)], data)
    assert shown(copy) == kept
    copy.abandon()
    copy = await Log.open(runtime, str(tmp_path / "copy-0"), topic())
    assert shown(copy) == kept
    copy.abandon()
    log.abandon()


async def test_a_truncation_meanwhile_ends_the_round(
    log: Log, runtime: InlineRuntime, tmp_path: Path
) -> None:
    for n in range(4):
        put(log, (b"a", b"%d" % n))
        log.roll()
    for job in range(3):
        runtime.jobs = 0

        def cut(number: int, job: int = job) -> None:
            if number == job:
                log.truncate_to(log.log_end_offset - 1)

        runtime.before_job = cut
        before = shown(log)
        assert await compacted(runtime, log) is None
        runtime.before_job = lambda number: None
        if job < 2:
            assert shown(log) == before[:-1]
        else:
            # All was in place by then: with what replaced it, the older record is gone, too.
            assert not log.reader.read(0, max_bytes=100, up_to=4).data
            assert not (await log.reader.read_cold(0, max_bytes=100, up_to=4)).data
        put(log, (b"a", b"again"), epoch=job + 1)
        log.roll()
    names = runtime.fs.listdir(str(tmp_path / "t-0"))
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    assert await compacted(runtime, log) == 4


async def test_a_log_that_goes_meanwhile_ends_the_round(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    for n in range(3):
        put(log, (b"a", b"%d" % n))
        log.roll()

    def leave(number: int) -> None:
        if number == 1:
            log.abandon()
            (tmp_path / "t-0").rename(tmp_path / "t-0-delete")

    runtime.before_job = leave
    assert await compacted(runtime, log) is None
    assert log.files.failure is None, "the disk is fine"


async def test_damage_ends_the_round_and_is_told(
    log: Log, runtime: InlineRuntime, tmp_path: Path
) -> None:
    for n in range(9):
        put(log, (b"a", b"%d" % n))
    log.roll()
    await log.flush()
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[200] ^= 4
    file.write_bytes(data)
    told = []
    log.reader.on_damaged = lambda _, error: told.append(error)
    assert await compacted(runtime, log) is None
    assert [error.path for error in told] == [str(file)]
    assert file.read_bytes() == data


async def test_a_segment_without_anything_to_drop_is_left_alone(
    log: Log, runtime: InlineRuntime, tmp_path: Path
) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    segment = log.segments[0]
    assert await compacted(runtime, log) == 2
    assert log.segments[0] is segment
    names = runtime.fs.listdir(str(tmp_path / "t-0"))
    assert not [name for name in names if "cleaned" in name]


async def test_results_do_not_outgrow_a_segment(runtime: InlineRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, segment_bytes=300))
    for n in range(20):
        put(log, (b"k%d" % n, b"x" * 60))
    groups = groups_of(log.segments[:-1], 600)
    assert [sum(s.size for s in group) <= 600 for group in groups] == [True] * len(groups)
    assert max(len(group) for group in groups) == 2
    log.abandon()


async def test_a_worker_process_does_the_work(tmp_path: Path) -> None:
    from minikafka.runtime.runtime import SystemRuntime

    runtime = SystemRuntime("test")
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**COMPACT))
    for n in range(50):
        put(log, (b"k%d" % (n % 7), b"%d" % n))
    log.roll()
    try:
        assert await compacted(runtime, log) == 50  # type: ignore[arg-type]
        assert [record.offset for record in all_records(log)] == list(range(43, 50))
    finally:
        log.abandon()
        runtime.close()


def begin(log: Log, producer_id: int, sequence: int, *entries: tuple[bytes, bytes]) -> None:
    put(log, *entries, producer=(producer_id, 0, sequence), is_transactional=True)


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    """Append a marker."""
    marker = TransactionMarker(producer_id, 0, 0, commit)
    data = encode_marker(marker, 1_000)
    header = read_header(data)
    stamp(data, header, log.log_end_offset, 0)
    log.append([(header, data)])


def kinds(log: Log) -> list[tuple[int, int, bool]]:
    return [(h.base_offset, h.record_count, h.is_control) for _, h in headers(contents(log))]


def aborted_in(log: Log) -> list[tuple[int, ...]]:
    indexes = [
        segment.aborted.index for segment in log.segments if segment.aborted.index is not None
    ]
    return [tuple(index[at])[:3] for index in indexes for at in range(len(index))]


async def test_aborted_records_go_and_markers_when_their_transaction_is_gone(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(
        runtime,
        tmp_path,
        topic(**{**COMPACT, "min_cleanable_dirty_ratio": 0, "delete_retention_ms": 1_000}),
    )
    begin(log, 1, 0, (b"a", b"committed"))
    begin(log, 2, 0, (b"a", b"aborted"), (b"b", b"aborted"))
    put(log, (b"b", b"plain"))
    log.roll()
    end(log, 1, commit=True)
    end(log, 2, commit=False)
    begin(log, 2, 2, (b"c", b"committed"))
    end(log, 2, commit=True)
    log.roll()
    put(log, (b"c", b"newest"))
    assert aborted_in(log) == [(2, 1, 5)]
    await compacted(runtime, log)
    # a=committed is not superseded by what was aborted.
    assert kinds(log) == [
        (0, 1, False),
        (3, 1, False),
        (4, 1, True),
        (5, 1, True),
        (6, 1, False),
        (7, 1, True),
        (8, 1, False),
    ]
    assert aborted_in(log) == [(2, 1, 5)], "the marker is still there"
    log.roll()
    horizon = runtime.now_ms + 1_000
    to = await compacted(runtime, log)
    found = {h.base_offset: h for _, h in headers(contents(log))}
    assert found[5].has_delete_horizon
    assert found[5].base_timestamp == horizon
    assert not found[4].has_delete_horizon, "a=committed is still there"
    assert found[6].record_count == 0, "its producer's last"
    runtime.now_ms = horizon
    put(log, (b"d", b"1"))
    log.roll()
    await compacted(runtime, log, to or 0)
    assert kinds(log) == [
        (0, 1, False),
        (3, 1, False),
        (4, 1, True),
        (6, 0, False),
        (7, 1, True),
        (8, 1, False),
        (9, 1, False),
    ]
    assert aborted_in(log) == [], "its entry went with it"
    log.abandon()
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    assert aborted_in(log) == []
    log.abandon()


async def test_x_62_a_reader_of_a_changelog_that_ends_in_a_marker_gets_to_its_end(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    """By its position, as libraries recover: each fetch leads on, though nothing is behind it."""
    log = await opened(
        runtime,
        tmp_path,
        topic(**{**COMPACT, "min_cleanable_dirty_ratio": 0, "delete_retention_ms": 1_000}),
    )
    for n in range(5):
        begin(log, 1, n, (b"a", b"%d" % n))
        end(log, 1, commit=True)
    begin(log, 2, 0, (b"a", b"never committed"))
    end(log, 2, commit=False)
    end(log, 3, commit=False)  # It had written nothing here: no record keeps its marker.
    log.roll()
    for _ in range(3):
        assert await compacted(runtime, log) == 13
        runtime.now_ms += 1_001
    assert len(kinds(log)) < 13, "it is compacted"
    assert kinds(log)[-1] == (12, 1, True)
    for at in range(13):
        position = at
        while position < log.log_end_offset:
            data = (await read_records_cold(log.reader, position, max_bytes=1, up_to=13)).data
            ends = [header.next_offset for _, header in headers(data)]
            assert ends, f"nothing at {position}"
            assert ends[-1] > position
            position = ends[-1]
    log.abandon()


async def test_the_index_of_aborted_transactions_is_found_again(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT))
    begin(log, 2, 0, (b"a", b"aborted"))
    end(log, 2, commit=False)
    put(log, (b"b", b"1"))
    log.roll()
    put(log, (b"b", b"2"))
    log.roll()
    put(log, (b"c", b"1"))
    await compacted(runtime, log)
    expected = [(2, 0, 1)]
    assert aborted_in(log) == expected
    await log.close()
    log = await opened(runtime, tmp_path, topic(**COMPACT), clean=True)
    assert aborted_in(log) == expected
    log.abandon()


async def test_a_segment_is_complete_when_something_in_it_is_due(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, topic(**COMPACT, max_compaction_lag_ms=1_000))
    for timestamp in (5_000, 6_000, 6_001):
        put(log, (b"a", b"1"), timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.abandon()


async def test_damage_is_not_mended_in_what_took_its_segments_place(
    log: Log, runtime: InlineRuntime, tmp_path: Path
) -> None:
    for n in range(4):
        put(log, (b"a%d" % (n % 2), b"%d" % n))
    log.roll()
    await log.flush()
    good = contents(log)
    file = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(good)
    data[-1] ^= 1
    file.write_bytes(data)
    position, _ = list(headers(good))[-1]
    damage = await log.reader.damage_at(CorruptLog(str(file), position, ""))
    assert damage is not None
    file.write_bytes(good)
    assert await compacted(runtime, log) == 4
    with pytest.raises(CorruptLog, match="compacted since"):
        await log.reader.mend(damage, good[damage.position : damage.end])


async def test_a_worker_that_forgot_the_round_ends_it(log: Log, runtime: InlineRuntime) -> None:
    for n in range(4):
        put(log, (b"a", b"%d" % n))
    log.roll()
    runtime.before_job = lambda number: compaction._rounds.clear() if number == 1 else None
    assert await compacted(runtime, log) is None
    assert len(all_records(log)) == 4
    assert await compacted(runtime, log) == 4
    assert len(all_records(log)) == 1


async def test_a_marker_is_never_left_without_its_record(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    """Clients and coordinators look into every control batch: it stays whole, or goes."""
    log = await opened(runtime, tmp_path, topic(**COMPACT, delete_retention_ms=0))
    begin(log, 2, 0, (b"a", b"aborted"))
    put(log, (b"b", b"1"), producer=(2, 0, 1))
    end(log, 2, commit=False)
    log.roll()
    for _ in range(3):
        assert await compacted(runtime, log) == 3
    assert kinds(log) == [(1, 1, False), (2, 1, True)]
    put(log, (b"c", b"1"))
    log.roll()
    assert await compacted(runtime, log) == 4
    assert kinds(log) == [(1, 1, False), (3, 1, False)]
    log.abandon()


async def test_r_43_no_older_value_of_a_key_comes_back_when_the_newest_has_expired(
    runtime: InlineRuntime, tmp_path: Path
) -> None:
    config = topic(**COMPACT, minikafka_ttl_ms=5_000)
    log = await opened(runtime, tmp_path, config)
    put(log, (b"k", b"older"), timestamp=10_000)
    put(log, (b"k", b"newest"), timestamp=1)
    log.roll()
    put(log, (b"x", b"-"), timestamp=20_000)
    assert await compacted(runtime, log) == 2
    assert shown(log) == ["1 k=newest", "2 x=-"]
    rule = config.ttl.rule
    assert rule is not None
    left = log.reader.without_expired(memoryview(contents(log)), rule, 12_000)
    kept = [
        one for at, header in headers(left) if not header.is_control for one in records(left, at)
    ]
    assert [one.value for one in kept] == [b"-"]
    log.abandon()
