"""Waits that end: for an event within its time, and for tasks that are cancelled."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def happens_within(event: asyncio.Event, within_ms: float | None) -> bool:
    """Wait for the event for so many milliseconds, or for ever (None); False if time was over."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(None if within_ms is None else within_ms / 1000):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until all have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    if ending:
        await asyncio.wait(ending)
