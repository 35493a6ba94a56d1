"""Waits that end by themselves, and tasks that are ended."""

import asyncio

from minikafka.runtime.waiting import end_tasks, happens_within


async def test_an_event_ends_the_wait_and_so_does_time() -> None:
    event = asyncio.Event()
    assert not await happens_within(event, 0)
    asyncio.get_running_loop().call_soon(event.set)
    assert await happens_within(event, None)
    assert await happens_within(event, 0)


async def test_ended_tasks_have_ended_whatever_they_do_about_it() -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("lingered")

    tasks = [asyncio.ensure_future(linger()) for _ in range(2)]
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert ended == ["lingered", "lingered"]
    await end_tasks(())
