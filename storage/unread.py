"""Counts what a reader of committed records has not read yet: records, bytes, and their age.

Only batch headers are read: markers, aborted transactions and batches emptied by compaction do not
count. The number of headers walked is limited; the rest of the log is estimated from them. A walk
never waits for the disk on the event loop, and yields to other tasks every few milliseconds.
"""

from typing import Final, NamedTuple

from ..protocol.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader
from ..runtime.runtime import Runtime
from .aborted import aborted_between
from .header_reading import first_timestamp
from .log import Log
from .log_reader import OffsetOutOfRange
from .reading import Cold
from .scan import Pace
from .segment import Segment

_CHUNK: Final = 4096
_COLD_CHUNK: Final = 1 << 16
_COLD_COST: Final = 20
"""The number of headers, of the limit, that one read of the disk counts as."""

Aborted = dict[int, list[tuple[int, int]]]
"""The first and last offsets of aborted transactions, by producer id."""


class Unread(NamedTuple):
    """The part of a log that is left to read."""

    records: int
    """The number of records that an application would be given."""
    size_bytes: int
    """The size in bytes of these records' batches, as stored."""
    oldest_timestamp: int
    """Timestamp of the first unread batch that counts, in ms since the epoch; -1 if there is
    none."""
    is_estimated: bool
    """True if the walk did not reach the end, or if the first batch is partly read and has gaps."""


NOTHING_UNREAD: Final = Unread(0, 0, -1, False)


async def count_unread(
    log: Log, runtime: Runtime, offset: int, up_to: int, most_headers: int
) -> Unread:
    """Count the unread records from `offset` up to, not including, `up_to`.

    `up_to` must be at or below the last stable offset. At most `most_headers` headers are walked; a
    read of the disk counts as several of them. The caller must then check roles and epochs again,
    because they may have changed during the walk. Raises CorruptLog if no header can be found, and
    LogDirectoryFailed.
    """
    tally = Tally(max(offset, log.log_start_offset))
    if tally.next_offset >= up_to:
        return NOTHING_UNREAD
    walk = _Walk(log, up_to, most_headers)
    if await walk.find(tally.next_offset):
        await walk.take_all(tally, Pace(runtime))
    if walk.is_complete:
        return tally.told(0, 0)
    return tally.told(up_to - tally.next_offset, walk.bytes_left(tally.next_offset))


class Tally:
    """Adds up unread records, header by header in the order of the log. Pure."""

    __slots__ = (
        "_begin",
        "_bytes",
        "_is_estimated",
        "_is_found",
        "_records",
        "_timestamp",
        "_walked_bytes",
        "next_offset",
    )

    def __init__(self, offset: int) -> None:
        self._begin = self.next_offset = offset
        """The reader has read everything before `_begin`; the tally covers everything before
        `next_offset`."""
        self._records = self._bytes = self._walked_bytes = 0
        self._timestamp = -1
        self._is_found = self._is_estimated = False

    def take(self, header: BatchHeader, *, is_visible: bool) -> None:
        """Add the next batch, of which the offsets from `next_offset` on are unread.

        `is_visible` is False for markers and aborted batches.
        """
        records, size = header.record_count, header.size
        if header.base_offset < self.next_offset:
            # The reader has read a part of the batch. If offsets are missing in it, the part is a
            # guess.
            offsets = header.last_offset_delta + 1
            left = header.next_offset - self.next_offset
            self._is_estimated = is_visible and records != offsets
            records, size = records * left // offsets, size * left // offsets
        self.next_offset = header.next_offset
        self._walked_bytes += size
        if not self._is_found:
            self._timestamp = first_timestamp(header)
        if is_visible and records:
            self._is_found = True
            self._records += records
            self._bytes += size

    def told(self, rest: int, rest_bytes: int) -> Unread:
        """Return the result; `rest` offsets and `rest_bytes` bytes after the walk are estimated."""
        if not rest:
            timestamp = self._timestamp if self._is_found else -1
            return Unread(self._records, self._bytes, timestamp, self._is_estimated)
        walked = self.next_offset - self._begin
        records = rest * self._records // walked if walked else rest
        size = rest_bytes * self._bytes // self._walked_bytes if self._walked_bytes else rest_bytes
        return Unread(self._records + records, self._bytes + size, self._timestamp, True)


