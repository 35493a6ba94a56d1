"""The quorum as the controller uses it: carries out what `QuorumNode` decides about the log.

errands.py saves the state, sends messages and keeps the timer; log_writer.py writes the log. This
module joins them, and tells the controller of elections and commits.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, assert_never

from ...protocol.control.image import MetadataImage
from ...protocol.control.messages import (
    Endpoint,
    SnapshotFetched,
    SnapshotId,
)
from ...protocol.control.quorum_messages import (
    QuorumLogFetched,
    QuorumRequest,
)
from ...protocol.control.records import MetadataRecord
from ...protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ...protocol.messages.describe_quorum import QuorumPartitionData
from ...runtime.errors import CorruptLog, StorageError
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ...storage.files import Files
from . import effects as e
from .checks import EPOCH_MAX
from .errands import Errands
from .following import Following
from .leading import Leading, describe
from .log_writer import LogWriter, WriterEvents
from .metadata_log import MetadataLog
from .node import WRITE_AGAIN_MS, QuorumNode
from .peers import Peering
from .quorum_state import COPY_NAME, FILE_NAME, QuorumState, read_quorum_state, write_quorum_state
from .standing import Standing
from .voters import QuorumSettings

log = logging.getLogger(__name__)


class QuorumListener(Protocol):
    """The callbacks by which the quorum informs the controller. None of them may raise."""

    def on_elected(self, epoch: int) -> None:
        """Begin to lead and append. Nothing is committed before the first record of this epoch."""

    def on_deposed(self, why: str) -> None:
        """Stop leading: records that were appended and are not committed may never be."""

    def on_leader_changed(self) -> None:
        """Note that the quorum's `leader_id` has changed; it is -1 while no leader is known."""

    def on_committed(self, high_watermark: int) -> None:
        """Note that all records below `high_watermark` are committed; brokers may have them."""

    def on_quorum_failed(self, why: str) -> None:
        """End the process: this node can no longer vouch for its log."""


