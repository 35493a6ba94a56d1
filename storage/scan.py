"""Walks the batches of a file from front to back, a window at a time, and checks them.

Recovery, the rebuilding of indexes, epochs and producers, and the lookup by timestamp use it. A
scan reports where the good batches end, and what is wrong with the next one; it never changes a
file.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import crc32c

from ..protocol.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader
from ..runtime.runtime import Runtime
from .files import Files
from .segment import MAX_RELATIVE, Segment
from .segment_learning import index_batch

WINDOW = 1 << 20
_CRC_STARTS_AT = 21
_SLICE_MS = 5


class Pace:
    """Lets other tasks run every few milliseconds of a long job."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since_ms = runtime.monotonic_ms()

    async def step(self) -> None:
        """Let other tasks run if it is time; a job calls this often."""
        if self._runtime.monotonic_ms() - self._since_ms >= _SLICE_MS:
            await asyncio.sleep(0)
            self._since_ms = self._runtime.monotonic_ms()


class Scan:
    """A walk over the batches of a segment's file, up to the first that is not good."""

    def __init__(
        self,
        files: Files,
        segment: Segment,
        position: int = 0,
        *,
        first_offset: int = -1,
        check_crc: bool = False,
        has_gaps: bool = True,
        least_epoch: int | None = None,
        end_offset: int | None = None,
    ) -> None:
        """Scan from `position` on.

        Leader epochs are checked unless `least_epoch` is None: each must be at least that of the
        batch before, the first at least `least_epoch`. `end_offset` is the base offset of the next
        segment; it is None for the newest one.
        """
        self._files = files
        self._segment = segment
        self._check_crc = check_crc
        self._has_gaps = has_gaps
        self._least_epoch = least_epoch
        self._end_offset = end_offset
        self.position = position
        """The position after the last good batch."""
        self.next_offset = max(first_offset, segment.base_offset)
        """The least offset that the next batch may begin with."""
        self.problem: str | None = None
        """Why the scan ended before the segment did; None if it did not."""

    @property
    def has_stale_tail(self) -> bool:
        """True if the file has bytes after the last batch that belongs to this segment."""
        is_at_end = self._end_offset is not None and self.next_offset >= self._end_offset
        return is_at_end and self.position < self._segment.size

    def next_window(self) -> list[tuple[int, BatchHeader]]:
        """Return the next good batches and their positions; none at the end or a bad batch."""
        if self.problem is not None or self.position >= self._segment.size:
            return []
        size = min(WINDOW, self._segment.size - self.position)
        view = self._files.read_some(self._segment.file(), self.position, size)
        found: list[tuple[int, BatchHeader]] = []
        at = 0
        while at < len(view):
            if len(view) - at < HEADER_SIZE:
                if at == 0:
                    self.problem = "half a header"
                break
            header = BatchHeader(view, at)
            self.problem = self._fault_of(header)
            if self.problem is not None:
                break
            if at + header.size > len(view) and at > 0:
                break  # the next window begins with this batch
            if self._check_crc and not self._crc_holds(header, view[at:]):
                self.problem = f"crc {header.crc:#010x} does not match"
                break
            found.append((self.position, header))
            self.next_offset = header.next_offset
            self.position += header.size
            at += header.size
        return found

    def batch(self, position: int, header: BatchHeader) -> memoryview:
        """Read the bytes of a batch that the scan found at `position`."""
        return self._files.read_some(self._segment.file(), position, header.size)

    def _fault_of(self, header: BatchHeader) -> str | None:
        if self.has_stale_tail:
            return f"offset {self._end_offset} begins the next segment"
        if header.magic != MAGIC or header.size < HEADER_SIZE or header.last_offset_delta < 0:
            return "no batch header"
        if header.size > self._segment.size - self.position:
            return f"a batch of {header.size} bytes is cut off"
        due = self.next_offset
        if header.base_offset < due or (header.base_offset > due and not self._has_gaps):
            return f"base offset {header.base_offset} where {due} is due"
        if header.last_offset - self._segment.base_offset > MAX_RELATIVE:
            return f"last offset {header.last_offset}"
        if self._least_epoch is not None:
            # A loss of power may bring back batches that were cut off before newer ones were
            # written.
            if header.leader_epoch < self._least_epoch:
                return f"leader epoch {header.leader_epoch} after {self._least_epoch}"
            self._least_epoch = header.leader_epoch
        return None

    def _crc_holds(self, header: BatchHeader, view: memoryview) -> bool:
        """True if the CRC of a batch is right.

        The batch is read in pieces, because it may be larger than the window.
        """
        piece = view[_CRC_STARTS_AT : header.size]
        crc = crc32c.crc32c(piece)
        done = len(piece) + _CRC_STARTS_AT
        while done < header.size:
            size = min(WINDOW, header.size - done)
            piece = self._files.read_some(self._segment.file(), self.position + done, size)
            if not piece:
                return False
            crc = crc32c.crc32c(piece, crc)
            done += len(piece)
        return bool(crc == header.crc)


class Rebuilt(NamedTuple):
    """The findings of `rebuild_indexes`."""

    has_markers: bool
    """True if the segment has markers of transactions."""
    has_stale_tail: bool
    end_position: int
    """The position after the last good batch."""


async def rebuild_indexes(
    pace: Pace, files: Files, segment: Segment, interval: int, new_scan: Callable[[], Scan]
) -> Rebuilt:
    """Rebuild a segment's indexes from its batches, which `new_scan` walks, and save them.

    Batches after a damaged header are not indexed, and the segment keeps its known end. The segment
    may be appended to or truncated during the walk; after a truncation the walk begins again.
    """
    has_markers = False
    while True:
        made = Segment(files, segment.path.rpartition("/")[0], segment.base_offset)
        scan = new_scan()
        while window := scan.next_window():
            for position, header in window:
                index_batch(made, header, position, interval)
                has_markers = has_markers or (header.is_control and header.producer_id >= 0)
            await pace.step()
            if segment.is_removed:
                return Rebuilt(False, False, scan.position)
        if scan.position <= segment.size:
            _adopt(segment, made, is_whole=scan.problem is None)
            return Rebuilt(has_markers, scan.has_stale_tail, scan.position)


def _adopt(segment: Segment, made: Segment, *, is_whole: bool) -> None:
    """Give a segment the indexes and timestamps of its rebuilt copy, and save the indexes."""
    segment.indexes = made.indexes
    segment.hints.clear()
    segment.next_offset = max(segment.next_offset, made.next_offset)
    segment.first_timestamp = made.first_timestamp
    if is_whole or made.max_timestamp > segment.max_timestamp:
        segment.max_timestamp = made.max_timestamp
        segment.max_timestamp_offset = made.max_timestamp_offset
    segment.save_indexes()
