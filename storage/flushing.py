"""One flush of a log at a time; callers that ask while a flush is running share the next one.

If two flushes ran together, one could hide an error from the other, because the kernel reports a
failed write-back only once. A flush always runs to its end, even if its caller is cancelled, and a
failure is recorded even if no caller waits for it any more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..runtime.errors import LogDirectoryFailed
from ..runtime.metrics import Durations
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from .log import Log

log = logging.getLogger(__name__)


class SharedFlush:
    """Runs the flushes of one log: at most one runs, and at most one waits to run next."""

    __slots__ = ("_next", "_now", "_work")

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        """`work` makes stable what was written before it began; it never runs twice at once."""
        self._work = work
        self._now: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Run `work`, or join the run that waits to begin; return or raise as that run does."""
        turn = self._next
        if turn is None:
            turn = self._next = asyncio.ensure_future(self._turn())
            turn.add_done_callback(_look_at)
        await asyncio.shield(turn)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the run in progress, and let no other begin within the block."""
        while self._now is not None:
            await asyncio.wait((self._now,))
        self._now = released = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            self._now = None
            released.set_result(None)

    async def _turn(self) -> None:
        while self._now is not None:
            await asyncio.wait((self._now,))
        self._now, self._next = self._next, None
        try:
            await self._work()
        finally:
            self._now = None


def _look_at(turn: asyncio.Future[None]) -> None:
    """Mark the run's error as retrieved, because its callers and `Files` have it."""
    if not turn.cancelled():
        turn.exception()


class FlushTimes:
    """The durations of the flushes of one directory's logs."""

    __slots__ = ("durations", "now_us")

    def __init__(self, now_us: Callable[[], int]) -> None:
        """`now_us` is a monotonic clock in microseconds."""
        self.now_us = now_us
        self.durations = Durations()

    def note(self, began_us: int) -> None:
        """Record the duration of a successful flush that began at `began_us`."""
        self.durations.record(self.now_us() - began_us)


class FlushesDue:
    """The logs of one directory that are due for a flush.

    They are flushed in the background, one after the other.
    """

    __slots__ = ("_directory", "_is_running", "_logs", "_runtime")

    def __init__(self, runtime: Runtime, directory: str) -> None:
        self._runtime = runtime
        self._directory = directory
        self._logs: dict[Log, None] = {}
        self._is_running = False

    def add(self, owner: "Log") -> None:
        """Add a log, and start the background flushing if it is not running."""
        self._logs[owner] = None
        if not self._is_running:
            self._is_running = True
            self._runtime.spawn(self._run(), f"flush of {self._directory}")

    async def _run(self) -> None:
        try:
            while self._logs:
                owner = next(iter(self._logs))
                del self._logs[owner]
                await owner.flush()
        except LogDirectoryFailed as error:
            log.error("%s", error)  # `Files.on_failed` was called
        finally:
            self._is_running = False