class RaftQuorum:
    """This node's part in the quorum, and its copy of the metadata log.

    The leader's records are provisional until `on_committed` reports them: until then only other
    controllers may fetch them. Every controller learns what is committed, leader or not.
    """

    def __init__(
        self,
        runtime: Runtime,
        metadata_log: MetadataLog,
        node: QuorumNode,
        peering: Peering,
    ) -> None:
        """Called by `open` alone, which restores the node first."""
        self.node = node
        self.is_leader = False
        self.high_watermark = node.standing.high_watermark
        self._runtime = runtime
        self._log = metadata_log
        self.peering = peering
        self._listener: QuorumListener
        self._errands = Errands(runtime, node, metadata_log.directory, self._carry_out)
        self._writer = LogWriter(
            runtime,
            metadata_log,
            WriterEvents(
                on_stable=lambda: self._errands.take(self.node.on_stable(self._errands.now_ms())),
                on_write_failed=lambda why: self._errands.take(
                    self.node.on_write_failed(why, self._errands.now_ms())
                ),
                on_failed=self._fail,
            ),
        )
        self._leader_known = asyncio.Event()

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        metadata_log: MetadataLog,
        settings: QuorumSettings,
        *,
        cluster_id: str | None,
        peering: Peering | None = None,
    ) -> "RaftQuorum":
        """Restore the node from its saved state; nothing is sent before `start`."""
        is_alone = len(settings.voters) == 1
        state = await _recall(runtime, metadata_log, cluster_id, is_alone)
        abstains = state is None
        if state is None:
            what = "lost, while there is a log: this voter may have voted, and abstains"
            log.error("the quorum-state of node %d is %s", settings.me.voter_id, what)
            state = QuorumState(cluster_id)
        dice = runtime.rng.randrange
        standing = Standing(
            settings, state, metadata_log, dice, abstains=abstains, wall_ms=runtime.wall_ms
        )
        standing.cluster_id = standing.cluster_id or cluster_id
        return cls(runtime, metadata_log, QuorumNode(standing), peering or Peering())

    def start(self, listener: QuorumListener) -> None:
        """Begin to take part in the quorum, and report to `listener`."""
        self._listener = listener
        self._errands.spawn(self._writer.run(), "metadata log")
        self._errands.start(self.peering)

    async def answer(self, request: QuorumRequest) -> Any:
        """Answer another controller's request, once the machine has decided."""
        return await self._errands.answer(request)

    # The state of the quorum.

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows."""
        return self.node.standing.epoch

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`; -1 while it is not known."""
        return self.node.standing.leader_id

    def leader_endpoint(self) -> Endpoint | None:
        """Return the address at which the leader listens; None if no leader is known."""
        return self.peering.endpoints.get(self.node.standing.leader_id)

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log; records below it are only in the snapshot."""
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._writer.end_offset

    def majority_contact_ms(self) -> int:
        """Return a time until which no newer leader was elected, in ms of our own monotonic clock.

        A majority of the voters, this leader included, has answered in this epoch to a message
        that the leader sent at this time or later. Return -1 if no such time is known, or if this
        node does not lead.
        """
        return self.node.majority_contact_ms(self._errands.now_ms())

    def on_cluster_id(self, cluster_id: str) -> None:
        """Keep the cluster's id, which the metadata names, if it was not known yet."""
        self._errands.take(self.node.on_cluster_id(cluster_id))

    def describe(self) -> QuorumPartitionData:
        """Describe the quorum as this leader sees it; raise ApiError if this node does not lead."""
        role = self.node.standing.role
        if not isinstance(role, Leading):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this controller does not lead")
        wall_ms = self._runtime.wall_ms()
        return describe(role, wall_ms, wall_ms - self._errands.now_ms())

    def _carry_out(self, effect: e.LogEffect) -> None:
        match effect:
            case e.AnswerWithRecords():
                self._errands.spawn(self._answer_with_records(effect), "records for a voter")
            case e.Append(records):
                self._writer.append_received(records)
            case e.Truncate(offset):
                log.info("cutting the metadata log at offset %d", offset)
                self._writer.truncate_to(offset)
            case e.LoadSnapshot():
                self._errands.spawn(self._load_snapshot(effect), "snapshot from the leader")
            case e.Committed(high_watermark):
                self.high_watermark = high_watermark
                self._listener.on_committed(high_watermark)
            case e.Failed(why):
                self._fail(why)
            case e.Elected() | e.Deposed() | e.LeaderChanged():
                self._on_reign(effect)
            case _:
                assert_never(effect)

    def _on_reign(self, effect: e.Elected | e.Deposed | e.LeaderChanged) -> None:
        role = self.node.standing.role
        match effect:
            case e.Elected(epoch):
                if not isinstance(role, Leading) or role.epoch != epoch:
                    return  # Deposed while its vote was on its way to the disk: it never led.
                log.info("elected in epoch %d", epoch)
                self.is_leader = True
                self._listener.on_elected(epoch)
            case e.Deposed(why):
                if not self.is_leader:
                    return
                log.warning("leads no more: %s", why)
                self.is_leader = False
                self._writer.drop_staged()
                self._listener.on_deposed(why)
            case e.LeaderChanged():
                if self.leader_id >= 0:
                    log.info("node %d leads epoch %d", self.leader_id, self.epoch)
                    self._leader_known.set()
                else:
                    self._leader_known.clear()
                self._listener.on_leader_changed()
            case _:
                assert_never(effect)

    def _fail(self, why: str) -> None:
        self._errands.is_over = True
        self.is_leader = False
        self._listener.on_quorum_failed(why)

    async def _answer_with_records(self, effect: e.AnswerWithRecords) -> None:
        answer = effect.answer
        records = await self._log.read(effect.offset, effect.max_bytes, effect.up_to)
        if isinstance(self.node.standing.role, Leading) and self.epoch == answer.epoch:
            answer = replace(answer, records=records)
        else:
            # The records may be another leader's by now, and must not be sent under our epoch.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer = QuorumLogFetched(error, "leads no more", epoch=self.epoch)
        self._errands.give(effect.ticket, answer)

    # The log.

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append records as the leader; return the last one's offset.

        Raise ApiError if not leading.
        """
        role = self.node.standing.role
        if not self.is_leader or not isinstance(role, Leading):
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller does not lead any more")
        return self._writer.stage(records, role.epoch)

    def holds(self, offset: int, epoch: int) -> bool:
        """True if the record before `offset` is committed and its epoch is `epoch` or not known."""
        if offset == 0:
            return True
        if offset > self.high_watermark:
            return False
        snapshot = self.snapshot
        if snapshot is not None and offset == snapshot.end_offset:
            return epoch == snapshot.epoch
        return self._log.epoch_before(offset) in (epoch, None)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole committed batches from `offset` on.

        Return no bytes while the log is being reopened, or if the log now begins after `offset`.
        """
        if self._log.is_closed:
            return b""
        return await self._log.read(offset, max_bytes, self.high_watermark)

    # Snapshots.

    @property
    def unsnapshotted_bytes(self) -> int:
        """Bytes of the log since the newest snapshot."""
        return self._writer.unsnapshotted_bytes

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot, or None."""
        return self._log.snapshot

    async def load(self) -> MetadataImage:
        """Load the newest snapshot, or an empty image; raise CorruptLog if it is damaged."""
        return self._log.snapshots.load()

    async def read_snapshot(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotFetched:
        """Read a part of a snapshot's file."""
        return self._log.snapshots.read_part(snapshot, position, max_bytes)

    async def write_snapshot(self, image: MetadataImage) -> None:
        """Save the committed image as a snapshot and delete the log before it.

        A failure is only logged: the log then keeps growing.
        """
        before = self._writer.unsnapshotted_bytes
        try:
            snapshot = await self._log.snapshots.write(image, self._runtime.wall_ms())
            self._log.forget_before(snapshot.end_offset)
        except StorageError as error:
            log.error("no snapshot of the metadata, the log has to grow on: %s", error)
            return
        finally:
            self._writer.unsnapshotted_bytes -= before
        log.info("snapshot of the metadata up to offset %d", snapshot.end_offset)

    async def _load_snapshot(self, effect: e.LoadSnapshot) -> None:
        """Fetch the whole snapshot; begin the log at its end if we still follow that leader."""
        role, snapshot = self.node.standing.role, effect.snapshot
        try:
            timeout_ms = 4 * self.node.standing.settings.fetch_timeout_ms
            data = await self._errands.peers[effect.leader_id].fetch_snapshot(snapshot, timeout_ms)
            if self.node.standing.role is not role or not isinstance(role, Following):
                return
            await self._log.snapshots.keep(snapshot, data)
            if self.node.standing.role is not role or self.high_watermark > snapshot.end_offset:
                return
            self._log.start_at(snapshot.end_offset)
            await self._log.flush()
        except (ApiError, StorageError, RemoteProtocolError) as error:
            log.warning("no snapshot from the leader: %s", error)
            await asyncio.sleep(WRITE_AGAIN_MS / 1000)
            self._errands.take(self.node.on_stable(self._errands.now_ms()))
            return
        self._writer.unsnapshotted_bytes = 0
        log.info("loaded the leader's snapshot up to offset %d", snapshot.end_offset)
        self._errands.take(self.node.on_snapshot_loaded())

    # The end.

    async def resign(self) -> None:
        """Resign for good. If this node led, wait for another leader, up to 2 election timeouts."""
        was_leader = self.is_leader
        self._errands.take(self.node.on_leaving(self._errands.now_ms()))
        if was_leader and self._errands.peers:
            within_ms = 2 * self.node.standing.settings.election_timeout_ms
            if not await happens_within(self._leader_known, within_ms):
                log.warning("stopping, and no other controller leads yet")

    async def close(self) -> None:
        """Cancel the tasks, close the connections, then flush and close the log."""
        await self._errands.close()
        await self._log.close()


