"""Reads a log, by offset or by timestamp, from memory or from the disk.

Bytes that may have been read back from the disk are checked before they are returned, and each
damage found is reported to `on_damaged`. A reader shares the log's segments and changes only what
proves to be wrong: it rebuilds indexes, and `mend` replaces damaged batches with a peer's.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from ..protocol.expiry import TtlRule
from ..protocol.records.record_batch import HEADER_SIZE
from ..protocol.types import Buffer
from ..runtime.errors import CorruptLog, StorageError
from ..runtime.runtime import Runtime
from .damage import Damage, Inspection
from .expiry import Expiry
from .files import LOG, Files, offset_in
from .integrity import Rules, judge, size_of_first
from .lookup import TimestampOffset, first_at_or_after, greatest
from .reading import EMPTY, Cold, LogSlice, Wanted, read, warm
from .scan import Pace, Scan, rebuild_indexes
from .segment import Segment
from .segment_indexes import CorruptIndex

if TYPE_CHECKING:
    from .log import Log

MAX_JUDGED = 1000
"""The most batches that one read checks and returns: one or two milliseconds on the event loop."""


class OffsetOutOfRange(StorageError):
    """The offset is below the log's start or above its end."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(offset, start, end)
        self.offset = offset

    def __str__(self) -> str:
        offset, start, end = self.args
        return f"offset {offset} is not within {start}..{end}"


