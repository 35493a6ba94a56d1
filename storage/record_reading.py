"""Reads a log for consumers, skipping the batches that compaction left without records.

Compaction keeps an empty batch to mark the end of a segment, or a producer's last sequence. Many
clients conclude from an answer without records that the next batch is larger than they asked for:
they report an error or ask for the same offset for ever. So a consumer is sent the next batch with
records instead. If there is none below the bound, the consumer is sent the empty batches, whose
offsets tell it where to continue.
"""

from struct import Struct

from ..protocol.records.record_batch import HEADER_SIZE
from ..protocol.types import Buffer
from .log_reader import LogReader
from .reading import PREFIX, SIZE_AND_OFFSET, Cold, LogSlice

MAX_READS = 32
"""The most reads that one call makes on the event loop: one or two milliseconds. After them the
call raises Cold.
"""
_COUNT = Struct(">i")
_COUNT_AT = HEADER_SIZE - _COUNT.size


def read_records(reader: LogReader, offset: int, *, max_bytes: int, up_to: int) -> LogSlice:
    """Read as `reader.read` does, but begin with the first batch that has records.

    If there is no such batch below `up_to`, return the last empty batches read. Raise as `read`
    does, and Cold after MAX_READS reads.
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
    """Read as `read_records` does, but wait for the disk off the event loop.

    The caller must then check roles and epochs again, because they may have changed during the
    wait.
    """
    passed = Passed()
    while True:
        found = passed.take(await reader.read_cold(offset, max_bytes=max_bytes, up_to=up_to))
        if found is not None:
            return found
        offset = passed.next_offset


class Passed:
    """The empty batches that one call has skipped so far."""

    __slots__ = ("_last", "next_offset")

    def __init__(self) -> None:
        self._last: LogSlice | None = None
        self.next_offset = -1
        """The offset after the skipped batches; -1 before any."""

    def take(self, found: LogSlice) -> LogSlice | None:
        """Return what a read found, without the empty batches at its front.

        Return None if all its batches are empty: the caller then reads on at `next_offset`. If the
        read found nothing, return the empty batches of the read before, if there was one.
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
    """Return the size in bytes of the empty batches at the front, and the offset after them."""
    at, next_offset, limit = 0, -1, len(data)
    while at < limit and not _COUNT.unpack_from(data, at + _COUNT_AT)[0]:
        base, length, delta = PREFIX.unpack_from(data, at)
        at, next_offset = at + length + SIZE_AND_OFFSET, base + delta + 1
    return at, next_offset
