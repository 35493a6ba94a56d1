"""Scenarios F: high watermarks, starts, producers, retention, compactions.

Crash points and damaged files are in test_f_storage.py, clusters in test_f_failing_disks.py.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from minikafka.broker.partition.host import Host
from minikafka.broker.partition.partition import Partition
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicIdPartition, TopicPartition
from minikafka.storage.directory import LogDirectory
from minikafka.storage.log import Log, OffsetOutOfRange
from minikafka.storage.producer_state import ProducedBatch
from tests.storage.faults import Fault, FaultyFs, Killed
from tests.storage.support import (
    DAMAGES,
    SMALL,
    Made,
    TestRuntime,
    batch,
    contents,
    fill,
    joined,
    read_all,
    recovered,
    topic,
)

from ..simulation.stage import Stage, staged


async def test_f_10_high_watermark_older_than_log_start(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """Given a checkpointed high watermark older than the log's start; then it is that start."""
    name = TopicPartition("t", 0)
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = directory.new_log(name, bytes(16), topic())
    fill(log, 20)
    log.advance_log_start(15)
    await directory.close({name: 10})
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1)
    log = await directory.open_log(name, bytes(16), topic())
    host = cast(Host, SimpleNamespace(traffic=None))  # It is not asked for anything else.
    key = TopicIdPartition(bytes(16), 0)
    for checkpointed, is_meant in ((directory.checkpoints.high_watermarks[name], 15), (100, 20)):
        assert Partition(host, key, name, log, checkpointed).high_watermark == is_meant
    await directory.close()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("clean", [True, False])
async def test_f_12_producers_are_learnt_again_from_the_log(
    runtime: TestRuntime, tmp_path: Path, damage: Callable[[Path], None], clean: bool
) -> None:
    """Given producer snapshots that are missing or damaged; then producers are learnt from batches,
    and duplicates are known as such."""
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
    """Given a log that ends before its checkpointed start; then it begins anew there, aloud."""
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
    """Given retention by time, size or start that would go beyond the high watermark; then nothing
    at or above it goes."""
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


COMPACTED = topic(**SMALL, cleanup_policy="compact")


