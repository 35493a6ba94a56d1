"""Finding records by timestamp: by the time index, then batch headers, then one batch's records.

The only place in storage that opens a batch, and only the one that holds the answer.
"""

from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.record_batch import HEADER_SIZE, BatchHeader, Record, records
from ..runtime.errors import CorruptLog
from ..runtime.runtime import Runtime
from .files import LOG, Files
from .reading import Cold, locate, warm
from .scan import WINDOW, Pace, Scan
from .segment import Segment
from .segment_indexes import CorruptIndex

if TYPE_CHECKING:
    from .log_view import LogView


class TimestampOffset(NamedTuple):
    """A record's timestamp, offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


async def first_at_or_after(
    log: "LogView", runtime: Runtime, files: Files, timestamp: int
) -> TimestampOffset | None:
    """The first record, by offset, whose timestamp is at least this; None if there is none."""
    for segment in list(log.segments):
        if segment.is_removed or segment.next_offset <= log.log_start_offset:
            continue
        if segment.max_timestamp >= timestamp:
            found = await _find(log, runtime, files, segment, timestamp)
            if found is not None:
                return found
    return None


async def greatest(log: "LogView", runtime: Runtime, files: Files) -> TimestampOffset | None:
    """The first of the records with the greatest timestamp; None if no record has one."""
    readable = [s for s in log.segments if s.size and s.next_offset > log.log_start_offset]
    if not readable:
        return None
    segment = max(readable, key=lambda s: (s.max_timestamp, -s.base_offset))
    if segment.max_timestamp < 0:
        return None
    return await _find(log, runtime, files, segment, segment.max_timestamp)


async def _find(
    log: "LogView", runtime: Runtime, files: Files, segment: Segment, timestamp: int
) -> TimestampOffset | None:
    position = await _start_for(log, files, segment, timestamp)
    if position is None:
        return None
    has_gaps = log.rules.has_gaps or position > 0
    scan = Scan(files, segment, position, check_crc=True, has_gaps=has_gaps)
    pace = Pace(runtime)
    while not segment.is_removed and (window := scan.next_window()):
        for at, header in window:
            if header.max_timestamp < timestamp or header.last_offset < log.log_start_offset:
                continue
            found = _in_batch(files, segment, at, header)
            for record in found:
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        await pace.step()
    if scan.problem is not None and not segment.is_removed:
        raise log.damaged(CorruptLog(segment.path + LOG, scan.position, scan.problem))
    return None


async def _start_for(log: "LogView", files: Files, segment: Segment, timestamp: int) -> int | None:
    """A position that no record of this timestamp or later lies before."""
    for _ in range(2):
        await log.ready(segment)
        if segment.indexes is None or segment.is_removed:
            return None
        entry = segment.indexes.times.entry_before(timestamp)
        if entry is None:
            return 0
        await warm(segment, entry[1], WINDOW)
        try:
            position = locate(segment, entry[1], wait=True)
            header = BatchHeader(files.read_some(segment.file(), position, HEADER_SIZE))
            if (header.max_timestamp, header.last_offset) == entry:
                return position
        except (Cold, CorruptIndex, CorruptLog, StructError):
            pass  # what the index points at is not there
        segment.drop_indexes()
    return 0


def _in_batch(files: Files, segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return records(files.read_some(segment.file(), position, header.size))
    except ProtocolError as error:
        raise CorruptLog(segment.path + LOG, position, str(error)) from error
