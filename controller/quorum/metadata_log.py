"""The metadata log on disk: a storage log in `__cluster_metadata-0`, with the quorum's files.

No record is deleted by age: whole segments are deleted once a snapshot holds their records. Stable
records are never cut off like a torn tail (stable_end.py). The caller of `open` owns the data
directory's lock and identity. `MetadataLog` knows how far it is stable, and offers the state
machine its `LogFacts`.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ...protocol.control.messages import SnapshotId
from ...protocol.control.quorum_messages import EpochEnd
from ...protocol.control.records import METADATA_TOPIC
from ...protocol.records.record_batch import BatchHeader
from ...protocol.types import Buffer
from ...runtime.config import MiB, from_mapping
from ...runtime.runtime import Runtime
from ...storage.files import LOG, Files
from ...storage.log import Cold, Log, OffsetOutOfRange
from ...storage.recovery import CutRefused
from ...storage.topic_config import TopicConfig
from .log_damage import DamagedLog, end_behind
from .log_facts import LogEnd
from .snapshots import Snapshots
from .stable_end import StableEnd

ANY_OFFSET: Final = 1 << 62

log = logging.getLogger(__name__)

CONFIG = from_mapping(
    TopicConfig,
    {"segment.bytes": str(8 * MiB), "retention.ms": "-1", "retention.bytes": "-1"},
)


class MetadataLog:
    """The metadata log with its snapshots and the file `stable-end`, in one directory."""

    def __init__(self, runtime: Runtime, files: Files) -> None:
        """Called by `open` alone, which then loads the log."""
        self._runtime = runtime
        self.directory = directory_in(files)
        self.files = files
        self._log: Log
        self._noted = StableEnd(files, self.directory)
        # With `Files` of their own: a snapshot that cannot be written must not fail the log.
        self.snapshots = Snapshots(Files(runtime.fs, files.root), self.directory)
        self._stable_offset = 0
        self._cuts = 0
        self.is_closed = False
        """True from a failed write until the log is open again."""

    @classmethod
    async def open(cls, runtime: Runtime, files: Files, *, cut_at: int = -1) -> "MetadataLog":
        """Open and recover the log in the data directory of `files`, which is locked.

        Raise DamagedLog, and change nothing, if stable records cannot be read. If the first of them
        is at `cut_at`, they are cut off instead, because an operator has given them up.
        """
        files.make_directory(directory_in(files))
        opened = cls(runtime, files)
        opened.snapshots.set_damaged_aside()
        opened._log = await opened._open_unless_damaged(cut_at)
        # A crash may have left unflushed bytes in the page cache. They belong to the log, but only
        # once they are stable.
        await opened.flush()
        snapshot = opened.snapshot
        if snapshot is not None and opened.end_offset < snapshot.end_offset:
            opened.start_at(snapshot.end_offset)
        await opened._noted.settle(at_least=1)
        await files.fsync_directory(opened.directory)
        return opened

    async def _open_unless_damaged(self, cut_at: int) -> Log:
        snapshot = self.snapshot
        noted, in_snapshot = self._noted.end, snapshot.end_offset if snapshot is not None else 0
        # Records in a snapshot need not be in the log. If the log has no noted end, a good batch
        # behind a bad one shows that the bad one was once good.
        is_needed = noted.offset > in_snapshot or not self._noted.is_known
        least = noted.offset if self._noted.is_known else ANY_OFFSET
        try:
            whole = await self._open_log(least if is_needed else 0)
            is_there = is_needed and whole.log_start_offset < noted.offset
            if is_there and noted.epoch != whole.leader_epochs.epoch_for(noted.offset - 1):
                raise self._of_another_epoch(whole)
            return whole
        except CutRefused as found:
            behind = end_behind(self.files, self.directory, found)
            if not self._noted.is_known and behind is None:
                return await self._open_log(0)
            # No checksum covers the epoch of a batch: up to the note, the note alone is believed.
            if behind is None or behind.offset <= noted.offset:
                behind = noted
            damage = DamagedLog(found, max(noted, behind))
            if cut_at != found.offset:
                raise damage from found
        log.error("%s: cut off at offset %d by the configuration", damage, cut_at)
        shorter = await self._open_log(0)
        shorter.truncate_to(min(cut_at, shorter.log_end_offset))
        return shorter

    def _of_another_epoch(self, found: Log) -> CutRefused:
        """Make the error for a log whose epoch differs from that noted in `stable-end`.

        No checksum covers the epoch of a batch.
        """
        found.abandon()
        epochs, last = found.leader_epochs, found.segments[-1]
        why = f"epoch {epochs.latest_epoch} where {self._noted.end.epoch} was"
        return CutRefused(last.path + LOG, 0, why, epochs.latest_start)

    async def _open_log(self, never_cut_below: int) -> Log:
        # Read from the first byte: what an unclean stop tore off was never acknowledged.
        return await Log.open(
            self._runtime,
            self.directory,
            CONFIG,
            files=self.files,
            never_cut_below=never_cut_below,
        )

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._stable_offset if self.is_closed else self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments together."""
        return self._log.size_bytes

    @property
    def latest_epoch(self) -> int:
        """The epoch of the newest record, -1 if there is none."""
        return self._log.leader_epochs.latest_epoch

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot, or None."""
        return self.snapshots.newest

    @property
    def end(self) -> LogEnd:
        """The end after the last record written."""
        return LogEnd(self._epoch_at(self.end_offset), self.end_offset)

    @property
    def stable(self) -> LogEnd:
        """The end after the last record that is on stable storage."""
        return LogEnd(self._epoch_at(self._stable_offset), self._stable_offset)

    def _epoch_at(self, offset: int) -> int:
        """Return the epoch of the record before `offset`; -1 if there is no such record."""
        if offset <= self.start_offset:
            snapshot = self.snapshot
            return snapshot.epoch if snapshot is not None else -1
        return self._log.leader_epochs.epoch_for(offset - 1)

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the record before `offset`.

        Return None if the log does not hold that record.
        """
        epoch = self._log.leader_epochs.epoch_for(offset - 1)
        return epoch if epoch >= 0 and offset > self._log.log_start_offset else None

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """Return our newest epoch that is not above `epoch`, with its end offset (exclusive).

        Return None if neither the log nor its newest snapshot has such an epoch.
        """
        end, epochs = self.end, self._log.leader_epochs
        if epoch >= end.epoch:
            return EpochEnd(end.epoch, end.offset)
        found = epochs.end_offset_for(epoch, end.offset)
        if found is None or found.offset <= self.start_offset:
            snapshot = self.snapshot
            if snapshot is not None and epoch >= snapshot.epoch:
                return EpochEnd(snapshot.epoch, snapshot.end_offset)
            return None
        return EpochEnd(found.epoch, found.offset)

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """Write the batches; they are stable after `flush`."""
        self._log.append(batches)

    async def flush(self) -> None:
        """Make all appended records stable; if the log is cut during the flush, make none so."""
        end_offset, cuts = self.end_offset, self._cuts
        await self._log.flush()
        if cuts == self._cuts:
            self._stable_offset = end_offset
            self._noted.note(self.stable)
            await self._noted.settle()

    def truncate_to(self, offset: int) -> None:
        """Cut off the record at `offset` and all later ones. A flush under way is then void."""
        self._cuts += 1
        self._lower_noted(LogEnd(self._epoch_at(offset), offset))
        self._log.truncate_to(offset)
        self._lower_noted(self.end)
        self._stable_offset = min(self._stable_offset, self.end_offset)

    def _lower_noted(self, end: LogEnd) -> None:
        """Lower the noted end to `end` if it is higher, because the log is cut there."""
        if self._noted.end.offset > end.offset:
            self._noted.note_at_once(end)

    async def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Read whole batches below `up_to`, beginning with the one that holds `offset`.

        Return no bytes if the log no longer holds `offset`: a snapshot may have replaced its
        records, even during a read from disk.
        """
        try:
            try:
                found = self._log.reader.read(offset, max_bytes=max_bytes, up_to=up_to)
            except Cold:
                found = await self._log.reader.read_cold(offset, max_bytes=max_bytes, up_to=up_to)
        except OffsetOutOfRange:
            return b""
        return bytes(found.data)

    def forget_unstable(self) -> None:
        """Give up all records that are not stable, after a failed write. `reopen` must follow."""
        self.is_closed = True
        self._cuts += 1
        self._log.abandon()

    async def reopen(self) -> None:
        """Open the log again, after `forget_unstable`, with its stable records only."""
        self.files = Files(self._runtime.fs, self.files.root)
        self._log = await self._open_log(self._stable_offset)
        self._log.truncate_to(self._stable_offset)
        self.is_closed = False
        await self.flush()

    def start_at(self, offset: int) -> None:
        """Drop all records and begin at `offset`: a snapshot holds everything before it."""
        self._cuts += 1
        snapshot = self.snapshot
        self._lower_noted(LogEnd(snapshot.epoch if snapshot is not None else -1, offset))
        self._log.truncate_fully_and_start_at(offset)
        self._stable_offset = offset

    def forget_before(self, offset: int) -> None:
        """Begin the log at `offset` and delete the segments before it: a snapshot holds them."""
        self._log.advance_log_start(offset)
        self._log.delete_old_segments(self._runtime.wall_ms(), offset)

    async def close(self) -> None:
        """Flush and close the files."""
        if not self.is_closed and self.files.failure is None:
            await self.flush()
            await self._noted.settle(at_least=1)
        self._noted.close()
        await self._log.close()


def directory_in(files: Files) -> str:
    """Return the directory of the metadata log within the data directory."""
    return f"{files.root}/{METADATA_TOPIC}-0"
