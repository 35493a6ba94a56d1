"""The quorum at work: carries out what `QuorumNode` decides, on disk, on the network, in time.

Effects are carried out in their order, and a `SaveState` holds up all that follow it, whichever
input they came from: nothing leaves this node before what it rests on is stable.

Records appended by the leader wait for one writer task: those of one turn of the loop share a
write, those that come while a flush is under way share the next. A failed write loses what was
not stable, and with it the leadership; a failed flush is the end of this node.
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.control.batches import encode_batch
from ...protocol.control.image import MetadataImage
from ...protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_CONTROLLER,
    Endpoint,
    FetchSnapshot,
    Hello,
    SnapshotFetched,
    SnapshotId,
)
from ...protocol.control.quorum_messages import (
    QuorumLogFetched,
    QuorumRequest,
)
from ...protocol.control.records import MetadataRecord
from ...protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ...protocol.record_batch import crc_is_valid, headers, read_header
from ...runtime.errors import StorageError
from ...runtime.runtime import Runtime
from ...storage.files import Files
from ...storage.log import OffsetOutOfRange
from . import effects as e
from .description import CopyDescription, QuorumDescription
from .following import Following
from .interface import QuorumListener
from .leading import Leading, Progress
from .metadata_log import MetadataLog
from .node import WRITE_AGAIN_MS, QuorumNode
from .peers import Peer, PeerEvents
from .quorum_state import QuorumState, read_quorum_state, write_quorum_state
from .voters import QuorumSettings

SNAPSHOT_PART_BYTES = 1 << 20

log = logging.getLogger(__name__)


class RaftQuorum:
    """This node's part in the quorum."""

    def __init__(
        self,
        runtime: Runtime,
        metadata_log: MetadataLog,
        node: QuorumNode,
        endpoints: Mapping[int, Endpoint],
    ) -> None:
        """Use `open`."""
        self.node = node
        self.is_leader = False
        self.high_watermark = node.high_watermark
        self.unsnapshotted_bytes = metadata_log.size_bytes
        self._runtime = runtime
        self._log = metadata_log
        self._endpoints = dict(endpoints)
        self._listener: QuorumListener
        self._effects: deque[e.QuorumEffect] = deque()
        self._is_working = self._is_saving = False
        self._staged: list[bytearray] = []
        self._staged_end = metadata_log.end_offset
        self._wake = asyncio.Event()
        self._write_error: str | None = None
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._peers: dict[int, Peer] = {}
        self._noted: dict[str, None] = {}
        self._leader_known = asyncio.Event()
        self._is_over = False

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        metadata_log: MetadataLog,
        settings: QuorumSettings,
        *,
        cluster_id: str | None,
        endpoints: Mapping[int, Endpoint] | None = None,
    ) -> "RaftQuorum":
        """Find out what this node was; nothing is sent before `start`."""
        files, directory = metadata_log.files, metadata_log.directory
        state = read_quorum_state(files, directory, cluster_id)
        is_alone = len(settings.voters) == 1
        # An only voter has voted for nobody else; its log knows the epochs that mattered.
        is_lost = state is None or (
            state == QuorumState(cluster_id) and metadata_log.end_offset > 0
        )
        abstains = is_lost and not is_alone
        if abstains:
            what = "lost, while there is a log: this voter may have voted, and abstains"
            log.error("the quorum-state of node %d is %s", settings.me.voter_id, what)
        known = state if state is not None else QuorumState(cluster_id)
        dice = runtime.rng.randrange
        node = QuorumNode(settings, known, metadata_log, dice, abstains=abstains)
        node.cluster_id = node.cluster_id or cluster_id
        return cls(runtime, metadata_log, node, endpoints or {})

    def start(self, listener: QuorumListener) -> None:
        """Take part, and report to `listener`."""
        self._listener = listener
        self._spawn(self._write(), "metadata log")
        events = PeerEvents(
            self._hello,
            lambda voter_id: self._take(self.node.on_peer_lost(voter_id)),
            lambda voter_id: self._take(self.node.on_peer_refused(voter_id, self._now_ms())),
        )
        timeout_ms = 2 * self.node.settings.fetch_timeout_ms
        for voter_id in self.node.voters.ids:
            if voter_id != self.node.me:
                endpoint = self._endpoints[voter_id]
                peer = Peer(self._runtime, voter_id, endpoint, events, timeout_ms)
                self._peers[voter_id] = peer
                peer.start()
        self._take(self.node.on_started(self._now_ms()))

    def _now_ms(self) -> int:
        return self._runtime.monotonic_ms()

    def _spawn(self, coro: Any, name: str) -> None:
        task: asyncio.Task[None] = self._runtime.spawn(coro, name)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _hello(self) -> Hello:
        me = self.node.settings.me
        return Hello(
            cluster_id=self.node.cluster_id,
            min_version=PROTOCOL_VERSION_MIN,
            max_version=PROTOCOL_VERSION_MAX,
            node_id=me.voter_id,
            role=ROLE_CONTROLLER,
            incarnation_id=me.directory_id,
        )

    # What others see of it.

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows."""
        return self.node.epoch

    @property
    def leader_id(self) -> int:
        """Who leads in `epoch`, -1 while that is not known."""
        return self.node.leader_id

    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader listens, as the configuration names it."""
        return self._endpoints.get(self.node.leader_id)

    @property
    def log_start_offset(self) -> int:
        """Everything below is only in the snapshot."""
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""
        return self._staged_end if self.is_leader else self._log.end_offset

    def majority_contact_ms(self) -> int:
        """No one else led before this time; -1 when that is not known."""
        return self.node.majority_contact_ms(self._now_ms())

    def on_cluster_id(self, cluster_id: str) -> None:
        """The metadata says which cluster this is."""
        self._take(self.node.on_cluster_id(cluster_id))

    def describe(self) -> QuorumDescription:
        """The quorum as this leader sees it; ApiError on other nodes."""
        role, me = self.node.role, self.node.settings.me
        if not isinstance(role, Leading):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this controller does not lead")
        wall_ms = self._runtime.wall_ms()
        ahead_ms = wall_ms - self._now_ms()

        def copy(one: Progress) -> CopyDescription:
            times = [-1 if t < 0 else t + ahead_ms for t in (one.fetched_ms, one.caught_up_ms)]
            return CopyDescription(
                one.key.voter_id, one.end_offset, one.key.directory_id or bytes(16), *times
            )

        own = CopyDescription(
            me.voter_id, self._log.stable.offset, me.directory_id or bytes(16), -1, wall_ms
        )
        others = {each: copy(one) for each, one in role.followers.items()}
        return QuorumDescription(
            me.voter_id,
            self.epoch,
            self.high_watermark,
            tuple(own if each == me.voter_id else others[each] for each in self.node.voters.ids),
            tuple(copy(one) for one in role.observers.values()),
            tuple(self._endpoints.items()),
        )

    async def answer(self, request: QuorumRequest) -> Any:
        """What this node says to another controller's request, once it may."""
        if self._is_over:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller stops")
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        future = self._tickets[ticket] = asyncio.get_running_loop().create_future()
        try:
            self._take(self.node.on_request(ticket, request, self._now_ms()))
            return await future
        finally:
            self._tickets.pop(ticket, None)

    # Carrying out.

    def _take(self, effects: Sequence[e.QuorumEffect]) -> None:
        self._effects.extend(effects)
        self._work()
        self._set_timer()

    def _work(self) -> None:
        if self._is_working:
            return
        self._is_working = True
        try:
            while self._effects and not self._is_saving and not self._is_over:
                effect = self._effects.popleft()
                if isinstance(effect, e.SaveState):
                    self._is_saving = True
                    self._spawn(self._save(effect.state), "quorum state")
                else:
                    self._carry_out(effect)
        finally:
            self._is_working = False

    async def _save(self, state: QuorumState) -> None:
        while True:
            # With files of their own: a log that cannot be written now is no reason to fail.
            files = Files(self._runtime.fs, self._log.files.root)
            try:
                await write_quorum_state(files, self._log.directory, state)
                break
            except StorageError as error:
                if not _is_full(error):
                    self._fail(f"the quorum's state cannot be saved: {error}")
                    return
                log.error("no room for the quorum's state, and no part in it until there is")
            await asyncio.sleep(WRITE_AGAIN_MS / 1000)
        self._is_saving = False
        self._work()
        self._set_timer()

    def _carry_out(self, effect: e.QuorumEffect) -> None:
        match effect:
            case e.Send():
                self._spawn(self._ask(effect), f"{type(effect.request).__name__} to {effect.to}")
            case e.Answer(ticket, answer):
                self._give(ticket, answer)
            case e.AnswerWithRecords():
                self._spawn(self._answer_with_records(effect), "records for a voter")
            case e.Append() | e.Truncate():
                self._change_log(effect)
            case e.LoadSnapshot():
                self._spawn(self._load_snapshot(effect), "snapshot from the leader")
            case e.Committed(high_watermark):
                self.high_watermark = high_watermark
                self._listener.on_committed(high_watermark)
            case e.Noted(key, text):
                if key not in self._noted:
                    self._noted[key] = None
                    log.warning("%s", text)
            case e.Failed(why):
                self._fail(why)
            case _:
                self._on_reign(effect)

    def _on_reign(self, effect: e.QuorumEffect) -> None:
        match effect:
            case e.Elected(epoch):
                log.info("elected in epoch %d", epoch)
                self.is_leader, self._staged_end = True, self._log.end_offset
                self._listener.on_elected(epoch)
            case e.Deposed(why):
                log.warning("leads no more: %s", why)
                self.is_leader = False
                self._staged.clear()
                self._listener.on_deposed(why)
            case e.LeaderChanged():
                if self.leader_id >= 0:
                    log.info("node %d leads epoch %d", self.leader_id, self.epoch)
                    self._leader_known.set()
                else:
                    self._leader_known.clear()
                self._listener.on_leader_changed()

    def _fail(self, why: str) -> None:
        self._is_over = True
        self.is_leader = False
        self._listener.on_quorum_failed(why)

    def _give(self, ticket: int, answer: object) -> None:
        future = self._tickets.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.node.next_deadline_ms()
        if due_ms is not None and not self._is_over:
            delay_ms = max(0, due_ms - self._now_ms())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._take(self.node.on_deadline(self._now_ms()))

    async def _ask(self, effect: e.Send) -> None:
        request = effect.request
        timeout_ms = 2 * self.node.settings.fetch_timeout_ms
        try:
            answer = await self._peers[effect.to].call(request, timeout_ms=timeout_ms)
        except ApiError as error:
            log.debug("%s to %d: %s", type(request).__name__, effect.to, error)
            self._take(self.node.on_unanswered(effect.to, request, self._now_ms()))
        else:
            self._take(self.node.on_answered(effect.to, request, answer, self._now_ms()))

    async def _answer_with_records(self, effect: e.AnswerWithRecords) -> None:
        answer = effect.answer
        try:
            records = await self._log.read(effect.offset, effect.max_bytes, effect.up_to)
        except OffsetOutOfRange:
            records = b""
        if not isinstance(self.node.role, Leading) or self.epoch != answer.epoch:
            # What is read now may be another leader's, and must not go out under our epoch.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._give(effect.ticket, QuorumLogFetched(error, "leads no more", epoch=self.epoch))
            return
        fields = {name: getattr(answer, name) for name in ("high_watermark", "sent_ms")}
        self._give(
            effect.ticket,
            QuorumLogFetched(
                0, epoch=answer.epoch, leader_id=answer.leader_id, records=records, **fields
            ),
        )

    # The log.

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Place records after the last; give the offset of the last of them. Leader only."""
        if not self.is_leader or not isinstance(self.node.role, Leading):
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller does not lead any more")
        batch = encode_batch(
            records,
            base_offset=self._staged_end,
            epoch=self.node.role.epoch,
            timestamp_ms=self._runtime.wall_ms(),
        )
        self._staged.append(batch)
        self._staged_end += len(records)
        self._wake.set()
        return self._staged_end - 1

    async def _write(self) -> None:
        """The writer: everything staged in one write, then one flush, and again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            staged, self._staged = self._staged, []
            if self._write_error is not None:
                await self._give_up(self._write_error)
                continue
            if not isinstance(self.node.role, Leading):
                staged = []
            try:
                self._log.append([(read_header(batch), batch) for batch in staged])
            except StorageError as error:
                await self._give_up(str(error))
                continue
            self.unsnapshotted_bytes += sum(len(batch) for batch in staged)
            try:
                await self._log.flush()
            except StorageError as error:
                self._fail(f"the metadata log cannot be flushed: {error}")
                return
            if self._log.stable != self._log.end and not self._staged:
                self._wake.set()  # it was cut or grew meanwhile
            self._take(self.node.on_stable(self._now_ms()))

    async def _give_up(self, why: str) -> None:
        """A write failed: forget what is not stable, in memory and on disk."""
        self._log.forget_unstable()
        log.error("metadata was not written: %s", why)
        # First of all, so that nothing is appended to what is being given up.
        self._take(self.node.on_write_failed(why, self._now_ms()))
        while self._log.is_closed:
            try:
                await self._log.reopen()
            except StorageError as error:
                if not _is_full(error):
                    self._fail(f"{why}; opening the metadata log again: {error}")
                    return
                await asyncio.sleep(WRITE_AGAIN_MS / 1000)
        self._write_error = None

    def _change_log(self, effect: e.Append | e.Truncate) -> None:
        """A leader's word on our log; an error is found out by the writer, as its own is."""
        if self._log.is_closed or self._write_error is not None:
            self._effects.extend(self.node.on_write_failed("not open", self._now_ms()))
            return
        try:
            match effect:
                case e.Truncate(offset):
                    log.info("cutting the metadata log at offset %d", offset)
                    self._log.truncate_to(offset)
                case e.Append(records):
                    self._append_received(records)
        except (StorageError, RemoteProtocolError) as error:
            self._write_error = str(error)
        self._wake.set()

    def _append_received(self, records: bytes) -> None:
        found = []
        for position, header in headers(records):
            if not crc_is_valid(records, position, header):
                raise RemoteProtocolError(f"{header!r} was damaged on its way")
            found.append((header, memoryview(records)[position : position + header.size]))
        # What was asked for before something else changed the log does not fit any more.
        if found and found[0][0].base_offset == self._log.end_offset:
            self._log.append(found)
            self.unsnapshotted_bytes += len(records)

    def holds(self, offset: int, epoch: int) -> bool:
        """Is `offset` reached by a log whose last record before it was written in `epoch`?"""
        if offset == 0:
            return True
        if offset > self.high_watermark:
            return False
        snapshot = self.snapshot
        if snapshot is not None and offset == snapshot.end_offset:
            return epoch == snapshot.epoch
        return self._log.epoch_before(offset) in (epoch, None)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole committed batches from `offset` on, at least one if there is one."""
        return await self._log.read(offset, max_bytes, self.high_watermark)

    # Snapshots.

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self._log.snapshot

    async def load(self) -> MetadataImage:
        """The newest snapshot, an empty image if there is none; CorruptLog if it is damaged."""
        return self._log.snapshots.load()

    async def read_snapshot(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> SnapshotFetched:
        """A part of a snapshot's file."""
        return self._log.snapshots.read_part(snapshot, position, max_bytes)

    async def write_snapshot(self, image: MetadataImage) -> None:
        """Keep the committed image, and let the log before it go. Failing costs only space."""
        before = self.unsnapshotted_bytes
        try:
            snapshot = await self._log.snapshots.write(image, self._runtime.wall_ms())
            self._log.forget_before(snapshot.end_offset)
        except StorageError as error:
            log.error("no snapshot of the metadata, the log has to grow on: %s", error)
            return
        finally:
            self.unsnapshotted_bytes -= before
        log.info("snapshot of the metadata up to offset %d", snapshot.end_offset)

    async def _load_snapshot(self, effect: e.LoadSnapshot) -> None:
        """Fetch it whole, then begin the log at its end, if we still follow that leader."""
        role, snapshot = self.node.role, effect.snapshot
        try:
            data = await self._fetch_snapshot(effect)
            if self.node.role is not role or not isinstance(role, Following):
                return
            await self._log.snapshots.keep(snapshot, data)
            if self.node.role is not role or self.high_watermark > snapshot.end_offset:
                return
            self._log.start_at(snapshot.end_offset)
            await self._log.flush()
        except (ApiError, StorageError, RemoteProtocolError) as error:
            log.warning("no snapshot from the leader: %s", error)
            await asyncio.sleep(WRITE_AGAIN_MS / 1000)
            self._take(self.node.on_stable(self._now_ms()))
            return
        self.unsnapshotted_bytes = 0
        log.info("loaded the leader's snapshot up to offset %d", snapshot.end_offset)
        self._take(self.node.on_snapshot_loaded())

    async def _fetch_snapshot(self, effect: e.LoadSnapshot) -> bytes:
        data, size = bytearray(), 1
        peer, timeout_ms = self._peers[effect.leader_id], 4 * self.node.settings.fetch_timeout_ms
        while len(data) < size:
            request = FetchSnapshot(effect.snapshot, len(data), SNAPSHOT_PART_BYTES)
            part = await peer.call(request, timeout_ms=timeout_ms)
            if part.error or not part.data:
                raise ApiError(ErrorCode(part.error or ErrorCode.INVALID_RECORD), part.message)
            data += part.data
            size = part.size
        return bytes(data)

    # The end.

    async def resign(self) -> None:
        """Lead no more and stand no more; return once another one leads, or after a while."""
        was_leader = self.is_leader
        self._take(self.node.on_leaving(self._now_ms()))
        if was_leader and self._peers:
            try:
                async with asyncio.timeout(2 * self.node.settings.election_timeout_ms / 1000):
                    await self._leader_known.wait()
            except TimeoutError:
                log.warning("stopping, and no other controller leads yet")

    async def close(self) -> None:
        """Finish what is under way and release the files."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in self._peers.values():
            await peer.close()
        await self._log.close()


def _is_full(error: StorageError) -> bool:
    """Is there merely no room on the disk?"""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
