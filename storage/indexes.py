"""Sparse indexes of one segment: offset to position, and timestamp to offset.

Small sorted arrays in memory, one entry per `index.interval.bytes` of log; Kafka's bytes on disk,
big-endian, without Kafka's preallocated zeros:

    .index       (relative_offset i32, position i32)*     last offset of the batch at `position`
    .timeindex   (timestamp i64, relative_offset i32)*    greatest timestamp so far, and its batch

No file is read or mapped here: segment_indexes.py passes the bytes.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt

OFFSET_ENTRY = 8
TIME_ENTRY = 12
_SWAP = sys.byteorder == "little"


class OffsetIndex:
    """Maps a batch's last offset to its position, for about one batch per index interval."""

    __slots__ = ("base_offset", "offsets", "positions")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets = array("I")
        """Last offsets of the indexed batches, relative to the segment's base offset."""
        self.positions = array("I")
        """Positions at which those batches begin."""

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch at `position`, whose last offset is `last_offset`; both must have grown."""
        self.offsets.append(last_offset - self.base_offset)
        self.positions.append(position)

    def entry_before(self, offset: int) -> tuple[int, int] | None:
        """Find the last indexed batch that ends at or before `offset`, as (last offset, position).

        A walk forward from that position meets the batch that holds `offset`. Return None if there
        is no such batch; the walk then starts at the segment's start.
        """
        at = bisect_right(self.offsets, max(offset - self.base_offset, 0))
        if not at:
            return None
        return self.base_offset + self.offsets[at - 1], self.positions[at - 1]

    def position_after(self, offset: int, size: int) -> int:
        """Return a position at or after the end of all batches below `offset`.

        An indexed batch begins there, or the position is `size`, the segment's end.
        """
        at = bisect_left(self.offsets, max(offset - self.base_offset, 0))
        return self.positions[at] if at < len(self.positions) else size

    def entry_before_position(self, position: int) -> tuple[int, int] | None:
        """Find the last indexed batch at or before `position`, as (last offset, position).

        Return None if there is no such batch.
        """
        at = bisect_right(self.positions, position)
        if not at:
            return None
        return self.base_offset + self.offsets[at - 1], self.positions[at - 1]

    def truncate_to(self, position: int) -> None:
        """Forget batches that begin at or after `position`."""
        count = bisect_left(self.positions, position)
        del self.offsets[count:], self.positions[count:]

    def encode(self) -> bytes:
        """Return the bytes of the `.index` file."""
        words = array("I", bytes(OFFSET_ENTRY * len(self)))
        words[0::2], words[1::2] = self.offsets, self.positions
        return _big_endian(words)

    @classmethod
    def decode(cls, data: bytes, base_offset: int, size: int) -> "OffsetIndex | None":
        """Read an `.index` file of a segment of `size` bytes.

        Return None if it does not fit the segment.
        """
        if len(data) % OFFSET_ENTRY:
            return None
        words = array("I", data)
        if _SWAP:
            words.byteswap()
        index = cls(base_offset)
        index.offsets, index.positions = words[0::2], words[1::2]
        if not _grows(index.offsets) or not _grows(index.positions):
            return None
        if index.positions and index.positions[-1] >= size:
            return None
        return index


class TimeIndex:
    """Maps timestamps to offsets: an entry is the greatest timestamp so far and its batch.

    From entry to entry timestamps and offsets both grow strictly.
    """

    __slots__ = ("base_offset", "offsets", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.offsets = array("I")
        """Last offset of the batch with that timestamp, relative to the segment's base offset."""

    def __len__(self) -> int:
        return len(self.timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless the timestamp is negative or not greater than the newest one."""
        if timestamp < 0 or (self.timestamps and timestamp <= self.timestamps[-1]):
            return
        self.timestamps.append(timestamp)
        self.offsets.append(offset - self.base_offset)

    def last(self) -> tuple[int, int]:
        """Return the newest entry as (timestamp, offset); (-1, base offset) if there is none."""
        if not self.timestamps:
            return -1, self.base_offset
        return self.timestamps[-1], self.base_offset + self.offsets[-1]

    def entry_before(self, timestamp: int) -> tuple[int, int] | None:
        """Return the newest entry at or below `timestamp`, as (timestamp, offset), or None.

        Records in batches before the one that ends at that offset have smaller timestamps.
        """
        at = bisect_right(self.timestamps, timestamp)
        if not at:
            return None
        return self.timestamps[at - 1], self.base_offset + self.offsets[at - 1]

    def truncate_to(self, offset: int) -> None:
        """Forget the entries whose offset is `offset` or later."""
        count = bisect_left(self.offsets, max(offset - self.base_offset, 0))
        del self.timestamps[count:], self.offsets[count:]

    def encode(self) -> bytes:
        """Return the bytes of the `.timeindex` file."""
        halves = array("I", self.timestamps.tobytes())
        high, low = (1, 0) if _SWAP else (0, 1)
        words = array("I", bytes(TIME_ENTRY * len(self)))
        words[0::3], words[1::3] = halves[high::2], halves[low::2]
        words[2::3] = self.offsets
        return _big_endian(words)

    @classmethod
    def decode(cls, data: bytes, base_offset: int, next_offset: int | None) -> "TimeIndex | None":
        """Read a `.timeindex` file; return None if it does not fit the segment.

        The segment ends before `next_offset`, or at an unknown offset if `next_offset` is None.
        """
        if len(data) % TIME_ENTRY:
            return None
        words = array("I", data)
        if _SWAP:
            words.byteswap()
        high, low = (1, 0) if _SWAP else (0, 1)
        halves = array("I", bytes(OFFSET_ENTRY * (len(words) // 3)))
        halves[high::2], halves[low::2] = words[0::3], words[1::3]
        index = cls(base_offset)
        index.timestamps, index.offsets = array("q", halves.tobytes()), words[2::3]
        if not _grows(index.timestamps) or not _grows(index.offsets):
            return None
        if next_offset is not None and index.last()[1] >= max(next_offset, base_offset + 1):
            return None
        return index


def _grows(values: "array[int]") -> bool:
    return all(map(lt, values, values[1:]))


def _big_endian(words: "array[int]") -> bytes:
    if _SWAP:
        words.byteswap()
    return words.tobytes()
