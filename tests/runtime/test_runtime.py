import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from minikafka.runtime.errors import WorkerLost
from minikafka.runtime.runtime import SystemRuntime

crashes: list[tuple[str, BaseException]] = []


@pytest.fixture
def runtime() -> Iterator[SystemRuntime]:
    crashes.clear()
    made = SystemRuntime("test", on_crash=lambda task, error: crashes.append((task, error)))
    yield made
    made.close()


async def test_a_failing_task_is_reported(
    runtime: SystemRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("planted")

    task = runtime.spawn(fail(), "the failing one")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [(name, str(error)) for name, error in crashes] == [("the failing one", "planted")]
    assert "task the failing one failed: ValueError('planted')" in caplog.text


async def test_ending_and_being_cancelled_are_no_crash(runtime: SystemRuntime) -> None:
    async def answer() -> int:
        return 42

    assert await runtime.spawn(answer(), "answer") == 42
    waiting = runtime.spawn(asyncio.Event().wait(), "wait")
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert crashes == []


async def test_offload_runs_in_another_process(runtime: SystemRuntime) -> None:
    there = await runtime.offload(os.getpid)
    assert there != os.getpid()
    with pytest.raises(ZeroDivisionError):
        await runtime.offload(divmod, 1, 0)


def test_clocks(runtime: SystemRuntime) -> None:
    assert runtime.monotonic_ms() <= runtime.monotonic_ms()
    assert runtime.wall_ms() > 1_700_000_000_000
    assert SystemRuntime().rng.random() != SystemRuntime().rng.random()


async def test_a_worker_that_was_killed_is_replaced(runtime: SystemRuntime) -> None:
    there = await runtime.offload(os.getpid)
    os.kill(there, signal.SIGKILL)
    other = await runtime.offload(os.getpid)
    assert other not in (there, os.getpid())
    with pytest.raises(WorkerLost):
        await runtime.offload(os._exit, 1)
    assert await runtime.offload(divmod, 7, 2) == (3, 1)


async def test_a_job_without_memory_is_lost_and_nothing_else(runtime: SystemRuntime) -> None:
    there = await runtime.offload(os.getpid)
    with pytest.raises(WorkerLost, match="too little memory"):
        await runtime.offload(bytes, 1 << 62)
    assert await runtime.offload(os.getpid) == there
