"""Waits for an event within a time limit, and for cancelled tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def happens_within(event: asyncio.Event, within_ms: float | None) -> bool:
    """Wait for the event, at most `within_ms`; return False if it did not happen in time.

    None waits without a limit.
    """
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
