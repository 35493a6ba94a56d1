"""Batch headers for those who describe a log: read, never judged, and no record is looked at."""

from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader, TimestampType
from ..runtime.errors import CorruptLog
from .log_reader import LogReader
from .reading import Cold, locate
from .segment_indexes import CorruptIndex


def header_in_memory(reader: LogReader, offset: int) -> BatchHeader | None:
    """Read the header of the batch that holds `offset`, an offset below the log's end.

    None where the log has no such batch any more, or the disk would have to be waited for. Raises
    LogDirectoryFailed.
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
    """The timestamp of a batch's first record, ms since the epoch, as far as the header tells it.

    Of a batch whose base timestamp compaction has replaced it is the greatest timestamp.
    """
    is_replaced = header.has_delete_horizon
    if is_replaced or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return int(header.max_timestamp)
    return int(header.base_timestamp)
