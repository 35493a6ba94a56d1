"""A quorum of one: what this node has on stable storage is committed.

The log is a storage log. Appends of one turn of the loop share a write, and every append that
waits while a flush is under way shares the next: `fdatasync` is paid per group, not per decision.
Nothing is committed, and so nothing answered or told, before its flush has returned.

A failed write loses the records that waited for it; the log goes on from the last committed one.
A failed flush is the end of this node: what the disk holds is unknown.
"""

import asyncio
import logging
from collections.abc import Sequence

from ...protocol.control.batches import apply_batch, decode_batches, encode_batch
from ...protocol.control.image import MetadataImage
from ...protocol.control.messages import Endpoint, SnapshotFetched, SnapshotId
from ...protocol.control.records import MetadataRecord
from ...protocol.errors import RemoteProtocolError
from ...protocol.record_batch import read_header
from ...runtime.errors import CorruptLog, StorageError
from ...runtime.runtime import Runtime
from ...storage.files import Files
from .description import CopyDescription, QuorumDescription
from .interface import QuorumListener
from .metadata_log import MetadataLog
from .quorum_state import QuorumState, read_quorum_state, write_quorum_state
from .snapshots import Snapshots

LOAD_BYTES = 1 << 20

log = logging.getLogger(__name__)


class SingleVoter:
    """The only voter: it leads, in an epoch above all earlier ones."""

    def __init__(self, runtime: Runtime, metadata_log: MetadataLog, snapshots: Snapshots) -> None:
        """Use `open`."""
        self._runtime = runtime
        self._log = metadata_log
        self._snapshots = snapshots
        self._listener: QuorumListener | None = None
        self._staged: list[bytearray] = []
        self._wake = asyncio.Event()
        self._usable = asyncio.Event()
        """Clear while the log is being opened again."""
        self._usable.set()
        self._committing: asyncio.Task[None] | None = None
        self._end_offset = self._high_watermark = 0
        self.epoch = -1
        self.node_id = -1
        self.unsnapshotted_bytes = 0
        """Size of the log since the newest snapshot."""

    @classmethod
    async def open(
        cls, runtime: Runtime, metadata_log: MetadataLog, *, node_id: int, cluster_id: str
    ) -> "SingleVoter":
        """Recover the log and begin a new epoch, which is stable before it is used."""
        files, directory = metadata_log.files, metadata_log.directory
        state = read_quorum_state(files, directory, cluster_id)
        # With files of their own: a snapshot that cannot be written is no failure of the log.
        snapshots = Snapshots(Files(runtime.fs, files.root), directory)
        voter = cls(runtime, metadata_log, snapshots)
        voter.node_id = node_id
        # The log's own epochs count too: the state file may have been lost with its directory.
        voter.epoch = max(state.epoch, metadata_log.latest_epoch) + 1
        state = QuorumState(cluster_id, voter.epoch, leader_id=node_id, voted_id=node_id)
        await write_quorum_state(files, directory, state)
        # A crash may have left bytes in the page cache that no one was told of: they count, but
        # only once they are stable.
        await metadata_log.flush()
        snapshot = voter.snapshot
        if snapshot is not None and metadata_log.end_offset < snapshot.end_offset:
            metadata_log.start_at(snapshot.end_offset)
        voter._high_watermark = voter._end_offset = metadata_log.end_offset
        return voter

    def start(self, listener: QuorumListener) -> None:
        """Accept appends, and report on them to `listener`."""
        self._listener = listener
        self._committing = self._runtime.spawn(self._commit(listener), "metadata log")

    is_leader = True

    @property
    def leader_id(self) -> int:
        """This node."""
        return self.node_id

    def leader_endpoint(self) -> Endpoint | None:
        """Nobody has to be told."""
        return None

    def majority_contact_ms(self) -> int:
        """A quorum of one is always in contact with itself."""
        return self._runtime.monotonic_ms()

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self._high_watermark

    @property
    def log_start_offset(self) -> int:
        """Everything below is only in the snapshot."""
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._end_offset

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self._snapshots.newest

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Place records after the last; give the offset of the last of them."""
        batch = encode_batch(
            records,
            base_offset=self._end_offset,
            epoch=self.epoch,
            timestamp_ms=self._runtime.wall_ms(),
        )
        self._staged.append(batch)
        self._end_offset += len(records)
        self._wake.set()
        return self._end_offset - 1

    async def _commit(self, listener: QuorumListener) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batches, self._staged = self._staged, []
            end_offset = self._end_offset
            try:
                self._log.append([(read_header(batch), batch) for batch in batches])
            except StorageError as error:
                await self._give_up_staged(listener, str(error))
                continue
            try:
                await self._log.flush()
            except StorageError as error:
                listener.on_quorum_failed(f"the metadata log cannot be flushed: {error}")
                return
            self.unsnapshotted_bytes += sum(len(batch) for batch in batches)
            self._high_watermark = end_offset
            listener.on_committed(end_offset)

    async def _give_up_staged(self, listener: QuorumListener, why: str) -> None:
        """Forget what is not committed, in memory and on disk."""
        self._end_offset = self._high_watermark
        self._usable.clear()
        # First of all, so that nothing is appended to what is being given up.
        listener.on_append_lost(why)
        try:
            await self._log.reopen_at(self._high_watermark)
        except StorageError as error:
            listener.on_quorum_failed(f"{why}; opening the metadata log again: {error}")
            return
        self._usable.set()

    async def load(self) -> MetadataImage:
        """The newest snapshot and everything committed after it; CorruptLog if that is damaged."""
        await self._usable.wait()
        image = self._snapshots.load()
        self.unsnapshotted_bytes = 0
        while image.offset + 1 < self._high_watermark:
            data = await self.read(image.offset + 1, LOAD_BYTES)
            if not data:
                why = f"nothing at offset {image.offset + 1}, the end is {self._high_watermark}"
                raise CorruptLog(self._log.directory, image.offset + 1, why)
            self.unsnapshotted_bytes += len(data)
            try:
                for batch in decode_batches(data):
                    # A read begins with the batch that holds the offset: a snapshot may end in it.
                    if batch.next_offset > image.offset + 1:
                        apply_batch(image, batch)
            except RemoteProtocolError as error:
                raise CorruptLog(self._log.directory, image.offset + 1, str(error)) from error
            await asyncio.sleep(0)
        return image

    def holds(self, offset: int, epoch: int) -> bool:
        """Is `offset` reached by a log whose last record before it was written in `epoch`?"""
        if offset == 0:
            return True
        if offset > self._high_watermark:
            return False
        snapshot = self.snapshot
        if snapshot is not None and offset == snapshot.end_offset:
            return epoch == snapshot.epoch
        return self._log.epoch_before(offset) in (epoch, None)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole committed batches from `offset` on, at least one if there is one."""
        return await self._log.read(offset, max_bytes, self._high_watermark)

    async def read_snapshot(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotFetched:
        """A part of a snapshot's file."""
        return self._snapshots.read_part(snapshot, position, max_bytes)

    async def write_snapshot(self, image: MetadataImage) -> None:
        """Keep the committed image, and let the log before it go. Failing costs only space."""
        before = self.unsnapshotted_bytes
        try:
            snapshot = await self._snapshots.write(image, self._runtime.wall_ms())
            self._log.forget_before(snapshot.end_offset)
        except StorageError as error:
            log.error("no snapshot of the metadata, the log has to grow on: %s", error)
            return
        finally:
            self.unsnapshotted_bytes -= before
        log.info("snapshot of the metadata up to offset %d", snapshot.end_offset)

    def describe(self) -> QuorumDescription:
        """The quorum at this moment: this node alone."""
        now_ms = self._runtime.wall_ms()
        me = CopyDescription(self.node_id, self._end_offset, last_caught_up_ms=now_ms)
        return QuorumDescription(self.node_id, self.epoch, self._high_watermark, (me,))

    async def close(self) -> None:
        """Finish what is under way and release the files."""
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        await self._log.close()
