"""Reads batch headers without checking the batches and without reading their records."""

from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader, TimestampType
from ..runtime.errors import CorruptLog
from .log_reader import LogReader
from .reading import Cold, locate
from .segment_indexes import CorruptIndex


def header_in_memory(reader: LogReader, offset: int) -> BatchHeader | None:
    """Read the header of the batch that holds `offset`, which must be below the log end offset.

    Return None if the log has no such batch any more, or if the read would wait for the disk.
    Raises LogDirectoryFailed.
    """
    if offset < reader.log_start_offset:
        return None
    segment = reader.segments.holding(offset)
    view = memoryview(bytearray(HEADER_SIZE))
    try:
        count = segment.read_warm(view, locate(segment, offset))
    except (BlockingIOError, Cold, CorruptIndex, CorruptLog):
        return None
    if count < HEADER_SIZE:
        return None
    header = BatchHeader(view)
    return header if header.base_offset <= offset < header.next_offset else None


def first_timestamp(header: BatchHeader) -> int:
    """Return the timestamp of a batch's first record, in ms, if the header still has it.

    Return the batch's greatest timestamp instead under LogAppendTime, and if compaction has
    replaced the base timestamp by a delete horizon.
    """
    is_replaced = header.has_delete_horizon
    if is_replaced or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return int(header.max_timestamp)
    return int(header.base_timestamp)