class Compaction:
    """Three segments of a log, and the one that takes the place of the first two."""

    def __init__(self, runtime: TestRuntime, path: Path, made: list[Made]) -> None:
        self.fs = runtime.fs
        self.folder = path / "t-0"
        names = [name for name in self.fs.listdir(str(self.folder)) if name.endswith(".log")]
        self.old = names[:2]
        end = int(names[2][:20])
        self.before = joined(made)
        # The last one always stays: a result ends where what it replaces ended.
        kept = [
            each for each in made[:end] if each[0].base_offset % 3 == 0 or each is made[end - 1]
        ]
        self.result = joined(kept)
        of_second = [each for each in kept if each[0].base_offset >= int(names[1][:20])]
        self.result_of_second = joined(of_second)
        self.after = self.result + joined(made[end:])

    def steps(self) -> list[Callable[[], None]]:
        """What a compaction does, in order."""
        name = self.old[0]
        return [
            lambda: self.write(f"{name}.cleaned", self.result[:100]),
            lambda: self.write(f"{name}.cleaned", self.result),
            lambda: self.rename(f"{name}.cleaned", f"{name}.swap"),
            lambda: self.rename(self.old[1], f"{self.old[1]}.deleted"),
            lambda: self.rename(self.old[0], f"{self.old[0]}.deleted"),
            lambda: self.rename(f"{name}.swap", name),
            lambda: self.fs.remove(str(self.folder / f"{self.old[1]}.deleted")),
        ]

    def write(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def rename(self, source: str, target: str) -> None:
        self.fs.rename(str(self.folder / source), str(self.folder / target))


@pytest.mark.parametrize("done", range(8))
@pytest.mark.parametrize("clean", [True, False])
async def test_f_06_a_compaction_stopped_anywhere_leaves_the_old_or_the_new(
    runtime: TestRuntime, tmp_path: Path, done: int, clean: bool
) -> None:
    """Given a stop between any two steps of a compaction, and another while that is settled; then
    all old segments are there or the new one, no record twice, no key lost."""
    for settled in itertools.count():
        path = tmp_path / f"{settled}"
        made = await one_log(runtime, path)
        compaction = Compaction(runtime, path, made)
        for step in compaction.steps()[:done]:
            step()
        is_stopped = False
        try:
            faulty = TestRuntime(FaultyFs(None if clean else Fault(settled)))
            await Log.open(faulty, str(path / "t-0"), COMPACTED, clean=clean)
        except Killed:
            is_stopped = True
        log = await Log.open(runtime, str(path / "t-0"), COMPACTED)
        assert await read_all(log) == (compaction.before if done < 3 else compaction.after)
        assert log.log_end_offset == 30
        names = runtime.fs.listdir(str(path / "t-0"))
        assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
        log.abandon()
        if clean or not is_stopped:
            break


async def one_log(runtime: TestRuntime, path: Path) -> list[Made]:
    log = await Log.open(runtime, str(path / "t-0"), COMPACTED)
    made = fill(log, 30)
    await log.close()
    return made


async def test_f_06_results_of_which_not_all_were_finished_are_undone(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """Given several results of one compaction, the last of them unfinished, or one that is
    damaged; then the old segments stay."""
    made = await one_log(runtime, tmp_path)
    compaction = Compaction(runtime, tmp_path, made)
    first, second = compaction.old
    folder = tmp_path / "t-0"
    (folder / f"{first}.cleaned").write_bytes(compaction.result[:50])
    (folder / f"{second}.swap").write_bytes(compaction.result_of_second)
    log = await Log.open(runtime, str(folder), COMPACTED, clean=True)
    assert contents(log) == compaction.before
    log.abandon()
    (folder / f"{first}.swap").write_bytes(compaction.result[:-1])
    log = await Log.open(runtime, str(folder), COMPACTED, clean=True)
    assert contents(log) == compaction.before
    log.abandon()


@staged()
async def test_f_11_a_roll_exactly_at_the_high_watermark_shows_nothing_uncommitted(
    stage: Stage,
) -> None:
    """Given a leader whose followers are silent; when its log rolls exactly at the high watermark;
    then the mark stays there and nobody reads beyond it, until followers are back."""
    settings = {"min.insync.replicas": "2", "segment.bytes": "1000"}
    await stage.create_topic("t", [[1, 2, 3]], configs=settings)
    value = b"v" * 330
    await stage.send("t", value, value)
    log = stage.partition(1, "t").log
    assert len(log.segments) == 1
    stage.pause(2, 3)
    await stage.send("t", b"w" * 600, acks="1")
    assert [each.base_offset for each in log.segments] == [0, 2]
    assert stage.partition(1, "t").high_watermark == 2
    assert await stage.read("t") == [value, value]
    stage.resume(2, 3)
    await stage.until(lambda: stage.partition(1, "t").high_watermark == 3, "committed")
    assert await stage.read("t") == [value, value, b"w" * 600]


@staged(broker={"log.retention.check.interval.ms": "300"})
async def test_f_15_a_followers_log_begins_where_its_leaders_does_and_never_above_the_mark(
    stage: Stage,
) -> None:
    """Given a leader that retires segments while a follower is silent; when the follower is back;
    then its log begins where the leader's does, and nowhere ever above the high watermark."""
    # A log that begins anew at its leader's start is empty, below that start and above it.
    stage.mute(4)
    settings = {"min.insync.replicas": "2", "segment.bytes": "1000", "retention.bytes": "3000"}
    await stage.create_topic("t", [[1, 2, 3]], configs=settings)
    replicas = {who: stage.partition(who, "t") for who in (1, 2, 3)}
    stage.pause(3)
    for _ in range(30):
        await stage.send("t", b"v" * 400)
        assert all(each.log_start_offset <= each.high_watermark for each in replicas.values())
    await stage.until(lambda: replicas[1].log_start_offset >= 20, "retired")
    assert replicas[3].log_start_offset == 0
    stage.resume(3)

    def follows() -> bool:
        assert all(each.log_start_offset <= each.high_watermark for each in replicas.values())
        return replicas[3].log_start_offset == replicas[1].log_start_offset

    await stage.until(follows, "3 follows")
    assert replicas[3].log_end_offset == 30
