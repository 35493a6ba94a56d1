from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.protocol.records.record_batch import BatchHeader
from minikafka.runtime.errors import InvariantViolation
from minikafka.storage.log import Log, OffsetOutOfRange
from minikafka.storage.producer_snapshots import decode_producers
from minikafka.storage.producer_state import ProducedBatch, ProducerState
from minikafka.storage.segments import Segments
from tests.storage.faults import FaultyFs
from tests.storage.support import (
    TestRuntime,
    batch,
    contents,
    fill,
    joined,
    offsets_in,
    read_all,
    topic,
)


async def opened(
    runtime: TestRuntime, path: Path, *, clean: bool = True, **settings: object
) -> Log:
    return await Log.open(runtime, str(path / "t-0"), topic(**settings), clean=clean)


@pytest.fixture
async def log(runtime: TestRuntime, tmp_path: Path) -> AsyncIterator[Log]:
    """A new log, closed in the end."""
    made = await opened(runtime, tmp_path)
    yield made
    await made.close()


async def test_an_unused_log_leaves_nothing_on_disk(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path)
    log.assign_epoch(3, 0)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert not log.reader.read(0, max_bytes=100, up_to=10).data
    await log.close()
    assert runtime.fs.listdir(str(tmp_path)) == []


async def test_what_is_appended_is_read_back(log: Log) -> None:
    made = fill(log, 100)
    assert log.log_end_offset == 100
    assert contents(log) == joined(made)


async def test_many_batches_go_in_one_append(log: Log) -> None:
    made = [batch(n) for n in range(3000)]
    log.append(made)
    assert contents(log) == joined(made)


async def test_a_read_begins_with_the_batch_that_holds_the_offset(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, index_interval_bytes=100)
    log.append([batch(n * 10, count=10) for n in range(50)])
    for offset in range(500):
        found = log.reader.read(offset, max_bytes=1 << 20, up_to=500)
        assert offsets_in(found.data) == list(range(offset - offset % 10, 500, 10))
    await log.close()


async def test_a_read_ends_below_up_to(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, index_interval_bytes=100)
    log.append([batch(n * 10, count=10) for n in range(50)])
    for up_to in range(501):
        found = log.reader.read(0, max_bytes=1 << 20, up_to=up_to)
        assert offsets_in(found.data) == list(range(0, up_to - up_to % 10, 10))
    await log.close()