class LogReader:
    """Reads one log, checks what it reads, and overwrites damaged batches with a peer's."""

    __slots__ = ("_expiry", "_log", "_runtime", "on_damaged", "segments")

    def __init__(self, log: "Log", runtime: Runtime) -> None:
        self._log = log
        self._runtime = runtime
        self._expiry: Expiry | None = None
        self.segments = log.segments
        self.on_damaged: Callable[[str, CorruptLog], None] | None = None
        """Called with the log's directory and the error when a read or an inspection finds
        damage."""

    @property
    def _files(self) -> Files:
        return self._log.files

    @property
    def log_start_offset(self) -> int:
        """First readable offset."""
        return self._log.log_start_offset

    def without_expired(self, data: memoryview, rule: TtlRule, wall_ms: int) -> memoryview:
        """Return batches that were read without what has expired by `rule`."""
        known = self._expiry
        if known is None or known.rule != rule:
            known = self._expiry = Expiry(rule, 0 if known is None else known.now_ms)
        return known.without_expired(data, wall_ms)

    def read(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True
    ) -> LogSlice:
        """Read whole batches below `up_to`, beginning with the batch that holds `offset`.

        The first batch may be larger than `max_bytes`, unless `at_least_one` is False. A read ends
        at the end of its segment, and before a damaged batch. Raises OffsetOutOfRange, CorruptLog
        if the first batch is damaged, and Cold if the read would wait for the disk: the caller then
        awaits `read_cold`.
        """
        segment = self._segment_of(offset)
        if segment is None or offset >= up_to:
            return LogSlice(EMPTY, -1, -1)
        wanted = Wanted(offset, max_bytes, up_to, at_least_one)
        try:
            found = read(segment, wanted)
            if not found.data and (behind := self._behind_gap(segment, found)) is not None:
                return self.read(
                    behind, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one
                )
            doubt_below = segment.doubt_below
            if not doubt_below or (found.data and found.position >= doubt_below):
                return found
            return self._judged(segment, found, wanted)
        except CorruptIndex:
            segment.drop_indexes()
            raise Cold from None
        except CorruptLog as error:
            raise self.damaged(error) from None

    async def read_cold(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True
    ) -> LogSlice:
        """Read as `read` does, but wait for the disk without blocking the event loop.

        The caller must then check roles and epochs again, because they may have changed during the
        wait.
        """
        while True:
            segment = self._segment_of(offset)
            if segment is None or offset >= up_to:
                return LogSlice(EMPTY, -1, -1)
            cuts = self._log.cuts
            await self.ready(segment)
            if segment.is_removed:
                if self._segment_of(offset) is segment:
                    return LogSlice(EMPTY, -1, -1)  # The whole log was removed.
                continue
            await warm(segment, offset, max_bytes)
            if segment.is_removed or cuts != self._log.cuts:
                continue
            wanted = Wanted(offset, max_bytes, up_to, at_least_one, wait=True)
            try:
                found = read(segment, wanted)
                if not found.data and (behind := self._behind_gap(segment, found)) is not None:
                    offset = behind
                    continue
                return self._judged(segment, found, wanted)
            except (CorruptIndex, Cold):
                segment.drop_indexes()
            except CorruptLog as error:
                raise self.damaged(error) from None

    def _judged(self, segment: Segment, found: LogSlice, wanted: Wanted) -> LogSlice:
        """Return the good batches at the front of `found`; raise CorruptLog if there are none.

        If `found` is empty, see `_judged_empty`.
        """
        data = found.data
        if not data and wanted.at_least_one:
            return self._judged_empty(segment, found, wanted)
        verdict = judge(data, wanted.offset, self.rules, at_most=MAX_JUDGED)
        if not verdict.problem:
            if verdict.size == len(data):
                return found
            return LogSlice(data[: verdict.size], found.segment_base, found.position)
        segment.hints.clear()  # The hints may come from damaged headers.
        position = found.position + verdict.size
        error = CorruptLog(segment.path + LOG, position, verdict.problem)
        if not verdict.size:
            raise error
        self.damaged(error)
        return LogSlice(data[: verdict.size], found.segment_base, found.position)

    def _behind_gap(self, segment: Segment, found: LogSlice) -> int | None:
        """Return the next segment's base offset if `found` is at the end of this one.

        Return None if the log has no gaps, or if `found` is elsewhere.
        """
        if found.position < segment.size or segment is self.segments[-1]:
            return None
        is_gap = self.segments.has_gaps
        return self.segments.after(segment).base_offset if is_gap else None

    def _judged_empty(self, segment: Segment, found: LogSlice, wanted: Wanted) -> LogSlice:
        """Return an empty read if the batch at the offset reaches `up_to`.

        Otherwise a damaged header hides records, and CorruptLog is raised. Raises Cold if the check
        would have to wait for the disk.
        """
        if found.position >= segment.size and self.segments.has_gaps:
            return found  # The log was cut within a gap: it has no batch there.
        if not wanted.wait:
            raise Cold
        prefix = memoryview(bytearray(HEADER_SIZE))
        segment.read_wait(prefix, found.position)
        whole = memoryview(bytearray(min(size_of_first(prefix), segment.size - found.position)))
        count = segment.read_wait(whole, found.position)
        verdict = judge(whole[:count], wanted.offset, self.rules)
        if verdict.problem or verdict.next_offset <= wanted.up_to:
            segment.hints.clear()
            near = segment.size
            if segment.indexes is not None:
                near = segment.indexes.offsets.position_after(wanted.offset, near)
            why = verdict.problem or f"offset {wanted.offset} is not found"
            raise CorruptLog(segment.path + LOG, near, why)
        return found

    @property
    def rules(self) -> Rules:
        """The facts about the log with which its batches must be consistent."""
        return Rules(self._log.leader_epochs, self.segments.has_gaps)

    def damaged(self, error: CorruptLog) -> CorruptLog:
        """Report to `on_damaged` the damage that a read has found; return `error` to be raised."""
        if self.on_damaged is not None:
            self.on_damaged(self.segments.directory, error)
        return error

    async def damage_at(self, error: CorruptLog) -> Damage | None:
        """Find the exact bounds of the damage that an error reports.

        Return None if the bytes there are good now, or if the segment is gone.
        """
        base = offset_in(error.path.rpartition("/")[2], LOG)
        segment = self.segments.beginning_at(base) if base is not None else None
        if segment is None:
            return None
        await self.ready(segment)
        if segment.indexes is None:
            return None
        return await Inspection(segment, self.rules, segment.read_cold).find(error.position)

    async def mend(self, damage: Damage, data: Buffer) -> None:
        """Overwrite damaged batches with a peer's, which are on stable storage on return.

        Raises CorruptLog if they do not fit exactly, or if the damaged segment was cut or replaced.
        """
        segment = self.segments.beginning_at(damage.segment_base)
        if segment is None or segment is not damage.segment or damage.end > segment.size:
            raise CorruptLog(self.segments.directory, damage.position, "cut off or compacted since")
        verdict = judge(data, damage.first_offset, self.rules, is_exact=True)
        if (
            verdict.problem
            or verdict.next_offset != damage.next_offset
            or (verdict.size != damage.size)
        ):
            why = verdict.problem or f"{verdict.size} bytes up to offset {verdict.next_offset}"
            raise CorruptLog(segment.path + LOG, damage.position, f"cannot be mended with {why}")
        self._files.write(segment.file(), [data], damage.position, damage.size)
        segment.hints.clear()
        if segment is not self.segments[-1]:
            segment.drop_indexes()  # They may come from damaged batches.
        await self._files.fdatasync(segment.file())

    async def inspect(
        self, segment: Segment, pay: Callable[[int], Awaitable[None]]
    ) -> CorruptLog | None:
        """Check a whole segment as the disk holds it; report and return damage, if there is any.

        `pay` is awaited with the number of bytes before each read, to limit the rate.
        """

        async def read_disk(buffer: bytearray, position: int) -> int:
            await pay(len(buffer))
            return 0 if segment.is_removed else await segment.read_disk(buffer, position)

        inspection = Inspection(segment, self.rules, read_disk)
        first = segment.base_offset
        at, verdict = await inspection.windows(0, segment.size, first, is_exact=True)
        if not verdict.problem or segment.is_removed:
            return None
        return self.damaged(CorruptLog(segment.path + LOG, at, verdict.problem))

    async def ready(self, segment: Segment) -> None:
        """Load or rebuild the segment's indexes, unless the segment was removed."""
        if not segment.is_removed and not segment.load_indexes():
            interval, has_gaps = self._log.config.index_interval_bytes, self.segments.has_gaps
            new_scan = partial(Scan, self._files, segment, has_gaps=has_gaps)
            await rebuild_indexes(Pace(self._runtime), self._files, segment, interval, new_scan)

    def _segment_of(self, offset: int) -> Segment | None:
        """Return the segment that holds `offset`, or None if `offset` is the log's end.

        Raises OffsetOutOfRange.
        """
        start, end = self._log.log_start_offset, self._log.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(offset, start, end)
        return self.segments.holding(offset) if offset < end else None

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Find the first record, by offset, with at least this timestamp; None if there is none.

        The record may be uncommitted.
        """
        while True:
            cuts = self._log.cuts
            found = await first_at_or_after(self, self._runtime, self._files, timestamp)
            if cuts == self._log.cuts:
                return found

    async def max_timestamp(self) -> TimestampOffset | None:
        """Find the first of the records with the greatest timestamp; None if no record has one.

        The record may be uncommitted.
        """
        while True:
            cuts = self._log.cuts
            found = await greatest(self, self._runtime, self._files)
            if cuts == self._log.cuts:
                return found
