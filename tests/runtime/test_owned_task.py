import asyncio

from minikafka.runtime.owned_task import OwnedTask
from minikafka.runtime.runtime import SystemRuntime


async def test_it_runs_once_at_a_time_and_again_once_it_has_ended() -> None:
    begun = 0
    may_end = asyncio.Event()

    async def run() -> None:
        nonlocal begun
        begun += 1
        await may_end.wait()

    task = OwnedTask(SystemRuntime("test"), "test")
    task.start(run)
    task.start(run)
    await asyncio.sleep(0)
    assert (begun, task.is_running) == (1, True)
    may_end.set()
    for _ in range(2):
        await asyncio.sleep(0)
    assert (begun, task.is_running) == (1, False)
    task.start(run)
    await asyncio.sleep(0)
    assert begun == 2
    await task.stop()


async def test_to_stop_it_waits_until_it_has_cleaned_up() -> None:
    story: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            story.append("cleaned up")

    task = OwnedTask(SystemRuntime("test"), "test")
    task.start(run)
    await asyncio.sleep(0)
    await task.stop()
    story.append("stopped")
    assert story == ["cleaned up", "stopped"]
    assert not task.is_running
    await task.stop()