async def test_a_read_gives_whole_batches_within_max_bytes(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, index_interval_bytes=300)
    made = fill(log, 50)
    size = made[0][0].size
    for max_bytes in range(0, size * 20, 7):
        found = log.reader.read(5, max_bytes=max_bytes, up_to=50)
        assert len(found.data) == max(max_bytes // size, 1) * size
        found = log.reader.read(5, max_bytes=max_bytes, up_to=50, at_least_one=False)
        assert len(found.data) == max_bytes // size * size
    await log.close()


async def test_a_batch_above_max_bytes_comes_whole(log: Log) -> None:
    log.append([batch(0, size=100_000), batch(1)])
    assert len(log.reader.read(0, max_bytes=10, up_to=2).data) > 100_000
    assert not log.reader.read(0, max_bytes=10, up_to=2, at_least_one=False).data


async def test_out_of_range(log: Log) -> None:
    fill(log, 3)
    log.advance_log_start(2)
    for offset in (-1, 1, 4):
        with pytest.raises(OffsetOutOfRange, match=r"not within 2\.\.3"):
            log.reader.read(offset, max_bytes=10, up_to=3)
    assert not log.reader.read(3, max_bytes=10, up_to=3).data


async def test_an_append_below_the_end_is_our_bug(log: Log) -> None:
    fill(log, 3)
    with pytest.raises(InvariantViolation):
        log.append([batch(2)])
    with pytest.raises(InvariantViolation):
        log.append([batch(3), batch(3)])
    assert log.log_end_offset == 3
    assert len(offsets_in(contents(log))) == 3


async def test_it_rolls_by_size_and_reads_across(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000)
    made = fill(log, 100)
    assert len(log.segments) > 5
    assert all(segment.size <= 1000 for segment in log.segments)
    assert contents(log) == joined(made)
    log.append([batch(n) for n in range(100, 200)])
    assert offsets_in(contents(log)) == list(range(200))
    names = runtime.fs.listdir(str(tmp_path / "t-0"))
    bases = [f"{segment.base_offset:020d}" for segment in log.segments]
    assert [name[:-4] for name in names if name.endswith(".log")] == bases
    assert [name[:-6] for name in names if name.endswith(".index")] == bases[:-1]
    assert [name[:-9] for name in names if name.endswith(".snapshot")] == bases[1:]
    await log.close()


async def test_it_rolls_by_time_of_the_records(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_ms=1000)
    for timestamp in (5_000, 6_000, 6_001, 7_001, 7_002):
        fill(log, 1, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    await log.close()


async def test_it_rolls_when_an_index_is_full(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_index_bytes=24, index_interval_bytes=0)
    made = fill(log, 20)
    assert len(log.segments) > 3
    assert contents(log) == joined(made)
    await log.close()


async def test_it_rolls_where_offsets_do_not_fit(log: Log) -> None:
    log.append([batch(0), batch(2**31 - 1), batch(2**31), batch(2**40)])
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**40]
    assert offsets_in(log.reader.read(5, max_bytes=1000, up_to=2**41).data) == [2**31 - 1]
    assert offsets_in(log.reader.read(2**33, max_bytes=1000, up_to=2**41).data) == [2**40]


async def test_a_follower_appends_one_buffer(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000)
    made = [batch(n, epoch=n // 10) for n in range(40)]
    log.append_run([header for header, _ in made], joined(made))
    assert contents(log) == joined(made)
    assert list(log.leader_epochs) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    await log.close()


async def test_a_clean_stop_keeps_everything(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000, index_interval_bytes=100)
    made = [batch(n, epoch=n // 40, producer=(7, 0, n), timestamp=n * 10) for n in range(100)]
    for one in made:
        log.append([one])
    await log.close()
    again = await opened(runtime, tmp_path, segment_bytes=1000, index_interval_bytes=100)
    assert again.flushed_offset == again.log_end_offset == 100
    assert await read_all(again) == joined(made)
    assert list(again.leader_epochs) == [(0, 0), (1, 40), (2, 80)]
    producer = again.producers.get(7)
    assert producer is not None
    assert producer.batches[-1].last_sequence == 99
    assert [s.max_timestamp for s in again.segments] == [s.max_timestamp for s in log.segments]
    fill(again, 10)
    assert again.log_end_offset == 110
    await again.close()


async def test_truncation_removes_whole_batches(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000, index_interval_bytes=100)
    made = [batch(n * 5, count=5, epoch=n // 5) for n in range(20)]
    log.append(made)
    log.truncate_to(63)  # within 60..64
    assert log.log_end_offset == 60
    assert contents(log) == joined(made[:12])
    assert log.leader_epochs.latest_epoch == 2
    log.append([batch(60, epoch=9)])
    assert offsets_in(contents(log))[-2:] == [55, 60]
    assert list(log.leader_epochs)[-1] == (9, 60)
    log.truncate_to(0)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    fill(log, 2)
    assert offsets_in(contents(log)) == [0, 1]
    await log.close()


async def test_truncation_at_every_offset(runtime: TestRuntime, tmp_path: Path) -> None:
    for at in range(41):
        log = await opened(runtime, tmp_path / str(at), segment_bytes=700, index_interval_bytes=1)
        made = fill(log, 40)
        log.truncate_to(at)
        assert log.log_end_offset == at
        assert contents(log) == joined(made[:at])
        made = made[:at] + fill(log, 3, size=5)
        assert contents(log) == joined(made)
        await log.close()
        log = await opened(runtime, tmp_path / str(at), segment_bytes=700)
        assert joined(made) == await read_all(log)
        log.segments.close()


def is_cut_stable(log: Log) -> bool:
    return not log.durability.may_be_uncut


async def test_what_follows_a_cut_lies_in_a_segment_of_its_own_until_the_cut_is_stable(
    log: Log,
) -> None:
    """Power may undo the cut: in one file the old batches would lie under the new ones (0021)."""
    fill(log, 10)
    await log.flush()
    log.truncate_to(5)
    assert not is_cut_stable(log)
    fill(log, 1)
    fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    await log.flush()
    assert is_cut_stable(log)
    log.truncate_to(6)
    await log.flush()
    fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 5], "that cut was stable"


async def test_a_cut_during_a_flush_is_not_made_stable_by_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 10)
    flush = Segments.flush

    async def cut_meanwhile(segments: Segments, from_offset: int) -> None:
        await flush(segments, from_offset)
        if is_cut_stable(log):
            log.truncate_to(5)

    monkeypatch.setattr(Segments, "flush", cut_meanwhile)
    await log.flush()
    assert not is_cut_stable(log)
    assert log.flushed_offset == 0, "the segment that was cut is to be flushed again"
    fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    await log.flush()
    assert (log.flushed_offset, is_cut_stable(log)) == (6, True)


async def test_a_newest_segment_that_was_cut_to_nothing_is_flushed_too(tmp_path: Path) -> None:
    fs = FaultyFs()
    log = await opened(TestRuntime(fs), tmp_path)
    fill(log, 5)
    await log.flush()
    log.roll()
    fill(log, 5)
    log.truncate_to(5)
    (newest,) = [path for _, path in fs.calls if path.endswith("00005.log")][-1:]
    fs.calls.clear()
    await log.flush()
    assert ("fdatasync", newest) in fs.calls, "the cut is not on stable storage"
    await log.close()


async def test_truncation_cuts_epochs_even_at_the_end(log: Log) -> None:
    fill(log, 5)
    log.assign_epoch(4, 5)
    log.truncate_to(5)
    assert list(log.leader_epochs) == [(0, 0)]


async def test_positions_known_before_a_truncation_are_forgotten(log: Log) -> None:
    fill(log, 40)
    log.truncate_to(10)
    made = [batch(n, size=n) for n in range(10, 30)]
    log.append(made)
    for header, buffer in reversed(made):
        found = log.reader.read(header.base_offset, max_bytes=5000, up_to=header.next_offset)
        assert found.data == buffer


async def test_starting_anew_elsewhere_survives_a_restart(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    fill(log, 5)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, len(log.leader_epochs)) == (1000, 1000, 0)
    log.segments.close()
    log = await opened(runtime, tmp_path, clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    fill(log, 2, epoch=3)
    assert offsets_in(contents(log)) == [1000, 1001]
    await log.close()


async def test_the_state_of_producers_follows_a_truncation(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000)
    for n in range(60):
        log.append([batch(n, producer=(7, 0, n))])
    for cut in (58, 40, 5):  # within what is remembered; beyond it; far beyond it
        log.truncate_to(cut)
        producer = log.producers.get(7)
        assert producer is not None
        assert producer.batches[-1].last_sequence == cut - 1
    log.truncate_to(0)
    assert log.producers.get(7) is None
    await log.close()


async def test_a_snapshot_knows_the_batches_of_the_append_that_rolled(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=900)
    log.append([batch(n, producer=(7, 0, n)) for n in range(25)])
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 10, 20]
    for base in bases[1:]:
        data = (tmp_path / "t-0" / f"{base:020d}.snapshot").read_bytes()
        state = decode_producers(data, runtime.wall_ms())
        assert state is not None
        assert isinstance(state.check(batch(base - 1, producer=(7, 0, base - 1))[0]), ProducedBatch)
    await log.close()


async def test_appending_observes_producers_once(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader has observed a batch when it staged it; a follower has not."""
    seen: list[int] = []
    observe = ProducerState.observe

    def noting(state: ProducerState, header: BatchHeader, now_ms: int) -> None:
        seen.append(header.base_offset)
        observe(state, header, now_ms)

    monkeypatch.setattr(ProducerState, "observe", noting)
    staged, received = (batch(n, producer=(7, 0, n)) for n in range(2))
    log.producers.observe(staged[0], 5)
    log.append([staged], are_observed=True)
    log.append([received])
    producer = log.producers.get(7)
    assert producer is not None
    assert (seen, len(producer.batches)) == ([0, 1], 2)


async def test_closed_files_are_opened_again(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await opened(runtime, tmp_path, segment_bytes=1000)
    made = fill(log, 50)
    log.segments.close()
    assert await read_all(log) == joined(made)
    log.segments.close()
    made += fill(log, 10)
    assert await read_all(log) == joined(made)
    await log.close()


async def test_reading_while_the_log_shrinks(log: Log) -> None:
    made = fill(log, 50)
    reading = log.reader.read_cold(10, max_bytes=1 << 20, up_to=50)
    log.truncate_to(30)
    assert (await reading).data == joined(made[10:30])


async def test_reading_of_a_log_that_is_moved_away_ends(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await opened(runtime, tmp_path)
    fill(log, 50)
    reading = log.reader.read_cold(10, max_bytes=1 << 20, up_to=50)
    log.abandon()
    assert not len((await reading).data)


async def test_an_idle_log_is_small(runtime: TestRuntime, tmp_path: Path) -> None:
    import tracemalloc

    from minikafka.storage.files import Files

    files, config = Files(runtime.fs, str(tmp_path)), topic()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    logs = [Log(runtime, files, f"{tmp_path}/topic-{n}", config, bytes(16)) for n in range(1000)]
    each = (tracemalloc.get_traced_memory()[0] - before) / len(logs)
    tracemalloc.stop()
    assert each < 1500
