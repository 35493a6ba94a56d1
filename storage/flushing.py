"""One flush of a log at a time: whoever asks while one is under way shares the next.

Two at once could divide an error between them: the kernel tells of a failed write-back once, so
one of them would hear of success. Nor can a flush be given up half-way: a caller that is cancelled
leaves it running, and a failure is noted even if nobody waits for it any more.
"""

import asyncio
from collections.abc import Awaitable, Callable


class SharedFlush:
    """The flush of one log, now and next."""

    __slots__ = ("_next", "_now", "_work")

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        """`work` makes stable what was there when it began; it never runs twice at once."""
        self._work = work
        self._now: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Return when a `work` that began after this call has ended, with its outcome."""
        turn = self._next
        if turn is None:
            turn = self._next = asyncio.ensure_future(self._turn())
            turn.add_done_callback(_look_at)
        await asyncio.shield(turn)

    async def _turn(self) -> None:
        if self._now is not None:
            await asyncio.wait((self._now,))
        self._now, self._next = self._next, None
        try:
            await self._work()
        finally:
            self._now = None


def _look_at(turn: asyncio.Future[None]) -> None:
    """Whoever waited has the error, and `Files` has noted it."""
    if not turn.cancelled():
        turn.exception()
