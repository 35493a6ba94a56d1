"""Reads a partition's own log for the broker itself, whatever has become of its role."""

from typing import TYPE_CHECKING, Final

from ...protocol.types import Buffer
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...storage.log import Cold, OffsetOutOfRange

if TYPE_CHECKING:
    from .partition import Partition

READ_BYTES: Final = 64 << 10
"""The most bytes decoded in one turn of the event loop, which takes some milliseconds."""


async def read_own(
    partition: "Partition", offset: int, end: int, max_bytes: int = READ_BYTES
) -> Buffer | None:
    """Read whole batches from `offset` on; return no bytes in a gap, None if reading failed.

    A partition that is offline cannot be read: its files may be deleted.
    """
    if partition.offline_because:
        return None
    reader = partition.log.reader
    try:
        try:
            return reader.read(offset, max_bytes=max_bytes, up_to=end).data
        except Cold:
            return (await reader.read_cold(offset, max_bytes=max_bytes, up_to=end)).data
    except OffsetOutOfRange:
        return b""
    except CorruptLog:
        return None
    except LogDirectoryFailed as error:
        partition.on_storage_error(error)
        return None


def behind_gap(partition: "Partition", offset: int, end: int) -> int:
    """Return the next offset after a gap, left by compaction, at which a batch may begin."""
    if offset < partition.log_start_offset:
        return partition.log_start_offset
    for segment in partition.log.segments:
        if segment.base_offset > offset:
            return segment.base_offset
    return end