class _Walk:
    """A walk through a log from header to header."""

    __slots__ = ("_cuts", "_left", "_log", "_position", "_segment", "_up_to", "is_complete")

    def __init__(self, log: Log, up_to: int, most_headers: int) -> None:
        self._log = log
        self._up_to = up_to
        self._left = most_headers
        self._cuts = log.cuts
        self._segment: Segment | None = None
        self._position = 0
        self.is_complete = False
        """True if every batch below `up_to` was walked."""

    async def find(self, offset: int) -> bool:
        """Move to the batch that holds `offset`; return False if the log has none."""
        reader, up_to = self._log.reader, self._up_to
        try:
            try:
                found = reader.read(offset, max_bytes=0, up_to=up_to, at_least_one=False)
            except Cold:
                found = await reader.read_cold(offset, max_bytes=0, up_to=up_to, at_least_one=False)
        except OffsetOutOfRange:
            return False  # The log was cut meanwhile, or its oldest part deleted.
        self._cuts = self._log.cuts
        self._segment = self._log.segments.beginning_at(found.segment_base)
        self._position = found.position
        return self._segment is not None

    async def take_all(self, tally: Tally, pace: Pace) -> None:
        """Walk until `up_to`, the limit of headers or a faulty header, and add each batch."""
        while not self.is_complete and self._left > 0:
            segment = self._segment
            if segment is None or segment.is_removed or self._cuts != self._log.cuts:
                return
            if self._position >= segment.size:
                self._go_on_behind(segment)
                continue
            at_most = self._left
            chunk = await self._read(segment)
            found = self._headers_in(chunk, segment, tally.next_offset, at_most)
            if not found and not self.is_complete:
                return
            aborted = self._aborted_among(found)
            for header in found:
                hides = header.is_control or _is_aborted(header, aborted)
                tally.take(header, is_visible=not hides)
            self._left -= len(found)
            await pace.step()

    def bytes_left(self, offset: int) -> int:
        """Estimate the bytes after the walk, from `offset` on."""
        left = 0
        for segment in self._log.segments:
            begin = self._position if segment is self._segment else _place_of(segment, offset)
            left += max(_place_of(segment, self._up_to) - begin, 0)
        return left

    def _go_on_behind(self, segment: Segment) -> None:
        segments = self._log.segments
        if segment is segments[-1]:
            self.is_complete = True
        else:
            self._segment, self._position = segments.after(segment), 0

    async def _read(self, segment: Segment) -> memoryview:
        """Read bytes at the position: at least one header, unless the file has been cut."""
        size = segment.size - self._position
        view = memoryview(bytearray(min(_CHUNK, size)))
        try:
            count = segment.read_warm(view, self._position)
        except BlockingIOError:
            count = 0
        if count < HEADER_SIZE:
            self._left -= _COLD_COST
            buffer = bytearray(min(_COLD_CHUNK, size))
            view = memoryview(buffer)
            count = await segment.read_cold(buffer, self._position)
        return view[:count]

    def _headers_in(
        self, chunk: memoryview, segment: Segment, due: int, at_most: int
    ) -> list[BatchHeader]:
        """Return the good headers in a chunk, and move the position past their batches."""
        found: list[BatchHeader] = []
        at = 0
        while at + HEADER_SIZE <= len(chunk) and len(found) < at_most:
            header = BatchHeader(chunk, at)
            size, next_offset = header.size, header.next_offset
            is_sound = header.magic == MAGIC and header.last_offset_delta >= 0
            if not is_sound or not HEADER_SIZE <= size <= segment.size - self._position:
                break
            if next_offset > self._up_to:
                self.is_complete = True
                break
            if next_offset <= due:
                break  # The log has changed since the position was found.
            found.append(header)
            due = next_offset
            at += size
            self._position += size
        return found

    def _aborted_among(self, found: list[BatchHeader]) -> Aborted:
        by_producer: Aborted = {}
        if any(header.is_transactional for header in found):
            first, last = found[0], found[-1]
            for each in aborted_between(self._log.segments, first.base_offset, last.next_offset):
                offsets = (each.first_offset, each.last_offset)
                by_producer.setdefault(each.producer_id, []).append(offsets)
        return by_producer


def _is_aborted(header: BatchHeader, aborted: Aborted) -> bool:
    if not header.is_transactional or header.producer_id not in aborted:
        return False
    at = header.base_offset
    return any(first <= at <= last for first, last in aborted[header.producer_id])


def _place_of(segment: Segment, offset: int) -> int:
    """Estimate the position of an offset: by the index, or as if all batches had one size."""
    if offset <= segment.base_offset:
        return 0
    if offset >= segment.next_offset:
        return segment.size
    if segment.indexes is not None:
        return segment.indexes.offsets.position_after(offset, segment.size)
    share = (offset - segment.base_offset) / (segment.next_offset - segment.base_offset)
    return int(segment.size * share)
