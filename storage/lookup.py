"""Finds records by timestamp: with the time index, batch headers, and one batch's records.

For readers storage decompresses a batch only here, and only a batch that may hold the answer. No
record object is built. A batch that would expand to too many bytes for the event loop is
decompressed in a worker process.
"""

from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple

from ..protocol.compression import ExpandsTooFar
from ..protocol.errors import ProtocolError
from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader
from ..protocol.records.record_checks import find
from ..runtime.errors import CorruptLog, WorkerLost
from ..runtime.runtime import Runtime
from .files import LOG, Files
from .reading import Cold, locate, warm
from .scan import WINDOW, Pace, Scan
from .segment import Segment
from .segment_indexes import CorruptIndex

if TYPE_CHECKING:
    from .log_reader import LogReader


OPENED_AT_ONCE: Final = 2 << 20
"""Bytes that a batch may expand to on the event loop: some milliseconds of work."""


class TimestampOffset(NamedTuple):
    """The timestamp (ms), the offset and the leader epoch of a record."""

    timestamp: int
    offset: int
    leader_epoch: int


async def first_at_or_after(
    reader: "LogReader", runtime: Runtime, files: Files, timestamp: int
) -> TimestampOffset | None:
    """Find the first record, by offset, whose timestamp is at least this; None if there is none."""
    for segment in list(reader.segments):
        if segment.is_removed or segment.next_offset <= reader.log_start_offset:
            continue
        if segment.max_timestamp >= timestamp:
            found = await _find(reader, runtime, files, segment, timestamp)
            if found is not None:
                return found
    return None


async def greatest(reader: "LogReader", runtime: Runtime, files: Files) -> TimestampOffset | None:
    """Find the first of the records with the greatest timestamp; None if no record has one."""
    readable = [s for s in reader.segments if s.size and s.next_offset > reader.log_start_offset]
    if not readable:
        return None
    segment = max(readable, key=lambda s: (s.max_timestamp, -s.base_offset))
    if segment.max_timestamp < 0:
        return None
    return await _find(reader, runtime, files, segment, segment.max_timestamp)


async def _find(
    reader: "LogReader", runtime: Runtime, files: Files, segment: Segment, timestamp: int
) -> TimestampOffset | None:
    position = await _start_for(reader, files, segment, timestamp)
    if position is None:
        return None
    has_gaps = reader.segments.has_gaps or position > 0
    scan = Scan(files, segment, position, check_crc=True, has_gaps=has_gaps)
    pace, start = Pace(runtime), reader.log_start_offset
    while window := [] if segment.is_removed else scan.next_window():
        for at, header in window:
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            if segment.is_removed:
                return None
            try:
                found = await _in_batch(runtime, scan.batch(at, header), timestamp, start)
            except StructError:
                return None  # The batch was cut off meanwhile: this broker no longer leads.
            except (ProtocolError, WorkerLost) as error:
                raise CorruptLog(segment.path + LOG, at, str(error)) from error
            if found is not None:
                return TimestampOffset(*found, header.leader_epoch)
            await pace.step()
        await pace.step()
    if scan.problem is not None and not segment.is_removed:
        raise reader.damaged(CorruptLog(segment.path + LOG, scan.position, scan.problem))
    return None


async def _start_for(
    reader: "LogReader", files: Files, segment: Segment, timestamp: int
) -> int | None:
    """Return a position before which no record has a timestamp of `timestamp` or later.

    Return None if the segment was removed.
    """
    for _ in range(2):
        await reader.ready(segment)
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
            pass  # the index entry matches no batch
        segment.drop_indexes()
    return 0


async def _in_batch(
    runtime: Runtime, batch: memoryview, timestamp: int, start: int
) -> tuple[int, int] | None:
    """Find the batch's first record from offset `start` on whose timestamp is at least `timestamp`.

    Return its timestamp and offset, or None.
    """
    try:
        return find(batch, timestamp, start, OPENED_AT_ONCE)
    except ExpandsTooFar:
        return await runtime.offload(find, bytes(batch), timestamp, start)
