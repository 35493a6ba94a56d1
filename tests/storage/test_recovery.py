"""Scenarios of a stopped process and a lying disk. F-NN are those of the fault catalogue."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.record_batch import headers
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.directory import LogDirectory
from minikafka.storage.integrity import Rules, judge
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.log import Log, OffsetOutOfRange
from minikafka.storage.producer_state import ProducedBatch
from tests.storage.faults import EIO, ENOSPC, Fault, FaultyFs, Killed
from tests.storage.support import Made, TestRuntime, batch, contents, fill, joined, read_all, topic

SMALL = {"segment_bytes": 900, "index_interval_bytes": 150}


async def recovered(
    runtime: TestRuntime, path: Path, *, recovery_point: int = 0, log_start: int = 0
) -> Log:
    """Open without the mark of a clean stop."""
    return await Log.open(
        runtime,
        str(path / "t-0"),
        topic(**SMALL),
        recovery_point=recovery_point,
        log_start_offset=log_start,
    )


@dataclass
class Story:
    """A workload, and the contents that it has promised at every moment."""

    runtime: TestRuntime
    path: Path
    before: bytes = b""
    """Contents when the current step began, and what it is to make of them."""
    after: bytes = b""
    flushed: bytes = b""
    made: list[Made] = field(default_factory=list)

    async def run(self) -> None:
        log = await recovered(self.runtime, self.path)
        try:
            await self._live(log)
        finally:
            log.abandon()

    async def _live(self, log: Log) -> None:
        for n in range(8):
            self._append(log, [batch(n, epoch=n // 5, producer=(7, 0, n))])
        self._append(log, [batch(n, epoch=2, producer=(7, 0, n)) for n in range(8, 24)])
        await self._flush(log)
        self._append(log, [batch(24, count=3, epoch=2)])
        self._step(joined(self.made[:20]))
        log.truncate_to(20)
        del self.made[20:]
        self._append(log, [batch(n, epoch=4) for n in range(20, 30)])
        await self._flush(log)
        self._append(log, [batch(30, epoch=4)])
        self._step(self.after)
        await log.close()

    def _step(self, after: bytes) -> None:
        self.before, self.after = self.after, after

    def _append(self, log: Log, made: list[Made]) -> None:
        self.made += made
        self._step(self.after + joined(made))
        log.append(made)

    async def _flush(self, log: Log) -> None:
        self._step(self.after)
        await log.flush()
        self.flushed = self.after


def common_prefix(one: bytes, other: bytes) -> bytes:
    """The batches that both begin with."""
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    both = one[: min(len(one), len(other)) if length is None else length]
    return both[: judge(both, 0, Rules(LeaderEpochs())).size]


async def check_prefix(story: Story, log: Log, found: bytes) -> None:
    assert story.after.startswith(found) or story.before.startswith(found)
    whole = [header for _, header in headers(found)]
    assert [h.base_offset for h in whole] == sorted(h.base_offset for h in whole)
    expected: list[tuple[int, int]] = []
    for header in whole:
        if not expected or header.leader_epoch > expected[-1][0]:
            expected.append((header.leader_epoch, header.base_offset))
    assert list(log.leader_epochs) == expected
    last = max((h.last_sequence for h in whole if h.producer_id == 7), default=None)
    producer = log.producers.get(7)
    assert (producer.batches[-1].last_sequence if producer else None) == last


@pytest.mark.parametrize("written", [0.0, 0.4, 1.0])
async def test_f_01_killed_at_any_write_fsync_or_rename(
    runtime: TestRuntime, tmp_path: Path, written: float
) -> None:
    at = 0
    while True:
        fs = FaultyFs(Fault(at, written=written))
        path = tmp_path / str(at)
        story = Story(TestRuntime(fs), path)
        try:
            await story.run()
            break
        except Killed:
            pass
        log = await recovered(runtime, path)
        found = await read_all(log)
        await check_prefix(story, log, found)
        # A killed process loses nothing that a call had finished.
        assert len(found) >= len(common_prefix(story.before, story.after))
        made = fill(log, 3, epoch=9)
        assert await read_all(log) == found + joined(made)
        await log.close()
        at += 1
    assert at > 60


@pytest.mark.parametrize("seed", range(3))
async def test_f_01_power_cut_at_any_write_fsync_or_rename(
    runtime: TestRuntime, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    at = 0
    while True:
        fs = FaultyFs(Fault(at, written=rng.random()))
        path = tmp_path / str(at)
        story = Story(TestRuntime(fs), path)
        try:
            await story.run()
            break
        except Killed:
            fs.cut_power(str(path), rng)
        log = await recovered(runtime, path)
        found = await read_all(log)
        await check_prefix(story, log, found)
        kept = common_prefix(story.flushed, common_prefix(story.before, story.after))
        assert found.startswith(kept)
        await log.close()
        at += 1
    assert at > 60


async def test_f_02_torn_last_batch_at_any_byte(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await recovered(runtime, tmp_path)
    made = fill(log, 5)
    log.abandon()
    size = made[0][0].size
    file = tmp_path / "t-0" / f"{0:020d}.log"
    whole = file.read_bytes()
    for cut in range(1, size + 1):
        file.write_bytes(whole[: len(whole) - cut])
        log = await recovered(runtime, tmp_path)
        assert log.log_end_offset == 4
        assert await read_all(log) == joined(made[:4])
        log.abandon()
        assert file.stat().st_size == 4 * size


async def test_f_02_any_wrong_byte_ends_the_log_there(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await recovered(runtime, tmp_path)
    made = fill(log, 3)
    log.abandon()
    size = made[0][0].size
    file = tmp_path / "t-0" / f"{0:020d}.log"
    whole = file.read_bytes()
    for at in range(size, 2 * size):
        damaged = bytearray(whole)
        damaged[at] ^= 0x5A
        file.write_bytes(damaged)
        log = await recovered(runtime, tmp_path)
        found = await read_all(log)
        if at not in range(size + 12, size + 16):
            assert found == joined(made[:1])
        else:
            # No checksum covers the leader epoch. A later one than it was is believed here, and
            # ends the log for the followers of whoever is asked about it.
            assert [h.base_offset for _, h in headers(found)][:1] == [0]
        log.abandon()


async def test_f_04_a_bad_batch_ends_the_log_and_drops_later_segments(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await recovered(runtime, tmp_path)
    made = fill(log, 40)
    assert len(log.segments) >= 4
    bases = [segment.base_offset for segment in log.segments]
    log.abandon()
    file = tmp_path / "t-0" / f"{bases[1]:020d}.log"
    data = bytearray(file.read_bytes())
    data[made[0][0].size + 70] ^= 1
    file.write_bytes(data)
    log = await recovered(runtime, tmp_path)
    end = bases[1] + 1
    assert log.log_end_offset == end
    assert await read_all(log) == joined(made[:end])
    names = runtime.fs.listdir(str(tmp_path / "t-0"))
    assert [name for name in names if name.startswith(f"{bases[2]:020d}")] == []
    assert runtime.fs.exists(str(file))
    await log.close()


async def test_f_04_a_lost_tail_leaves_no_hole(runtime: TestRuntime, tmp_path: Path) -> None:
    """The end of one segment never reached the disk, the next segment did."""
    log = await recovered(runtime, tmp_path)
    made = fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.abandon()
    file = tmp_path / "t-0" / f"{bases[1]:020d}.log"
    file.write_bytes(file.read_bytes()[: -made[0][0].size])
    log = await recovered(runtime, tmp_path)
    assert log.log_end_offset == bases[2] - 1
    assert await read_all(log) == joined(made[: bases[2] - 1])
    await log.close()


def _delete(file: Path) -> None:
    file.unlink()


def _half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2 + 1])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2 + 1] ^= 0x11
    file.write_bytes(data)


def _garbage(file: Path) -> None:
    file.write_bytes(random.Random(1).randbytes(len(file.read_bytes())))


@pytest.mark.parametrize("damage", [_delete, _half, _empty, _flip, _garbage])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_f_05_missing_or_corrupt_index_changes_no_answer(
    runtime: TestRuntime, tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    log = await recovered(runtime, tmp_path)
    made = [batch(n, timestamp=n * 10) for n in range(60)]
    for one in made:
        log.append([one])
    bases = [segment.base_offset for segment in log.segments]
    await log.close()
    for base in (bases[0], bases[1], bases[-1]):
        damage(tmp_path / "t-0" / f"{base:020d}{suffix}")
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SMALL), clean=True)
    assert log.log_end_offset == 60
    for offset in range(60):
        for _ in range(2):
            found = await log.read_cold(offset, max_bytes=10, up_to=60)
            assert bytes(found.data) == bytes(made[offset][1])
    for n in range(60):
        at = await log.offset_for_timestamp(n * 10 - 5)
        assert at is not None
        assert at.offset == n
    newest = await log.max_timestamp()
    assert newest is not None
    assert newest.offset == 59
    await log.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_f_05_any_wrong_byte_of_an_index_changes_no_answer(
    runtime: TestRuntime, tmp_path: Path, suffix: str
) -> None:
    config = topic(segment_bytes=3000, index_interval_bytes=400)
    log = await Log.open(runtime, str(tmp_path / "t-0"), config)
    made = [batch(n, timestamp=n * 3) for n in range(50)]
    for one in made:
        log.append([one])
    bases = [segment.base_offset for segment in log.segments]
    await log.close()
    file = tmp_path / "t-0" / f"{bases[0]:020d}{suffix}"
    whole = file.read_bytes()
    # The last time entry alone says how new a segment is: nothing contradicts it.
    for at in range(len(whole) - (12 if suffix == ".timeindex" else 0)):
        for flip in (1, 4, 0x80):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            file.write_bytes(damaged)
            log = await Log.open(runtime, str(tmp_path / "t-0"), config, clean=True)
            for n in range(bases[1]):
                found = await log.read_cold(n, max_bytes=200, up_to=bases[1])
                assert joined(made[n : bases[1]]).startswith(bytes(found.data))
                assert found.data
                newer = await log.offset_for_timestamp(n * 3 - 1)
                assert newer is not None
                assert newer.offset == n
            log.abandon()


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "t-0/leader-epoch-checkpoint",
)


@pytest.mark.parametrize("damage", [_delete, _half, _empty, _garbage])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_f_07_checkpoints_empty_or_torn_are_no_obstacle(
    runtime: TestRuntime, tmp_path: Path, damage: Callable[[Path], None], is_clean: bool
) -> None:
    name = TopicPartition("t", 0)
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = directory.new_log(name, bytes(16), topic(**SMALL))
    made = [batch(n, epoch=n // 20) for n in range(50)]
    for one in made:
        log.append([one])
    log.advance_log_start(3)
    await log.flush()
    if is_clean:
        await directory.close({name: 40})
    else:
        await directory.checkpoint({name: 40})
        directory.abandon()
    for checkpoint in CHECKPOINTS:
        damage(tmp_path / checkpoint)
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    assert directory.was_clean == is_clean
    log = await directory.open_log(name, bytes(16), topic(**SMALL))
    assert (log.log_start_offset, log.log_end_offset) == (0, 50)
    assert directory.high_watermark_of(name) == 0
    assert list(log.leader_epochs) == [(0, 0), (1, 20), (2, 40)]
    assert await read_all(log) == joined(made)
    await directory.close()


async def test_f_08_no_space_leaves_no_partial_batch(tmp_path: Path) -> None:
    fs = FaultyFs()
    runtime = TestRuntime(fs)
    log = await recovered(runtime, tmp_path)
    failures: list[LogDirectoryFailed] = []
    log._files.on_failed = failures.append
    made = fill(log, 3)
    fs.fault = Fault(0, error=ENOSPC, written=0.5, only="write")
    fs.calls.clear()
    with pytest.raises(LogDirectoryFailed, match="No space left"):
        log.append([batch(3), batch(4)])
    assert log.log_end_offset == 3
    assert (tmp_path / "t-0" / f"{0:020d}.log").read_bytes() == joined(made)
    with pytest.raises(LogDirectoryFailed):
        fill(log, 1)
    with pytest.raises(LogDirectoryFailed):
        await log.flush()
    assert len(failures) == 1
    log.abandon()


async def test_f_08_a_short_write_is_resumed(tmp_path: Path) -> None:
    class ShortFs(FaultyFs):
        pass

    fs = ShortFs()
    runtime = TestRuntime(fs)
    log = await recovered(runtime, tmp_path)
    fill(log, 1)
    file = log.segments[-1].file()
    whole = file.pwritev

    class Short:
        def pwritev(self, buffers: list[bytes], offset: int) -> int:
            data = b"".join(bytes(b) for b in buffers)
            return whole([data[: max(len(data) // 3, 1)]], offset)

        def __getattr__(self, name: str) -> object:
            return getattr(file, name)

    log.segments[-1]._file = Short()  # type: ignore[assignment]
    made = [batch(n, size=n) for n in range(1, 40)]
    log.append(made)
    assert contents(log).endswith(joined(made))
    assert log.log_end_offset == 40
    log.abandon()


async def test_f_09_a_failed_fsync_is_never_tried_again(tmp_path: Path) -> None:
    fs = FaultyFs()
    runtime = TestRuntime(fs)
    log = await recovered(runtime, tmp_path)
    fill(log, 3)
    await log.flush()
    fill(log, 3)
    fs.calls.clear()
    fs.fault = Fault(0, error=EIO, only="fdatasync")
    with pytest.raises(LogDirectoryFailed, match="Input/output error"):
        await log.flush()
    assert log.recovery_point == 3
    calls = len(fs.calls)
    for _ in range(3):
        with pytest.raises(LogDirectoryFailed):
            await log.flush()
        with pytest.raises(LogDirectoryFailed):
            fill(log, 1)
    await log.close()
    assert len(fs.calls) == calls
    assert log.recovery_point == 3


async def test_f_10_high_watermark_older_than_log_start(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    name = TopicPartition("t", 0)
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = directory.new_log(name, bytes(16), topic())
    fill(log, 20)
    log.advance_log_start(15)
    await directory.close({name: 10})
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    await directory.open_log(name, bytes(16), topic())
    assert directory.high_watermark_of(name) == 15
    directory.high_watermarks[name] = 100
    assert directory.high_watermark_of(name) == 20
    await directory.close()


@pytest.mark.parametrize("damage", [_delete, _half, _empty, _flip, _garbage])
@pytest.mark.parametrize("clean", [True, False])
async def test_f_12_producers_are_learnt_again_from_the_log(
    runtime: TestRuntime, tmp_path: Path, damage: Callable[[Path], None], clean: bool
) -> None:
    log = await recovered(runtime, tmp_path)
    made = [batch(n, producer=(7, 0, n)) for n in range(40)]
    for one in made:
        log.append([one])
    await log.close()
    snapshots = sorted((tmp_path / "t-0").glob("*.snapshot"))
    assert len(snapshots) > 2
    for file in snapshots:
        damage(file)
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SMALL), clean=clean)
    for header, _ in made[-5:]:
        known = log.producers.check(header)
        assert isinstance(known, ProducedBatch)
        assert known.base_offset == header.base_offset
    assert log.producers.check(batch(40, producer=(7, 0, 40))[0]) is None
    gap = log.producers.check(batch(40, producer=(7, 0, 41))[0])
    assert gap is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    await log.close()


async def test_f_13_a_log_that_ends_before_its_start_begins_anew(
    runtime: TestRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = await recovered(runtime, tmp_path)
    fill(log, 20, producer=(7, 0, 0))
    await log.close()
    log = await recovered(runtime, tmp_path, log_start=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert (len(log.leader_epochs), len(log.producers), log.size_bytes) == (0, 0, 0)
    assert "begun anew at 50" in caplog.text
    made = fill(log, 2, epoch=1)
    await log.close()
    log = await recovered(runtime, tmp_path)
    assert log.log_start_offset == 50
    assert await read_all(log) == joined(made)
    log.abandon()


async def test_f_14_nothing_above_the_high_watermark_is_deleted(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    for settings in ({"retention_ms": 1}, {"retention_bytes": 0}):
        path = tmp_path / str(settings)
        log = await Log.open(runtime, str(path / "t-0"), topic(**SMALL, **settings))
        fill(log, 60)
        for high_watermark in (0, 13, 25, 40):
            log.delete_old_segments(runtime.wall_ms(), high_watermark)
            assert log.log_start_offset <= high_watermark
            first = log.segments[0]
            assert first.base_offset <= high_watermark < first.next_offset
        with pytest.raises(OffsetOutOfRange):
            log.advance_log_start(61)
        assert log.delete_old_segments(runtime.wall_ms(), 60) > 0
        assert (log.log_start_offset, log.log_end_offset) == (60, 60)
        fill(log, 1)
        await log.close()


async def test_an_epoch_is_on_file_before_its_first_batch(tmp_path: Path) -> None:
    fs = FaultyFs()
    log = await recovered(TestRuntime(fs), tmp_path)
    for epoch in range(3):
        fs.calls.clear()
        log.append([batch(log.log_end_offset, epoch=epoch)])
        calls = [(kind, Path(name).name) for kind, name in fs.calls]
        assert calls.index(("rename", "leader-epoch-checkpoint")) < calls.index(
            ("write", f"{0:020d}.log")
        )
    log.abandon()


async def test_whose_partition_it_is_is_on_file_before_anything_else(tmp_path: Path) -> None:
    fs = FaultyFs()
    log = await Log.open(TestRuntime(fs), str(tmp_path / "t-0"), topic(), topic_id=bytes(16))
    fill(log, 1)
    renamed = [Path(name).name for kind, name in fs.calls if kind == "rename"]
    assert renamed == ["partition.metadata", "leader-epoch-checkpoint"]
    log.abandon()


async def test_a_flush_takes_the_indexes_of_complete_segments_along(tmp_path: Path) -> None:
    fs = FaultyFs()
    log = await recovered(TestRuntime(fs), tmp_path)
    fill(log, 5)
    await log.flush()
    log.roll()
    fs.synced.clear()
    await log.flush()
    for suffix in (".index", ".timeindex"):
        path = str(tmp_path / "t-0" / f"{0:020d}{suffix}")
        assert fs.synced[path] == (tmp_path / path).stat().st_size
    log.abandon()


async def test_the_recovery_point_never_moves_forward_without_a_flush(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await recovered(runtime, tmp_path)
    fill(log, 40)
    log.abandon()
    log = await recovered(runtime, tmp_path, recovery_point=5)
    assert (log.recovery_point, log.log_end_offset) == (5, 40)
    await log.flush()
    assert log.recovery_point == 40
    log.abandon()


async def test_segments_below_the_recovery_point_are_not_read(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await recovered(runtime, tmp_path)
    made = fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.abandon()
    file = tmp_path / "t-0" / f"{bases[1]:020d}.log"
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    log = await recovered(runtime, tmp_path, recovery_point=bases[2])
    assert log.log_end_offset == len(made)
    log.abandon()


async def test_a_file_of_zeros_is_an_empty_segment(runtime: TestRuntime, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(bytes(4096))
    log = await recovered(runtime, tmp_path)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    made = fill(log, 2)
    assert contents(log) == joined(made)
    log.abandon()


async def test_leftovers_are_swept(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await recovered(runtime, tmp_path)
    fill(log, 2)
    await log.close()
    folder = tmp_path / "t-0"
    for name in ("0.tmp", f"{9:020d}.index", f"{9:020d}.timeindex", f"{3:020d}.log.deleted"):
        (folder / name).write_bytes(b"x")
    log = await recovered(runtime, tmp_path)
    assert runtime.fs.listdir(str(folder)) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        "leader-epoch-checkpoint",
    ]
    log.abandon()


async def test_recovery_gives_the_loop_to_others(runtime: TestRuntime, tmp_path: Path) -> None:
    import asyncio

    log = await recovered(runtime, tmp_path)
    fill(log, 200)
    log.abandon()
    clock = iter(range(0, 10**9, 100))
    runtime.monotonic_ms = lambda: next(clock)  # type: ignore[method-assign]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    log = await recovered(runtime, tmp_path)
    other.cancel()
    assert turns >= len(log.segments)
    log.abandon()
