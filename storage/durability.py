"""The offset up to which one log is on stable storage, and whether its truncations are stable too.

Recovery does not trust what was not flushed: see recovery.py. A truncation lowers the flushed
offset to the base offset of the segment that was cut, or further. A flush that runs during a
truncation does not raise the offset again.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from .epoch_file import EpochFile
from .flushing import SharedFlush

if TYPE_CHECKING:
    from .log import Log


class Durability:
    """Flushes one log, and knows which part of it survives a loss of power."""

    __slots__ = (
        "_epoch_file",
        "_flush",
        "_log",
        "_stable_cuts",
        "before_next",
        "flushed_offset",
        "is_abandoned",
        "rolls_next",
    )

    def __init__(self, log: "Log", epoch_file: EpochFile, flushed_offset: int) -> None:
        self._log = log
        self._epoch_file = epoch_file
        self._flush: SharedFlush | None = None
        self._stable_cuts = 0
        self.flushed_offset = flushed_offset
        """The recovery point: everything below it is on stable storage."""
        self.rolls_next = self.may_be_uncut
        """True if a cut may not be stable: the next append then begins a new segment and does not
        write over the place that was cut (docs/decisions/0021)."""
        self.before_next: Callable[[], Awaitable[None]] | None = None
        """Awaited by the next flush before that flush counts anything as stable; None for most
        logs."""
        self.is_abandoned = False
        """True if the directory no longer belongs to this log, so that flushes do nothing."""

    @property
    def may_be_uncut(self) -> bool:
        """True if a loss of power could bring truncated records back in place of newer ones."""
        return self._log.cuts != self._stable_cuts

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for the flush that runs, and let no other begin within the block.

        Flushes that are requested within the block run after it, and producers that wait for them
        wait too.
        """
        if self._flush is None:
            self._flush = SharedFlush(self._make_stable)
        return self._flush.held()

    def take_over(self, copy: "Durability") -> None:
        """Adopt the flush state of a copy, whose files are this log's from now on."""
        self.flushed_offset = copy.flushed_offset
        self.rolls_next = copy.rolls_next
        self._stable_cuts = -1 if copy.may_be_uncut else self._log.cuts

    async def flush(self) -> None:
        """Flush everything that was appended before the call.

        Calls at the same time share one flush. Raises LogDirectoryFailed, which is final, because a
        failed fsync is never tried again.
        """
        if self._flush is None:
            self._flush = SharedFlush(self._make_stable)
        await self._flush.run()

    async def _make_stable(self) -> None:
        if self.is_abandoned:
            return  # Another log may use the directory.
        end, cuts = self._log.log_end_offset, self._log.cuts
        times = self._log.files.flush_times
        began_us = 0 if times is None else times.now_us()
        first, self.before_next = self.before_next, None
        if first is not None:
            await first()
        self._epoch_file.write()
        await self._epoch_file.sync()
        # A newest segment cut to nothing ends at the flushed offset, but is not stable.
        await self._log.segments.flush(self.flushed_offset - self.rolls_next)
        if self._log.files.failure is not None:
            raise self._log.files.failure
        if times is not None and end > self.flushed_offset:
            times.note(began_us)
        if cuts == self._log.cuts:
            self.rolls_next = False
            self._stable_cuts = cuts
            self.flushed_offset = max(self.flushed_offset, end)
