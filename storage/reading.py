"""Reads whole batches out of a segment without decoding their records.

One read fetches the data. If the data must end before the segment does, a walk over batch prefixes
from the nearest index entry finds the end. A reader continues where its last read ended, so the
positions of these ends are kept as hints: the usual read at the log's end needs neither index nor
walk.
"""

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.records.record_batch import HEADER_SIZE
from ..protocol.types import Buffer
from ..runtime.errors import CorruptLog
from .files import LOG
from .segment_indexes import CorruptIndex

if TYPE_CHECKING:
    from .segment import Segment

# base offset, batch length, (leader epoch, magic, crc, attributes), last offset delta
PREFIX = Struct(">qi11xi")
PREFIX_SIZE = PREFIX.size
SIZE_AND_OFFSET = 12
_CHUNK = 8192


class Cold(Exception):
    """Raised if a read would wait for the disk; the caller awaits `read_cold` instead."""


class LogSlice(NamedTuple):
    """Whole batches, as they are in the log."""

    data: memoryview
    """The batches; the first one holds the requested offset. Empty if there is nothing to read
    yet."""
    segment_base: int
    position: int
    """The position in its segment at which the data begins."""


EMPTY = memoryview(b"")


class Wanted(NamedTuple):
    """The bounds of a read."""

    offset: int
    max_bytes: int
    up_to: int
    """No batch is returned that holds this offset or a later one."""
    at_least_one: bool = True
    """Return the first batch even if it is larger than `max_bytes`."""
    wait: bool = False
    """Wait for the disk instead of raising Cold."""


def read(segment: "Segment", wanted: Wanted) -> LogSlice:
    """Read whole batches, from the one that holds `wanted.offset` on.

    Raise Cold if they are not in memory and `wanted.wait` is False, or if indexes must be loaded.
    """
    position = locate(segment, wanted.offset, wait=wanted.wait)
    bound, is_exact = _bound(segment, wanted.up_to)
    want = min(bound - position, max(wanted.max_bytes, HEADER_SIZE))
    if want <= 0:
        return LogSlice(EMPTY, segment.base_offset, position)
    view = memoryview(bytearray(want))
    count = _fill(segment, view, position, wait=wanted.wait)
    if count == bound - position and is_exact:
        segment.hint(min(wanted.up_to, segment.next_offset), bound)
        return LogSlice(view, segment.base_offset, position)
    cut = _cut(segment, view[:count], position, wanted.up_to)
    if cut > wanted.max_bytes and not wanted.at_least_one:
        cut = 0
    if cut or not wanted.at_least_one:
        return LogSlice(view[:cut], segment.base_offset, position)
    whole = _first_batch(segment, view[:count], position, wanted)
    return LogSlice(whole, segment.base_offset, position)


def locate(segment: "Segment", offset: int, *, wait: bool = False) -> int:
    """Return the position of the first batch that ends at or after `offset`.

    Return the segment's size if there is none. Raise Cold if the segment's indexes are not in
    memory, or if its bytes are not in the page cache and `wait` is False.
    """
    hint = segment.hints.get(offset)
    if hint is not None:
        return hint
    if offset >= segment.next_offset:
        return segment.size
    if offset <= segment.base_offset:
        return 0
    if segment.indexes is None:
        raise Cold
    entry = segment.indexes.offsets.entry_before(offset)
    position = entry[1] if entry is not None else 0
    chunk = memoryview(bytearray(min(_CHUNK, segment.size - position)))
    while position < segment.size:
        count = _fill(segment, chunk[: segment.size - position], position, wait=wait)
        if count < PREFIX_SIZE:
            _missing(segment, position, wait=wait)
        if entry is not None:
            _verify(segment, chunk, 0, entry)
            entry = None
        at = 0
        while at + PREFIX_SIZE <= count:
            base, length, delta = PREFIX.unpack_from(chunk, at)
            if base + delta >= offset:
                return position + at
            at += _checked_size(segment, position + at, length)
        position += at
    return segment.size


