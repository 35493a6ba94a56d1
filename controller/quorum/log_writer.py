"""Writes and flushes the metadata log in one task, so that several writes share a flush.

Records that a leader stages in one turn of the loop share a write; those that come while a flush is
under way share the next. After a failed write the log is opened again and ends where it was stable;
later records are lost. After a failed flush this node ends, as nobody knows what the disk holds.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...protocol.control.batches import encode_batch
from ...protocol.control.records import MetadataRecord
from ...protocol.errors import RemoteProtocolError
from ...protocol.records.record_batch import crc_is_valid, headers, read_header
from ...runtime.errors import StorageError
from ...runtime.runtime import Runtime
from .metadata_log import MetadataLog
from .node import WRITE_AGAIN_MS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriterEvents:
    """The callbacks for the outcome of writes and flushes."""

    on_stable: Callable[[], None]
    on_write_failed: Callable[[str], None]
    """Called after the records that were not stable are dropped; writing may be tried again."""
    on_failed: Callable[[str], None]
    """Called with the reason if nothing can be written any more: this node must end."""


class LogWriter:
    """Appends records to the metadata log, cuts it, and flushes it."""

    def __init__(self, runtime: Runtime, metadata_log: MetadataLog, events: WriterEvents) -> None:
        self.unsnapshotted_bytes = metadata_log.size_bytes
        """Bytes of the log since the newest snapshot."""
        self._runtime = runtime
        self._log = metadata_log
        self._events = events
        self._staged: list[bytearray] = []
        self._staged_end = metadata_log.end_offset
        self._wake = asyncio.Event()
        self._error: str | None = None

    @property
    def end_offset(self) -> int:
        """The end offset of the log, staged records included."""
        return self._staged_end if self._staged else self._log.end_offset

    def stage(self, records: Sequence[MetadataRecord], epoch: int) -> int:
        """Stage the leader's records, which `run` writes next; return the offset of the last."""
        batch = encode_batch(
            records,
            base_offset=self.end_offset,
            epoch=epoch,
            timestamp_ms=self._runtime.wall_ms(),
        )
        self._staged_end = self.end_offset + len(records)
        self._staged.append(batch)
        self._wake.set()
        return self._staged_end - 1

    def drop_staged(self) -> None:
        """Drop the staged records, which are never written: this node leads no more."""
        self._staged.clear()

    def truncate_to(self, offset: int) -> None:
        """Cut off the records from `offset` on, which an earlier leader wrote."""
        if self._is_usable():
            try:
                self._log.truncate_to(offset)
            except StorageError as error:
                self._error = str(error)
            self._wake.set()

    def append_received(self, records: bytes) -> None:
        """Check the leader's batches and write them; `run` flushes them next."""
        if self._is_usable():
            try:
                self._append_received(records)
            except (StorageError, RemoteProtocolError) as error:
                self._error = str(error)
        # Even if nothing was written, because the state machine waits for the next flush.
        self._wake.set()

    def _is_usable(self) -> bool:
        return self._error is None and not self._log.is_closed

    def _append_received(self, records: bytes) -> None:
        found = []
        for position, header in headers(records):
            if not crc_is_valid(records, position, header):
                raise RemoteProtocolError(f"{header!r} was damaged on its way")
            found.append((header, memoryview(records)[position : position + header.size]))
        # Records that were requested before the log was changed otherwise no longer fit.
        if found and found[0][0].base_offset == self._log.end_offset:
            self._log.append(found)
            self.unsnapshotted_bytes += len(records)

    async def run(self) -> None:
        """Write and flush until cancelled, or until a flush fails."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            staged, self._staged = self._staged, []
            if self._error is None:
                try:
                    self._log.append([(read_header(batch), batch) for batch in staged])
                except StorageError as error:
                    self._error = str(error)
            if self._error is not None:
                await self._give_up(self._error)
                continue
            self.unsnapshotted_bytes += sum(len(batch) for batch in staged)
            try:
                await self._log.flush()
            except StorageError as error:
                self._events.on_failed(f"the metadata log cannot be flushed: {error}")
                return
            if self._log.stable != self._log.end:
                self._wake.set()  # It was cut, or grew, during the flush.
            self._events.on_stable()

    async def _give_up(self, why: str) -> None:
        """Drop all that is not stable, in memory and on disk, after a failed write."""
        log.error("metadata was not written: %s", why)
        self._log.forget_unstable()
        # Before the reopening, so that the machine stops appending to the log at once.
        self._events.on_write_failed(why)
        while self._log.is_closed:
            try:
                await self._log.reopen()
            except StorageError as error:
                if not is_full(error):
                    self._events.on_failed(f"{why}; opening the metadata log again: {error}")
                    return
                await asyncio.sleep(WRITE_AGAIN_MS / 1000)
        self._error = None


def is_full(error: StorageError) -> bool:
    """True if the disk is full, or the quota is used up."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
