import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError, LogDirectoryFailed
from minikafka.storage.checkpoints import decode_offsets
from minikafka.storage.directory import LogDirectory, StoredLog
from minikafka.storage.files import HIGH_WATERMARKS
from tests.storage.faults import EIO, Fault, FaultyFs
from tests.storage.support import TestRuntime, contents, fill, joined, read_all, topic

FLIGHTS = TopicPartition("flights-2013", 3)
ID = bytes(range(16))
CLUSTER = "AAECAwQFBgcICQoLDA0ODw"


async def opened(runtime: TestRuntime, path: Path, **how: str) -> LogDirectory:
    return await LogDirectory.open(runtime, str(path), node_id=1, cluster_id=how.get("cluster"))


async def settled() -> None:
    """Let background work, which waits for nothing here, come to its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


async def test_a_new_directory_gets_an_identity(runtime: TestRuntime, tmp_path: Path) -> None:
    directory = await opened(runtime, tmp_path / "a" / "b")
    assert (directory.cluster_id, directory.was_clean) == (None, False)
    known = directory.directory_id
    await directory.join(CLUSTER)
    await directory.close(broker_epoch=12)
    directory = await opened(runtime, tmp_path / "a" / "b", cluster=CLUSTER)
    assert (directory.directory_id, directory.cluster_id) == (known, CLUSTER)
    assert directory.clean_broker_epoch == 12
    directory.abandon()
    other = await opened(runtime, tmp_path / "c")
    assert other.directory_id != known
    other.abandon()


async def test_a_directory_of_others_is_refused(runtime: TestRuntime, tmp_path: Path) -> None:
    directory = await opened(runtime, tmp_path, cluster=CLUSTER)
    with pytest.raises(ConfigError, match=f"log.dirs={tmp_path}: locked by another process"):
        await opened(runtime, tmp_path)
    await directory.close()
    with pytest.raises(ConfigError, match=r"belongs to node\.id=1"):
        await LogDirectory.open(runtime, str(tmp_path), node_id=2)
    with pytest.raises(ConfigError, match=f"belongs to cluster.id={CLUSTER}, not other"):
        await opened(runtime, tmp_path, cluster="other")
    directory = await opened(runtime, tmp_path)
    with pytest.raises(ConfigError, match="belongs to cluster"):
        await directory.join("other")
    directory.abandon()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be used: (Not a directory|File exists)"):
        await opened(runtime, tmp_path / "file")


async def test_the_clean_mark_is_gone_once_the_directory_is_open(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    await directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    directory = await opened(runtime, tmp_path)
    assert directory.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    directory.abandon()
    directory = await opened(runtime, tmp_path)
    assert not directory.was_clean
    directory.abandon()


async def test_logs_are_found_again(runtime: TestRuntime, tmp_path: Path) -> None:
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic())
    idle = directory.new_log(TopicPartition("idle", 0), ID, topic())
    assert directory.stored() == []
    made = fill(log, 5, epoch=3)
    await directory.close({FLIGHTS: 4, TopicPartition("idle", 0): 0})
    assert idle.log_end_offset == 0
    directory = await opened(runtime, tmp_path)
    assert directory.stored() == [StoredLog(FLIGHTS, ID)]
    log = await directory.open_log(FLIGHTS, ID, topic())
    assert directory.checkpoints.high_watermarks.get(FLIGHTS, 0) == 4
    assert await read_all(log) == joined(made)
    assert (log.flushed_offset, log.leader_epochs.latest_epoch) == (5, 3)
    await directory.close({FLIGHTS: 4})


async def test_the_unknown_is_quarantined_and_the_unwanted_deleted(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    for n in range(2):
        fill(directory.new_log(TopicPartition("t", n), ID, topic()), 2)
    stray = directory.quarantine(TopicPartition("t", 0))
    assert stray is not None
    assert stray.endswith("-stray")
    assert (Path(stray) / f"{0:020d}.log").exists()
    directory.delete(TopicPartition("t", 1))
    directory.delete(TopicPartition("never", 1))
    assert directory.stored() == []
    assert directory.logs == {}
    names = runtime.fs.listdir(str(tmp_path))
    assert [name for name in names if name.startswith("t-")] == [Path(stray).name]
    (tmp_path / "t-1.xyz-delete").mkdir()  # a deletion that a crash cut short
    await directory.close()
    directory = await opened(runtime, tmp_path)
    assert not (tmp_path / "t-1.xyz-delete").exists()
    assert runtime.fs.exists(stray)
    directory.abandon()


async def test_a_topic_with_the_longest_name_is_set_aside_and_deleted(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    longest = [TopicPartition("t" * 249, n) for n in (7, 11)]
    for name in longest:
        fill(directory.new_log(name, ID, topic()), 1)
    stray = directory.quarantine(longest[0])
    assert stray is not None
    assert len(Path(stray).name) == 255
    directory.delete(longest[1])
    assert directory.failure is None
    assert directory.stored() == []
    directory.abandon()


async def test_a_rolled_segment_is_flushed_soon(tmp_path: Path) -> None:
    fs = FaultyFs()
    runtime = TestRuntime(fs)
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic(segment_bytes=900))
    fill(log, 15)
    assert log.flushed_offset == 0
    await settled()
    assert log.flushed_offset == 15
    directory.abandon()


async def test_flush_messages_begins_a_flush(tmp_path: Path) -> None:
    fs = FaultyFs()
    directory = await opened(TestRuntime(fs), tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic(flush_messages=3))
    fill(log, 2)
    await settled()
    assert log.flushed_offset == 0
    fill(log, 1)
    assert log.flushed_offset == 0, "not within the append"
    await settled()
    assert log.flushed_offset == 3
    log.reconfigure(topic())
    fill(log, 20)
    await settled()
    assert log.flushed_offset == 3
    directory.abandon()


async def test_the_checkpoint_vouches_only_for_what_is_committed(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """What is committed is never cut off, so an ordinary truncation finds nothing to take back."""
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic(segment_bytes=900))
    fill(log, 25)
    await log.flush()
    assert log.flushed_offset == 25
    await directory.checkpoint({FLIGHTS: 12})
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    assert decode_offsets(checkpoint.read_bytes()) == {FLIGHTS: 12}
    log.truncate_to(12)
    assert decode_offsets(checkpoint.read_bytes()) == {FLIGHTS: 12}
    directory.abandon()


@pytest.mark.parametrize("start_at", [False, True])
async def test_before_more_is_cut_the_checkpoint_is_taken_back(
    tmp_path: Path, start_at: bool
) -> None:
    fs = FaultyFs()
    directory = await opened(TestRuntime(fs), tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic(segment_bytes=900))
    fill(log, 25)
    await directory.checkpoint({FLIGHTS: 12})
    await log.flush()
    await directory.checkpoint({FLIGHTS: 12})
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    fs.calls.clear()
    if start_at:
        log.truncate_fully_and_start_at(11)
    else:
        log.truncate_to(11)
    assert checkpoint.read_text() == "0\n0\n"
    kinds = [kind for kind, _ in fs.calls]
    assert kinds[:5] == ["create", "truncate", "write", "fdatasync", "rename"]
    assert kinds[5] == "fsync_dir", "stable before anything is cut"
    fs.calls.clear()
    log.truncate_to(5)
    assert "fsync_dir" not in [kind for kind, _ in fs.calls], "once for however many"
    fill(log, 9)
    await log.flush()
    await directory.checkpoint({FLIGHTS: 9})
    assert checkpoint.read_text() != "0\n0\n"
    directory.abandon()


def when_prepared(directory: LogDirectory, happens: Callable[[], None]) -> None:
    """Let something happen after a checkpoint is prepared, before it is put in its place."""
    prepare = directory.files.prepare

    async def prepare_slowly(path: str, data: bytes) -> None:
        await prepare(path, data)
        happens()

    directory.files.prepare = prepare_slowly  # type: ignore[method-assign]


async def test_a_checkpoint_being_written_does_not_bring_back_what_was_taken(
    tmp_path: Path,
) -> None:
    fs = FaultyFs()
    directory = await opened(TestRuntime(fs), tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic(segment_bytes=900))
    fill(log, 25)
    await log.flush()
    await directory.checkpoint({FLIGHTS: 20})

    def cut() -> None:
        if log.log_end_offset == 25:
            log.truncate_to(3)

    when_prepared(directory, cut)
    await directory.checkpoints.write_recovery_points()
    assert directory.checkpoints.recovery_points == {}
    directory.abandon()
    directory = await opened(TestRuntime(fs), tmp_path)
    assert (
        directory.checkpoints.recovery_points == {}
        or directory.checkpoints.recovery_points[FLIGHTS] <= 3
    )
    directory.abandon()


async def test_the_checkpoint_does_not_vouch_for_the_next_of_a_name(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    fill(directory.new_log(FLIGHTS, ID, topic()), 9)
    await directory.logs[FLIGHTS].flush()
    await directory.checkpoint({FLIGHTS: 9})
    directory.delete(FLIGHTS)
    # The checkpoint without it is on its way; this does not wait for that.
    directory.new_log(FLIGHTS, bytes(16), topic())
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (tmp_path / name).read_text() == "0\n0\n"
    await settled()
    directory.abandon()


async def test_the_first_checkpoint_of_a_name_may_be_overtaken_by_the_next_of_that_name(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    fill(directory.new_log(FLIGHTS, ID, topic()), 9)

    def make_anew() -> None:
        if directory.logs[FLIGHTS].segments.topic_id == ID:
            directory.delete(FLIGHTS)
            directory.new_log(FLIGHTS, bytes(16), topic())

    when_prepared(directory, make_anew)
    await directory.checkpoint({FLIGHTS: 9})
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n0\n"
    await settled()
    directory.abandon()


async def test_a_log_that_died_with_its_broker_vouches_for_none_of_its_name(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """Given a broker that died between a deletion's rename and the next checkpoint; when the topic
    is there anew, and it dies again; then nothing that was true of the old log is believed."""
    directory = await opened(runtime, tmp_path)
    fill(directory.new_log(FLIGHTS, ID, topic()), 9)
    await directory.logs[FLIGHTS].flush()
    await directory.checkpoint({FLIGHTS: 9})
    directory.abandon()
    (tmp_path / "flights-2013-3").rename(tmp_path / "flights-2013-3.gone-delete")
    directory = await opened(runtime, tmp_path)
    assert directory.checkpoints.high_watermarks == {FLIGHTS: 9}
    fill(directory.new_log(FLIGHTS, bytes(16), topic()), 20)
    directory.abandon()
    directory = await opened(runtime, tmp_path)
    log = await directory.open_log(FLIGHTS, bytes(16), topic())
    assert (log.log_end_offset, directory.checkpoints.high_watermarks.get(FLIGHTS, 0)) == (20, 0)
    directory.abandon()


async def test_a_stop_before_every_log_is_opened_is_not_clean(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    fill(directory.new_log(FLIGHTS, ID, topic()), 9)
    await directory.close({FLIGHTS: 9}, broker_epoch=5)
    directory = await opened(runtime, tmp_path)
    assert directory.clean_broker_epoch == 5
    await directory.close(broker_epoch=6)
    directory = await opened(runtime, tmp_path)
    assert directory.clean_broker_epoch is None
    await directory.open_log(FLIGHTS, ID, topic())
    await directory.close(broker_epoch=7)
    directory = await opened(runtime, tmp_path)
    assert directory.clean_broker_epoch == 7
    directory.abandon()


@pytest.mark.parametrize("text", ["", "nonsense", "version=1\nnode.id=x\n", "\x00" * 90, "\xff"])
async def test_an_identity_that_cannot_be_read_is_made_anew_and_nothing_else_believed(
    runtime: TestRuntime, tmp_path: Path, text: str
) -> None:
    directory = await opened(runtime, tmp_path, cluster=CLUSTER)
    made = fill(directory.new_log(FLIGHTS, ID, topic()), 9)
    await directory.close({FLIGHTS: 9}, broker_epoch=5)
    before = directory.directory_id
    (tmp_path / "meta.properties").write_bytes(text.encode("latin-1"))
    for _ in range(2):
        directory = await opened(runtime, tmp_path)
        assert directory.directory_id != before
        assert directory.cluster_id is None
        assert directory.clean_broker_epoch is None
        assert directory.checkpoints.recovery_points == directory.checkpoints.high_watermarks == {}
        log = await directory.open_log(FLIGHTS, ID, topic())
        assert contents(log) == joined(made), "recovered from its own bytes"
        directory.abandon()
    names = runtime.fs.listdir(str(tmp_path))
    kept = [tmp_path / name for name in names if name.startswith("meta.properties.")]
    assert [file.read_bytes() for file in kept] == [text.encode("latin-1")]


async def test_a_directory_of_another_version_is_refused_and_stays_as_it_is(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path, cluster=CLUSTER)
    directory.abandon()
    path = tmp_path / "meta.properties"
    newer = path.read_bytes().replace(b"version=1", b"version=9")
    path.write_bytes(newer)
    with pytest.raises(ConfigError, match="is of version 9, this release reads version 1"):
        await opened(runtime, tmp_path)
    assert path.read_bytes() == newer


async def test_checkpoints_at_the_same_time_do_not_meet(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    fill(directory.new_log(FLIGHTS, ID, topic()), 1)
    await asyncio.gather(*(directory.checkpoint({FLIGHTS: 1}) for _ in range(5)))
    assert directory.failure is None
    directory.abandon()


async def test_logs_not_opened_yet_keep_their_checkpoints(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic())
    fill(log, 9)
    log.advance_log_start(4)
    await directory.close({FLIGHTS: 9})
    directory = await opened(runtime, tmp_path)
    await directory.checkpoint(directory.checkpoints.high_watermarks)
    directory.abandon()
    directory = await opened(runtime, tmp_path)
    assert directory.checkpoints.log_starts == {FLIGHTS: 4}
    assert directory.checkpoints.recovery_points == {FLIGHTS: 9}
    directory.abandon()


async def test_one_error_ends_the_directory_and_is_told_once(tmp_path: Path) -> None:
    fs = FaultyFs()
    runtime = TestRuntime(fs)
    directory = await opened(runtime, tmp_path)
    told: list[LogDirectoryFailed] = []
    directory.files.on_failed = told.append
    one = directory.new_log(TopicPartition("t", 0), ID, topic())
    other = directory.new_log(TopicPartition("t", 1), ID, topic())
    fill(one, 2)
    fill(other, 2)
    fs.fault = Fault(0, error=EIO, only="write", lasts=True)
    fs.calls.clear()
    with pytest.raises(LogDirectoryFailed, match=str(tmp_path)):
        fill(one, 1)
    for use in (lambda: fill(other, 1), directory.stored, directory.files.space):
        with pytest.raises(LogDirectoryFailed):
            use()
    with pytest.raises(LogDirectoryFailed):
        await other.flush()
    with pytest.raises(LogDirectoryFailed):
        await directory.checkpoint({})
    assert told == [directory.failure]
    await directory.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    directory = await opened(TestRuntime(FaultyFs()), tmp_path)
    log = await directory.open_log(TopicPartition("t", 1), ID, topic())
    assert log.log_end_offset == 2
    assert contents(log)
    directory.abandon()


async def test_files_beyond_the_limit_are_closed(runtime: TestRuntime, tmp_path: Path) -> None:
    directory = await LogDirectory.open(runtime, str(tmp_path), node_id=1, max_open_files=5)
    logs = [directory.new_log(TopicPartition("t", n), ID, topic()) for n in range(20)]
    for _ in range(3):
        for log in logs:
            fill(log, 1)
    assert len(directory.files._open) <= 5
    for log in logs:
        assert len(await read_all(log)) == log.size_bytes
    await directory.close()


async def test_a_high_watermark_of_before_a_cut_does_not_vouch_for_what_comes_after_it(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """An unclean election cut what was committed: a crash must not call the new history so."""
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic())
    fill(log, 20)
    await directory.checkpoint({FLIGHTS: 18})
    log.truncate_to(10)
    fill(log, 10)
    directory.abandon()
    directory = await opened(runtime, tmp_path)
    await directory.open_log(FLIGHTS, ID, topic())
    assert directory.checkpoints.high_watermarks.get(FLIGHTS, 0) <= 10
    directory.abandon()


async def test_a_cut_not_on_the_disk_yet_is_not_vouched_for_by_what_is_committed_since(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """Power may go before the cut is stable: the old records are back, and are not committed."""
    directory = await opened(runtime, tmp_path)
    log = directory.new_log(FLIGHTS, ID, topic())
    fill(log, 34)
    await directory.checkpoint({FLIGHTS: 30})
    log.truncate_to(32)
    fill(log, 6)
    await directory.checkpoint({FLIGHTS: 38})
    on_disk = decode_offsets((tmp_path / HIGH_WATERMARKS).read_bytes())
    assert on_disk == {FLIGHTS: 0}, "nothing of the cut file is on the disk for certain"
    await log.flush()
    await directory.checkpoint({FLIGHTS: 38})
    assert decode_offsets((tmp_path / HIGH_WATERMARKS).read_bytes()) == {FLIGHTS: 38}
    directory.abandon()
