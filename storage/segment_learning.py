"""Derives a segment's end offset, timestamps and index entries from its batch headers.

This module writes nothing to disk. For a segment that was truncated, or is opened without a scan,
only the headers from the last index entry on are read.
"""

from typing import TYPE_CHECKING

from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader
from .segment_indexes import CorruptIndex

if TYPE_CHECKING:
    from .segment import Segment


def index_batch(segment: "Segment", header: BatchHeader, position: int, interval: int) -> None:
    """Update a segment's timestamps and end offset for its next batch; index it if an entry is due.

    A rebuild calls this for each batch, after `Segment.forget_indexes`.
    """
    indexes = segment.indexes
    assert indexes is not None
    if position == 0:
        segment.first_timestamp = header.max_timestamp
    _observe(segment, header)
    if indexes.since_entry > interval:
        newest = (segment.max_timestamp, segment.max_timestamp_offset)
        indexes.add(header.last_offset, position, newest)
    indexes.since_entry += header.size


def read_tail(segment: "Segment") -> None:
    """Set a segment's end offset and timestamps, reading headers from the last index entry on.

    Raises CorruptIndex if an index does not match the batches.
    """
    indexes, path = segment.indexes, segment.path
    assert indexes is not None
    if indexes.is_saved and segment.size and not indexes.times:
        raise CorruptIndex(f"{path}: the time index is empty")
    segment.max_timestamp, segment.max_timestamp_offset = indexes.times.last()
    entry = indexes.offsets.entry_before_position(segment.size)
    position = entry[1] if entry is not None else 0
    indexes.since_entry = segment.size - position
    segment.first_timestamp = _header_at(segment, 0).max_timestamp if segment.size else -1
    while position < segment.size:
        header = _header_at(segment, position)
        if entry is not None and header.last_offset != entry[0]:
            break
        entry = None
        _observe(segment, header)
        position += header.size
    if position != segment.size:
        raise CorruptIndex(f"{path}: no batch ends at byte {segment.size}")


def load_or_start_indexes(segment: "Segment") -> None:
    """Load a segment's indexes, or start empty ones.

    With empty indexes a read walks over more batches, but still finds the right one.
    """
    if segment.load_indexes():
        return
    known = segment.next_offset, segment.max_timestamp, segment.max_timestamp_offset
    segment.forget_indexes()
    try:
        read_tail(segment)
    except CorruptIndex:
        # A damaged batch stops the walk. The values known before it are still true.
        assert segment.indexes is not None
        segment.next_offset, segment.max_timestamp, segment.max_timestamp_offset = known
        segment.indexes.since_entry = segment.size


def _observe(segment: "Segment", header: BatchHeader) -> None:
    if header.max_timestamp > segment.max_timestamp:
        segment.max_timestamp = header.max_timestamp
        segment.max_timestamp_offset = header.last_offset
    segment.next_offset = header.next_offset


def _header_at(segment: "Segment", position: int) -> BatchHeader:
    head = segment.read_some(position, HEADER_SIZE)
    if len(head) == HEADER_SIZE:
        header = BatchHeader(head)
        if header.size >= HEADER_SIZE and header.base_offset >= segment.base_offset:
            return header
    raise CorruptIndex(f"{segment.path}: no batch at byte {position}")
