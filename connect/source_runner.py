"""Runs a source task: polls it, and hands what it returns to its delivery.

Never here: producers, offsets.
"""

import asyncio
from typing import Any

from .hosts import TaskFailed
from .source_batches import Polled
from .source_delivery import SourceDelivery
from .source_step import SourceStep
from .task_runner import TaskRunner

LONGEST_REST_MS = 100
"""The longest wait between polls of a task that returns at once, with nothing."""


class SourceWork:
    """The work of one source task."""

    def __init__(self, task: TaskRunner, delivery: SourceDelivery) -> None:
        self._task = task
        self._delivery = delivery
        self._polling: asyncio.Future[Polled] | None = None
        self._polled_at_ms = 0
        self._rest_ms = 0

    async def open(self) -> None:
        """Open the delivery, then start the task from its offsets."""
        task = self._task
        offsets = await self._delivery.open()
        in_process = task.settings["tasks.isolation"] == "process"
        decides = task.settings["transaction.boundary"] == "connector"
        decides = decides and task.around.config.is_exactly_once
        given = offsets.frozen() if in_process else offsets
        await task.start_host(SourceStep, given, decides).call("start")

    async def run(self) -> None:
        """Poll until the task is to stop."""
        task = self._task
        while not task.is_stopping:
            task.check()
            if task.is_paused:
                await task.until_resumed()
                continue
            polled = await self._next()
            if polled is not None:
                await self._handle(polled)
        await self._last_poll()
        task.check()

    async def _next(self) -> Polled | None:
        """Return what the task has; None if something else is to be done first."""
        assert self._task.host is not None
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._task.host.call("poll"))
            self._polled_at_ms = self._task.around.runtime.monotonic_ms()
        self._task.changed.clear()
        if not self._polling.done() and not self._task.is_stopping:
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._task.changed.wait())
            ends: list[asyncio.Future[Any]] = [self._polling, changed]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        if not self._polling.done():
            return None
        polling, self._polling = self._polling, None
        return polling.result()

    async def _last_poll(self) -> None:
        """End the poll under way: an async one is cancelled, a sync one is waited for."""
        polling, self._polling = self._polling, None
        if polling is None:
            return
        if self._task.assignment.is_async:
            polling.cancel()
        await asyncio.wait([polling])
        if not polling.cancelled():
            await self._handle(polling.result())

    async def _handle(self, polled: Polled) -> None:
        task = self._task
        await self._delivery.take(polled)
        if polled.failure is not None:
            raise TaskFailed(polled.failure)
        if polled.ended:
            await task.pause_ms(task.around.config.offset_flush_interval_ms)
        elif polled.retry_ms is not None:
            await task.pause_ms(polled.retry_ms)
        elif not polled.batches:
            # A task should block in `poll`. One that does not must not take the whole core.
            self._rest_ms = min(2 * self._rest_ms + 1, LONGEST_REST_MS)
            took_ms = task.around.runtime.monotonic_ms() - self._polled_at_ms
            await task.pause_ms(self._rest_ms - took_ms)
        else:
            self._rest_ms = 0

    async def finish(self) -> None:
        """End the poll under way, and commit."""
        if self._polling is not None:
            self._polling.cancel()
        await self._delivery.finish()

    async def close(self, timeout_ms: int) -> None:
        """Close the clients; an async task that was abandoned polls no longer."""
        if self._polling is not None:
            self._polling.cancel()
        await self._delivery.close(timeout_ms)

    async def answer(self, method: str, *args: Any) -> Any:
        """Answer nothing: sources ask nothing."""
