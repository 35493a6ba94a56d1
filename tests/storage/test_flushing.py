"""One flush at a time, shared; and an error that nobody can miss."""

import asyncio
from pathlib import Path

import pytest

from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.runtime.fs import File
from minikafka.storage.files import Files
from minikafka.storage.flushing import SharedFlush
from minikafka.storage.log import Log
from tests.storage.faults import EIO, Fault, FaultyFs
from tests.storage.support import TestRuntime, fill, topic


class Work:
    """Counts its runs, and waits in each until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.gates: list[asyncio.Future[None]] = []

    async def __call__(self) -> None:
        self.begun += 1
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_whoever_asks_meanwhile_shares_the_next() -> None:
    work = Work()
    flush = SharedFlush(work)
    first = asyncio.ensure_future(flush.run())
    await settle()
    later = [asyncio.ensure_future(flush.run()) for _ in range(3)]
    await settle()
    assert work.begun == 1
    work.gates[0].set_result(None)
    await settle()
    assert first.done()
    assert not any(each.done() for each in later)
    assert work.begun == 2
    work.gates[1].set_result(None)
    await asyncio.gather(*later)
    again = asyncio.ensure_future(flush.run())
    await settle()
    assert work.begun == 3
    work.gates[2].set_result(None)
    await again


async def test_a_caller_that_gives_up_does_not_stop_it() -> None:
    work = Work()
    flush = SharedFlush(work)
    caller = asyncio.ensure_future(flush.run())
    await settle()
    caller.cancel()
    await settle()
    second = asyncio.ensure_future(flush.run())
    await settle()
    assert work.begun == 1, "the first is still under way"
    work.gates[0].set_result(None)
    await settle()
    work.gates[1].set_result(None)
    await second


async def test_a_failure_is_noted_though_its_caller_has_gone(tmp_path: Path) -> None:
    fs = FaultyFs(Fault(0, error=EIO, only="fdatasync"))
    runtime = TestRuntime(fs)
    files = Files(fs, str(tmp_path))
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(), files=files)
    fill(log, 1)
    caller = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    caller.cancel()
    await settle()
    assert files.failure is not None
    with pytest.raises(LogDirectoryFailed):
        await log.flush()
    assert log.flushed_offset == 0
    log.abandon()
    runtime.close()


async def test_no_success_beside_a_failure(tmp_path: Path) -> None:
    """Two logs of one directory flush at once, one fails: the other's success is not believed."""
    runtime = TestRuntime()
    files = Files(runtime.fs, str(tmp_path))
    one = await Log.open(runtime, str(tmp_path / "t-0"), topic(), files=files)
    fill(one, 1)
    original = files.fdatasync

    async def fail_meanwhile(file: File) -> None:
        await original(file)
        files.fail(OSError(EIO, "lost"))

    files.fdatasync = fail_meanwhile  # type: ignore[method-assign]
    with pytest.raises(LogDirectoryFailed):
        await one.flush()
    assert one.flushed_offset == 0
    one.abandon()
    runtime.close()
