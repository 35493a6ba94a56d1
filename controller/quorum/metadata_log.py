"""The metadata log on disk: a storage log in `__cluster_metadata-0`, with the quorum's files.

Nothing ages out of it: what a snapshot holds is forgotten by whole segments, everything else
stays. The data directory's lock and identity are its opener's. Knows how far it is stable, and is
what the quorum's state machine may know of a log (`LogFacts`).
"""

from collections.abc import Sequence

from ...protocol.control.messages import SnapshotId
from ...protocol.control.quorum_messages import EpochEnd
from ...protocol.control.records import METADATA_TOPIC
from ...protocol.record_batch import BatchHeader
from ...protocol.types import Buffer
from ...runtime.config import MiB, from_mapping
from ...runtime.runtime import Runtime
from ...storage.files import Files
from ...storage.log import Cold, Log, OffsetOutOfRange
from ...storage.topic_config import TopicConfig
from .log_facts import LogEnd
from .snapshots import Snapshots

CONFIG = from_mapping(
    TopicConfig,
    {"segment.bytes": str(8 * MiB), "retention.ms": "-1", "retention.bytes": "-1"},
)


class MetadataLog:
    """The log and what belongs beside it in its directory."""

    def __init__(self, runtime: Runtime, files: Files) -> None:
        """Use `open`."""
        self._runtime = runtime
        self.directory = f"{files.root}/{METADATA_TOPIC}-0"
        self.files = files
        self._log: Log
        # With files of their own: a snapshot that cannot be written is no failure of the log.
        self.snapshots = Snapshots(Files(runtime.fs, files.root), self.directory)
        self._stable_offset = 0
        self._cuts = 0
        self.is_closed = False
        """After a failed write, until it is open again."""

    @classmethod
    async def open(cls, runtime: Runtime, files: Files) -> "MetadataLog":
        """Open and recover what is in the data directory of `files`, which is locked."""
        files.make_directory(f"{files.root}/{METADATA_TOPIC}-0")
        opened = cls(runtime, files)
        opened._log = await opened._open_log()
        # A crash may have left bytes in the page cache that no one was told of: they count, but
        # only once they are stable.
        await opened.flush()
        snapshot = opened.snapshot
        if snapshot is not None and opened.end_offset < snapshot.end_offset:
            opened.start_at(snapshot.end_offset)
        return opened

    async def _open_log(self) -> Log:
        # Read from the first byte: what an unclean stop tore off was never acknowledged.
        return await Log.open(self._runtime, self.directory, CONFIG, files=self.files)

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._stable_offset if self.is_closed else self._log.log_end_offset

    @property
    def size_bytes(self) -> int:
        """All segments together."""
        return self._log.size_bytes

    @property
    def latest_epoch(self) -> int:
        """Epoch of the newest record, -1 for none."""
        return self._log.leader_epochs.latest_epoch

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self.snapshots.newest

    @property
    def end(self) -> LogEnd:
        """After the last record written."""
        return LogEnd(self._epoch_at(self.end_offset), self.end_offset)

    @property
    def stable(self) -> LogEnd:
        """After the last record that is on stable storage."""
        return LogEnd(self._epoch_at(self._stable_offset), self._stable_offset)

    def _epoch_at(self, offset: int) -> int:
        """Epoch of the record before `offset`, -1 if there is none."""
        if offset <= self.start_offset:
            snapshot = self.snapshot
            return snapshot.epoch if snapshot is not None else -1
        return self._log.leader_epochs.epoch_for(offset - 1)

    def epoch_before(self, offset: int) -> int | None:
        """Epoch of the record before `offset`, None when the log does not reach back so far."""
        epoch = self._log.leader_epochs.epoch_for(offset - 1)
        return epoch if epoch >= 0 and offset > self._log.log_start_offset else None

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """The newest epoch not above `epoch`, and where it ends; None: older than the log."""
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
        """Write the batches; stable after `flush`."""
        self._log.append(batches)

    async def flush(self) -> None:
        """All that was appended before is on stable storage on return, unless it was cut."""
        end_offset, cuts = self.end_offset, self._cuts
        await self._log.flush()
        if cuts == self._cuts:
            self._stable_offset = end_offset

    def truncate_to(self, offset: int) -> None:
        """Cut off `offset` and everything later. What is appended next must be flushed anew."""
        self._cuts += 1
        self._log.truncate_to(offset)
        self._stable_offset = min(self._stable_offset, self.end_offset)

    async def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Whole batches from the one that holds `offset`, below `up_to`.

        Nothing if the log does not hold the offset any more: whoever reads on, or waits for a cold
        read, may find that a snapshot has taken the place of what it wanted.
        """
        try:
            try:
                found = self._log.read(offset, max_bytes=max_bytes, up_to=up_to)
            except Cold:
                found = await self._log.read_cold(offset, max_bytes=max_bytes, up_to=up_to)
        except OffsetOutOfRange:
            return b""
        return bytes(found.data)

    def forget_unstable(self) -> None:
        """A write failed: what is not stable does not count any more; `reopen` follows."""
        self.is_closed = True
        self._cuts += 1
        self._log.abandon()

    async def reopen(self) -> None:
        """After `forget_unstable`: start over with what is stable on disk."""
        self.files = Files(self._runtime.fs, self.files.root)
        self._log = await self._open_log()
        self._log.truncate_to(self._stable_offset)
        self.is_closed = False
        await self.flush()

    def start_at(self, offset: int) -> None:
        """Everything before `offset` is in a snapshot, and nothing is after it."""
        self._cuts += 1
        self._log.truncate_fully_and_start_at(offset)
        self._stable_offset = offset

    def forget_before(self, offset: int) -> None:
        """A snapshot holds everything before `offset`."""
        self._log.advance_log_start(offset)
        self._log.delete_old_segments(self._runtime.wall_ms(), offset)

    async def close(self) -> None:
        """Flush and close the files."""
        await self._log.close()
