"""Opens batches of a source partition; one that expands far is opened in the worker process."""

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from ...protocol.compression import ExpandsTooFar
from ...protocol.records.batch_header import BatchHeader
from ...protocol.records.records import Opened, opened, record_bytes
from ...protocol.types import Buffer
from ..partition.intake import OPENED_AT_ONCE

TURN_BYTES: Final = 4 << 20
"""The most bytes of records that are decompressed in one turn of the event loop, and a batch."""
TURN_RECORDS: Final = 2_048
"""The most records that are read in one turn of the event loop, which takes some milliseconds."""


class Offload(Protocol):
    """Runs a function in the worker process: `Runtime.offload`."""

    def __call__(self, job: Any, *args: Any) -> Awaitable[Any]:
        """Return the result of `job`; raise WorkerLost if the worker ends twice."""


class Turn:
    """The work that was done in the present turn of the event loop."""

    def __init__(self) -> None:
        self._bytes = self._records = 0

    def is_over(self, *, size: int = 0, records: int = 0) -> bool:
        """Return True if others are to have their turn after so much more; then a new one begins.

        `size` is in bytes after decompression.
        """
        self._bytes += size
        self._records += records
        if self._bytes < TURN_BYTES and self._records < TURN_RECORDS:
            return False
        self._bytes = self._records = 0
        return True


async def open_batch(offload: Offload, data: Buffer, position: int, header: BatchHeader) -> Opened:
    """Decompress the batch at `position`, of any size that a log may hold.

    Raise RemoteProtocolError if it cannot be read, WorkerLost if the worker process fails.
    """
    try:
        return opened(data, position, header, OPENED_AT_ONCE)
    except ExpandsTooFar:
        pass
    batch = bytes(memoryview(data)[position : position + header.size])
    return Opened.of(header, await offload(record_bytes, batch, 0, header))
