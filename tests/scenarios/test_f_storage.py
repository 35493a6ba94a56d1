"""Scenarios F: one log and its directory, stopped anywhere on a lying disk.

What a cluster makes of a failing disk is in test_f_failing_disks.py.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from minikafka.protocol.records.record_batch import headers
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.directory import LogDirectory
from minikafka.storage.integrity import Rules, judge
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.log import Log
from tests.storage.faults import EIO, ENOSPC, Fault, FaultyFs, Killed
from tests.storage.support import (
    DAMAGES,
    SMALL,
    Made,
    TestRuntime,
    batch,
    contents,
    delete,
    empty,
    fill,
    garble,
    halve,
    joined,
    read_all,
    recovered,
    topic,
)

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "t-0/leader-epoch-checkpoint",
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


@pytest.mark.parametrize("written", [0.4, 1.0])
async def test_f_01_killed_at_any_write_fsync_or_rename(
    runtime: TestRuntime, tmp_path: Path, written: float
) -> None:
    """Given a process killed at every write, fsync and rename in turn, in the middle of a write,
    too; when its log is opened; then a prefix of what was appended is there, and all of what was
    finished."""
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


@pytest.mark.parametrize("seed", range(1))
async def test_f_01_power_cut_at_any_write_fsync_or_rename(
    runtime: TestRuntime, tmp_path: Path, seed: int
) -> None:
    """Given a loss of power at every such point; then a prefix is there, and what was flushed."""
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
    """Given a last batch cut at any byte; then the log ends where that batch began."""
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
    """Given any wrong byte in an unflushed batch; then the log ends before it."""
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
    """Given a bad batch in the middle of unflushed segments; then the log ends there, and the
    segments behind it are gone, to be fetched again."""
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


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_f_05_missing_or_corrupt_index_changes_no_answer(
    runtime: TestRuntime, tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    """Given an index that is missing, torn or garbage; then it is made anew, with equal answers."""
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
            found = await log.reader.read_cold(offset, max_bytes=10, up_to=60)
            assert bytes(found.data) == bytes(made[offset][1])
    for n in range(60):
        at = await log.reader.offset_for_timestamp(n * 10 - 5)
        assert at is not None
        assert at.offset == n
    newest = await log.reader.max_timestamp()
    assert newest is not None
    assert newest.offset == 59
    await log.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_f_05_any_wrong_byte_of_an_index_changes_no_answer(
    runtime: TestRuntime, tmp_path: Path, suffix: str
) -> None:
    """Given any wrong byte in an index; then answers are equal."""
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
        damaged = bytearray(whole)
        damaged[at] ^= (1, 4, 0x80)[at % 3]
        file.write_bytes(damaged)
        log = await Log.open(runtime, str(tmp_path / "t-0"), config, clean=True)
        for n in range(bases[1]):
            found = await log.reader.read_cold(n, max_bytes=200, up_to=bases[1])
            assert joined(made[n : bases[1]]).startswith(bytes(found.data))
            assert found.data
            newer = await log.reader.offset_for_timestamp(n * 3 - 1)
            assert newer is not None
            assert newer.offset == n
        log.abandon()


@pytest.mark.parametrize("damage", [delete, halve, empty, garble])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_f_07_checkpoints_empty_or_torn_are_no_obstacle(
    runtime: TestRuntime, tmp_path: Path, damage: Callable[[Path], None], is_clean: bool
) -> None:
    """Given checkpoints that are empty, torn or garbage; then the log is opened all the same, and
    whatever they would have vouched for is read."""
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
    assert directory.checkpoints.high_watermarks.get(name, 0) == 0
    assert list(log.leader_epochs) == [(0, 0), (1, 20), (2, 40)]
    assert await read_all(log) == joined(made)
    await directory.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_f_07_a_wrong_digit_in_a_checkpoint_hides_no_record(
    runtime: TestRuntime, tmp_path: Path, is_clean: bool
) -> None:
    """Given offset checkpoints with one digit too high; then they count as missing: every record
    is read, and a torn tail below the recovery point is found."""
    name = TopicPartition("t", 0)
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = directory.new_log(name, bytes(16), topic(**SMALL))
    made = [batch(n) for n in range(50)]
    for one in made:
        log.append([one])
    log.advance_log_start(13)
    await log.flush()
    if is_clean:
        await directory.close({name: 13})
    else:
        await directory.checkpoint({name: 13})
        directory.abandon()
    for file in CHECKPOINTS[:3]:
        text = (tmp_path / file).read_text()
        assert "\nt 0 13\n" in text
        (tmp_path / file).write_text(text.replace("\nt 0 13\n", "\nt 0 43\n"))
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = await directory.open_log(name, bytes(16), topic(**SMALL))
    assert log.log_start_offset < 13
    assert log.log_end_offset == 50
    assert (
        directory.checkpoints.recovery_points,
        directory.checkpoints.high_watermarks.get(name, 0),
    ) == ({}, 0)
    assert await read_all(log) == joined(made[log.log_start_offset :])
    await directory.close()


async def test_f_08_no_space_leaves_no_partial_batch(tmp_path: Path) -> None:
    """Given a disk that is full in the middle of a batch; then no part of it is there, and the
    directory is offline."""
    fs = FaultyFs()
    runtime = TestRuntime(fs)
    log = await recovered(runtime, tmp_path)
    failures: list[LogDirectoryFailed] = []
    log.files.on_failed = failures.append
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
    """Given a write that takes fewer bytes than it was given; then the rest follows."""

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
    """Given a failed fsync; then the directory is offline, and no later one is believed."""
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
    assert log.flushed_offset == 3
    calls = len(fs.calls)
    for _ in range(3):
        with pytest.raises(LogDirectoryFailed):
            await log.flush()
        with pytest.raises(LogDirectoryFailed):
            fill(log, 1)
    await log.close()
    assert len(fs.calls) == calls
    assert log.flushed_offset == 3