async def warm(segment: "Segment", offset: int, max_bytes: int) -> None:
    """Bring the bytes for a read at `offset` into the page cache, off the event loop."""
    position = segment.hints.get(offset)
    size = max_bytes
    if position is None and segment.indexes is not None:
        offsets = segment.indexes.offsets
        entry = offsets.entry_before(offset)
        position = entry[1] if entry is not None else 0
        size += offsets.position_after(offset, segment.size) - position
    position = position or 0
    size = min(size + _CHUNK, segment.size - position)
    if size > 0:
        await segment.read_cold(bytearray(size), position)


def _bound(segment: "Segment", up_to: int) -> tuple[int, bool]:
    """Return the position where the batches below `up_to` end, and True.

    If the exact position is not known, return a later one and False. Raise Cold if the indexes must
    be loaded first.
    """
    if up_to >= segment.next_offset:
        return segment.size, True
    position = segment.hints.get(up_to)
    if position is not None:
        return position, True
    if segment.indexes is None:
        raise Cold
    return segment.indexes.offsets.position_after(up_to, segment.size), False


def _fill(segment: "Segment", view: memoryview, position: int, *, wait: bool) -> int:
    """Fill `view` from the file; return the bytes read.

    If `wait` is False, read only what is in the page cache, and raise Cold if it holds nothing.
    """
    if wait:
        return segment.read_wait(view, position)
    try:
        return segment.read_warm(view, position)
    except BlockingIOError:
        raise Cold from None


def _cut(segment: "Segment", view: memoryview, position: int, up_to: int) -> int:
    """Return where in `view`, read at `position`, the last whole batch below `up_to` ends."""
    at, limit = 0, len(view)
    if segment.indexes is not None:
        entry = segment.indexes.offsets.entry_before_position(position + limit - PREFIX_SIZE)
        if entry is not None and entry[0] < up_to and entry[1] > position:
            at = entry[1] - position
            _verify(segment, view, at, entry)
    next_offset = -1
    while at + PREFIX_SIZE <= limit:
        base, length, delta = PREFIX.unpack_from(view, at)
        size = _checked_size(segment, position + at, length)
        if at + size > limit or base + delta >= up_to:
            break
        at += size
        next_offset = base + delta + 1
    if next_offset >= 0:
        segment.hint(next_offset, position + at)
    return at


def _first_batch(segment: "Segment", view: memoryview, position: int, wanted: Wanted) -> memoryview:
    """Read the whole batch at `position`, of any size; return no bytes if it reaches `up_to`."""
    if len(view) < PREFIX_SIZE:
        _missing(segment, position, wait=wanted.wait)
    base, length, delta = PREFIX.unpack_from(view)
    size = _checked_size(segment, position, length)
    if base + delta >= wanted.up_to:
        return EMPTY
    whole = memoryview(bytearray(size))
    if _fill(segment, whole, position, wait=wanted.wait) < size:
        _missing(segment, position, wait=wanted.wait)
    segment.hint(base + delta + 1, position + size)
    return whole


def end_of(data: Buffer) -> int:
    """Return the offset after the last whole batch in `data`; -1 if there is none."""
    at, end, limit = 0, -1, len(data)
    while at + PREFIX_SIZE <= limit:
        base, length, delta = PREFIX.unpack_from(data, at)
        at, end = at + length + SIZE_AND_OFFSET, base + delta + 1
    return end


def _verify(segment: "Segment", view: memoryview, at: int, entry: tuple[int, int]) -> None:
    base, _, delta = PREFIX.unpack_from(view, at)
    if base + delta != entry[0]:
        raise CorruptIndex(f"{segment.path}: no batch ends at {entry[0]} at byte {entry[1]}")


def _checked_size(segment: "Segment", position: int, length: int) -> int:
    size = length + SIZE_AND_OFFSET
    if size < HEADER_SIZE or size > segment.size - position:
        raise CorruptLog(segment.path + LOG, position, f"a batch of {size} bytes")
    return size


def _missing(segment: "Segment", position: int, *, wait: bool) -> None:
    if wait:
        raise CorruptLog(segment.path + LOG, position, "the file ends early")
    raise Cold
