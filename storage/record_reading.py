"""Reading for consumers: on past batches that compaction left without records.

Such a batch keeps the end of its segment, or the last sequence of its producer. An answer without
records would look to many clients like a batch larger than they asked for: they report that, or ask
for the same offset for ever. So a consumer is given the next batch with a record, in the same
answer; only if the log has none below the bound it gets empty ones, and knows where to go on.
"""

from struct import Struct

from ..protocol.records.record_batch import HEADER_SIZE
from ..protocol.types import Buffer
from .log_reader import LogReader
from .reading import PREFIX, SIZE_AND_OFFSET, Cold, LogSlice

MAX_READS = 32
"""Reads of one call on the loop: a millisecond or two. The rest is done as a cold read."""
_COUNT = Struct(">i")
_COUNT_AT = HEADER_SIZE - _COUNT.size


def read_records(reader: LogReader, offset: int, *, max_bytes: int, up_to: int) -> LogSlice:
    """Do `reader.read` in a log that may have gaps; the first batch returned has records.

    Without such a batch below `up_to` the last of the empty ones is returned. Raises as `read`
    does.
    """
    passed = Passed()
    for _ in range(MAX_READS):
        found = passed.take(reader.read(offset, max_bytes=max_bytes, up_to=up_to))
        if found is not None:
            return found
        offset = passed.next_offset
    raise Cold


async def read_records_cold(
    reader: LogReader, offset: int, *, max_bytes: int, up_to: int
) -> LogSlice:
    """Do `read_records` off the loop. Check roles and epochs again after it: time has passed."""
    passed = Passed()
    while True:
        found = passed.take(await reader.read_cold(offset, max_bytes=max_bytes, up_to=up_to))
        if found is not None:
            return found
        offset = passed.next_offset


class Passed:
    """The empty batches that one call has met."""

    __slots__ = ("_last", "next_offset")

    def __init__(self) -> None:
        self._last: LogSlice | None = None
        self.next_offset = -1
        """The offset behind the empty batches read so far."""

    def take(self, found: LogSlice) -> LogSlice | None:
        """Return what was read, without the empty batches at its front.

        None if it has only empty batches: read on at `next_offset`. If nothing was read, the empty
        batches before it are returned.
        """
        data = found.data
        if not len(data):
            return self._last or found
        at, next_offset = _front(data)
        if at == len(data):
            self._last, self.next_offset = found, next_offset
            return None
        return LogSlice(data[at:], found.segment_base, found.position + at) if at else found


def _front(data: Buffer) -> tuple[int, int]:
    """Return how many bytes of empty batches come first, and the offset behind them."""
    at, next_offset, limit = 0, -1, len(data)
    while at < limit and not _COUNT.unpack_from(data, at + _COUNT_AT)[0]:
        base, length, delta = PREFIX.unpack_from(data, at)
        at, next_offset = at + length + SIZE_AND_OFFSET, base + delta + 1
    return at, next_offset