async def _recall(
    runtime: Runtime, metadata_log: MetadataLog, cluster_id: str | None, is_alone: bool
) -> QuorumState | None:
    """Return the saved state; None if it is lost and this node may have voted.

    If the log's beginning is lost with its snapshot, save in the state how far the log reached,
    because others counted on that; then empty the log, so that it is fetched anew. Raise CorruptLog
    instead for a sole voter, and for any voter whose saved epoch is above `EPOCH_MAX`.
    """
    directory, end = metadata_log.directory, metadata_log.end
    state = read_quorum_state(metadata_log.files, directory, cluster_id)
    if state is None or (state == QuorumState(cluster_id) and end.offset > 0):
        # An only voter has voted for nobody else; its log knows the epochs that mattered.
        state = QuorumState(cluster_id) if is_alone else None
    if state is not None and state.epoch > EPOCH_MAX:
        why = f"epoch {state.epoch} is none that elections lead to, and no record could be written"
        why = f"{why} in the next: remove it and {COPY_NAME}, and readmit this controller if it is"
        why = f"{why} one of several"
        raise CorruptLog(f"{directory}/{FILE_NAME}", 0, why)
    snapshot = metadata_log.snapshot
    reached = snapshot.end_offset if snapshot is not None else 0
    if metadata_log.start_offset <= reached:
        return state
    if is_alone:
        why = f"nothing before offset {metadata_log.start_offset}, and no snapshot of it"
        raise CorruptLog(directory, 0, why)
    if state is not None and state.recover_to is None:
        # Before the log is emptied: after a crash in between, it must not look like a new log.
        state = replace(
            state, epoch=max(state.epoch, end.epoch), recover_to=(end.epoch, end.offset)
        )
        files = Files(runtime.fs, metadata_log.files.root)
        await write_quorum_state(files, directory, state)
    log.error("%s: its beginning is lost with a snapshot: it is fetched anew", directory)
    metadata_log.start_at(reached)
    await metadata_log.flush()
    return state
