"""Opening a log: what is read, what is made anew. Scenarios F are in tests/scenarios/test_f_*."""

from pathlib import Path

import pytest

from minikafka.storage.log import Log
from tests.storage.faults import FaultyFs
from tests.storage.support import TestRuntime, batch, contents, fill, joined, recovered, topic


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


async def test_epochs_are_known_from_where_a_log_begins_after_a_crash(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    """A leader that knew them only from later on would take what another had there for its own."""
    log = await recovered(runtime, tmp_path)
    for n in range(40):
        log.append([batch(n, epoch=7 if n < 15 else 8 if n < 33 else 9)])
    log.advance_log_start(25)
    await log.flush()
    assert list(log.leader_epochs) == [(8, 25), (9, 33)]
    log.abandon()
    log = await recovered(runtime, tmp_path, recovery_point=40, log_start=12)
    assert log.log_start_offset == 12
    assert list(log.leader_epochs) == [(7, 12), (8, 15), (9, 33)]
    log.abandon()
    log = await recovered(runtime, tmp_path, recovery_point=40, log_start=25)
    assert list(log.leader_epochs) == [(8, 25), (9, 33)]
    log.abandon()


@pytest.mark.parametrize("is_file_left", [False, True])
@pytest.mark.parametrize("deleted_before", [8, 10])
async def test_a_log_of_deleted_records_knows_their_epoch_after_a_crash(
    runtime: TestRuntime, tmp_path: Path, deleted_before: int, is_file_left: bool
) -> None:
    """Its end says how far it was committed, which counts for nothing without the epoch."""
    log = await recovered(runtime, tmp_path)
    for n in range(10):
        log.append([batch(n, epoch=5 if n < 4 else 6)])
    log.advance_log_start(deleted_before)
    await log.flush()
    log.abandon()
    for file in (tmp_path / "t-0").glob("*.log"):
        file.unlink()  # Retention has done it, or the power failed before they were stable.
    if is_file_left:
        (tmp_path / "t-0" / f"{10:020d}.log").touch()
    log = await recovered(runtime, tmp_path, recovery_point=10, log_start=10)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (10, 10, 6)
    assert list(log.leader_epochs) == [(6, 10)]
    log.abandon()


async def test_the_recovery_point_never_moves_forward_without_a_flush(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await recovered(runtime, tmp_path)
    fill(log, 40)
    log.abandon()
    log = await recovered(runtime, tmp_path, recovery_point=5)
    assert (log.flushed_offset, log.log_end_offset) == (5, 40)
    await log.flush()
    assert log.flushed_offset == 40
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


@pytest.mark.parametrize(
    "behind", [bytes(200), bytes(batch(10, epoch=0)[1])], ids=["zeros", "what was cut"]
)
async def test_a_cut_that_power_undid_below_the_recovery_point_is_made_again(
    runtime: TestRuntime, tmp_path: Path, behind: bytes
) -> None:
    """The cut was not stable, what was written since is: it lies in the next segment."""
    log = await recovered(runtime, tmp_path)
    made = fill(log, 10)
    await log.flush()
    log.roll()
    made += fill(log, 3, epoch=1)
    log.abandon()
    with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as first:
        first.write(behind)
    log = await recovered(runtime, tmp_path, recovery_point=10)
    assert contents(log) == joined(made)
    assert log.size_bytes == len(joined(made))
    assert log.flushed_offset == 0, "the cut is to be flushed"
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
