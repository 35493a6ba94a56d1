"""The one background task of an object, which ends with its owner.

The task is started when there is work, never runs twice at a time, and is stopped by the owner's
`close`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .runtime import Runtime


class OwnedTask:
    """A task that runs at most once at a time and can be started again when it has ended."""

    __slots__ = ("_name", "_runtime", "_task")

    def __init__(self, runtime: Runtime, name: str) -> None:
        """`name` is logged if an exception leaves the task."""
        self._runtime = runtime
        self._name = name
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True if the task was started and has not ended since."""
        return self._task is not None and not self._task.done()

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the coroutine that `run` makes, unless the task is running."""
        if not self.is_running:
            self._task = self._runtime.spawn(run(), self._name)

    async def stop(self) -> None:
        """Cancel the task and wait until it has ended; return at once if it is not running."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
