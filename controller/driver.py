"""The controller: turns decisions into appended, replayed and committed records while it is active.

It runs on one event loop without locks. `decide` runs a decision against the newest image, appends
its records and replays them at once, so that the next decision sees them; the answer waits for the
commit. An answer without records waits for the newest pending offset, because the image may hold
uncommitted records. Brokers get only committed records.

    standby    replays records as they are committed
    elected    appends ControllerElected, and replays until this record is committed
    active     decides on an image of all committed records and its own decisions since
    deposed    fails every pending answer and becomes a standby again

A record that cannot be applied ends the process, standby or not, because a controller with an
incomplete image must never become active.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..protocol.control.batches import apply_batch, decode_batches
from ..protocol.control.image import Delta, MetadataImage
from ..protocol.control.records import (
    BrokerChangeRecord,
    ControllerElected,
    MetadataRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import NO_LEADER, uuid_to_text
from ..runtime.errors import InvariantViolation
from ..runtime.runtime import Runtime
from ..runtime.waiting import end_tasks, happens_within
from .config import ControllerConfig
from .leases import LeaseExpired, Leases
from .metadata.brokers import fence_expired
from .metadata.decision import Cluster, Decision
from .metadata.features import first_records
from .quorum.raft import RaftQuorum
from .tally import Tally

A = TypeVar("A")

PENDING_ANSWERS_MAX: Final = 10_000
LOAD_BYTES: Final = 1 << 20
READ_AGAIN_MS: Final = 10
STOP_WITHIN_MS: Final = 2_000
"""The most milliseconds for which a stop waits for pending records to be committed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The callbacks for changes of a controller's state."""

    on_failed: Callable[[str], None]
    """Called with the reason when this node's log cannot be trusted any more; ends the process."""
    on_active: Callable[[], None]
    """Called each time this controller has become active."""
    on_inactive: Callable[[], None]
    """Called each time this controller stops being active, except when its log has failed."""
    on_cluster_id: Callable[[str], None]
    """Called once with the cluster's id, when the metadata names it."""
    on_replayed: Callable[[Sequence[MetadataRecord], Delta], None]
    """Called with records as soon as decisions see them, and with what they have changed."""


@dataclass(slots=True)
class _Pending:
    """An answer, and the high watermark it waits for."""

    high_watermark: int
    answer: Any
    future: "asyncio.Future[Any]"


class Controller:
    """Runs decisions, appends their records, and answers once these are committed."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: RaftQuorum,
        config: ControllerConfig,
        cluster_id: str | None,
        events: Events,
    ) -> None:
        """If `cluster_id` is None, it comes from the log, or is made by the first leader."""
        self.runtime = runtime
        self.quorum = quorum
        self._config = config
        self.leases = Leases(config.broker_session_timeout_ms)
        self.tally = Tally()
        self._events = events
        self.cluster_id = cluster_id
        self.cluster = Cluster(MetadataImage(), config.defaults, tokens=config.token_policy)
        """The state with all appended records; only decisions use it."""
        self.committed = MetadataImage()
        """The state with all committed records; everything that leaves the process uses it."""
        self.founding: Sequence[MetadataRecord] = ()
        """More first records, written if this controller makes the cluster."""
        self._replayed: deque[tuple[int, MetadataRecord]] = deque()
        self._pending: deque[_Pending] = deque()
        self._parked: dict[asyncio.Future[None], None] = {}
        self._is_active = self._is_stopping = False
        self._first_of_reign: int | None = None
        """The offset whose commit makes this controller active; None while it does not lead."""
        self._more = asyncio.Event()
        self._settled = asyncio.Event()
        """Set while this controller is active or another one is known to lead."""
        self._following: asyncio.Task[None] | None = None
        self._snapshotting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the snapshot, join the quorum, and replay committed records."""
        self.committed = await self.quorum.load()
        self._learn_cluster()
        self.quorum.start(self)
        self._following = self.runtime.spawn(self._follow(), "metadata replay")

    async def hand_over(self) -> None:
        """Wait up to STOP_WITHIN_MS for pending commits, then let another controller take over."""
        self._is_stopping = True
        pending = [each.future for each in self._pending]
        if pending:
            await asyncio.wait(pending, timeout=STOP_WITHIN_MS / 1000)
        await self.quorum.resign()

    async def stop(self) -> None:
        """Hand over unless that is done, then close the log."""
        await self.hand_over()
        tasks = (self._snapshotting, self._following)
        await end_tasks(each for each in tasks if each is not None)
        await self.quorum.close()

    # Standby.

    async def _follow(self) -> None:
        """Replay committed records while this controller is not active."""
        while True:
            self._more.clear()
            if not self._is_active:
                await self._catch_up()
                self._maybe_activate()
                self._maybe_snapshot()
            if self._is_active or self.committed.offset + 1 >= self.quorum.high_watermark:
                await self._more.wait()

    async def _catch_up(self) -> None:
        quorum, image = self.quorum, self.committed
        if image.offset + 1 < quorum.log_start_offset:
            image = self.committed = await quorum.load()
            if image.offset + 1 < quorum.log_start_offset:
                raise InvariantViolation("the metadata log begins later than its snapshot ends")
        while image.offset + 1 < quorum.high_watermark and image is self.committed:
            data = await quorum.read(image.offset + 1, LOAD_BYTES)
            if not data:
                # The log is being opened again, or begins later now, after a snapshot.
                await asyncio.sleep(READ_AGAIN_MS / 1000)
                return
            for batch in decode_batches(data):
                # A read begins with the batch that holds the offset: a snapshot may end in it.
                if batch.next_offset > image.offset + 1:
                    apply_batch(image, batch)
            self._learn_cluster()
            await asyncio.sleep(0)

    def _learn_cluster(self) -> None:
        known = self.committed.cluster_id
        if known is None or known == self.cluster_id:
            return
        if self.cluster_id is not None:
            why = f"the metadata log belongs to cluster {known}"
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
        self.cluster_id = known
        self._events.on_cluster_id(known)

    # Elections.

    def on_elected(self, epoch: int) -> None:
        """Append the epoch's first record. Nothing is decided before it is committed."""
        first: list[MetadataRecord] = []
        if self.quorum.log_end_offset == 0:
            cluster_id = self.cluster_id or uuid_to_text(self.runtime.rng.randbytes(16))
            first.extend(first_records(self.cluster, cluster_id))
            first.extend(self.founding)
        first.append(ControllerElected(self._config.node_id, epoch))
        self._first_of_reign = self.quorum.append(first)
        self._settle()

    def _maybe_activate(self) -> None:
        first, image = self._first_of_reign, self.committed
        if first is None or self._is_active or image.offset < first or not self.quorum.is_leader:
            return
        self.cluster.image = image.copy()
        self._is_active = True
        self.leases.restart(list(image.brokers.values()), self.runtime.monotonic_ms())
        self._events.on_active()
        self._settle()
        log.info(
            "active in epoch %d: %d brokers, %d topics, metadata up to offset %d",
            image.epoch,
            len(image.brokers),
            len(image.topics),
            image.offset,
        )

    def on_deposed(self, why: str) -> None:
        """Drop uncommitted decisions and fail their answers, none of which was sent."""
        was_active, self._first_of_reign = self._is_active, None
        self._fail_pending(why)
        if was_active:
            self.leases.restart([], self.runtime.monotonic_ms())
            self._events.on_inactive()
        self._wake_parked()
        self._more.set()

    def on_leader_changed(self) -> None:
        """Wake the requests that wait for a leader, if one is known now."""
        self._settle()

    def _settle(self) -> None:
        others = self.quorum.leader_id not in (-1, self._config.node_id)
        if self._is_active or others:
            self._settled.set()
        else:
            self._settled.clear()

    async def wait_until_settled(self, max_wait_ms: int) -> None:
        """Wait until a controller is known to be active, or for `max_wait_ms`."""
        await happens_within(self._settled, max_wait_ms)

    # Decisions.

    async def decide(self, decide: Callable[[Cluster], Decision[A]]) -> A:
        """Decide on the newest state; return the answer once that state is committed.

        Raise ApiError if this controller is not active, or if too many answers are pending.
        """
        self.check_active()
        if len(self._pending) >= PENDING_ANSWERS_MAX:
            # Before deciding, so that a refused request changes nothing.
            detail = f"{PENDING_ANSWERS_MAX} answers wait for the metadata log: try again later"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)
        return await self.submit(decide(self.cluster))

    @property
    def is_active(self) -> bool:
        """True if this controller may decide: it leads, is up to date, and is not stopping."""
        return self._is_active and not self._is_stopping

    @property
    def pending_count(self) -> int:
        """The number of answers that wait for a commit."""
        return len(self._pending)

    def check_active(self) -> None:
        """Raise ApiError NOT_CONTROLLER unless this controller may decide."""
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active: try again")

    def submit(self, decision: Decision[A]) -> "asyncio.Future[A]":
        """Append and replay a decision; the future gets its answer at the commit.

        No other decision may be made between a decision and its `submit`.
        """
        self.check_active()
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        if decision.records:
            first = self.cluster.next_offset
            last = self.quorum.append(decision.records)
            if last != first + len(decision.records) - 1:
                raise InvariantViolation(f"decided for offset {first}, appended up to {last}")
            delta = Delta()
            for offset, record in enumerate(decision.records, first):
                self.cluster.image.apply(record, offset, delta)
                self._replayed.append((offset, record))
            self.tally.on_appended(decision.records, last, self.runtime.monotonic_us())
            self._events.on_replayed(decision.records, delta)
        end_offset = self.quorum.log_end_offset
        if end_offset <= self.quorum.high_watermark:
            future.set_result(decision.answer)
        else:
            self._pending.append(_Pending(end_offset, decision.answer, future))
        return future

    def carry_out(self, decision: Decision[object]) -> None:
        """Append a decision whose answer nobody needs; raise ApiError if not active."""
        if decision.records:
            future = self.submit(decision)
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_lease_expired(self, expired: LeaseExpired) -> None:
        """Fence the broker whose lease expired, if this controller is active."""
        broker_id, broker_epoch = expired.broker_id, expired.broker_epoch
        if not self.is_active:
            return
        decision = fence_expired(self.cluster, broker_id, broker_epoch)
        if decision.records:
            log.warning("fencing broker %d: %s", broker_id, expired.reason)
            self.tally.leases_expired += 1
            self.carry_out(decision)

    # The quorum's listener.

    def on_committed(self, high_watermark: int) -> None:
        """Send the answers that waited for this commit, wake fetches, maybe write a snapshot."""
        if not self._is_active:
            self._more.set()
            return
        replayed: list[MetadataRecord] = []
        while self._replayed and self._replayed[0][0] < high_watermark:
            offset, record = self._replayed.popleft()
            self.tally.on_committing(self.committed, record)
            self.committed.apply(record, offset)
            replayed.append(record)
        self.tally.on_committed(high_watermark, self.runtime.monotonic_us())
        while self._pending and self._pending[0].high_watermark <= high_watermark:
            pending = self._pending.popleft()
            if not pending.future.done():
                pending.future.set_result(pending.answer)
        self._wake_parked()
        _log_changes(self.committed, replayed)
        self._maybe_snapshot()

    def _wake_parked(self) -> None:
        parked, self._parked = self._parked, {}
        for future in parked:
            if not future.done():
                future.set_result(None)

    def _fail_pending(self, why: str) -> None:
        self._is_active = False
        self._replayed.clear()
        self.tally.on_deposed()
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.future.done():
                each.future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, why))

    def on_quorum_failed(self, why: str) -> None:
        """Fail all pending answers and end the process, as the log cannot be trusted any more."""
        self._fail_pending(why)
        self._wake_parked()
        self._events.on_failed(why)

    async def wait_for_metadata(self, offset: int, max_wait_ms: int) -> None:
        """Wait until a record is committed at `offset`, or for `max_wait_ms`."""
        if offset < self.quorum.high_watermark or max_wait_ms <= 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[future] = None
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await future
        except TimeoutError:
            return
        finally:
            self._parked.pop(future, None)

    # Snapshots.

    def _maybe_snapshot(self) -> None:
        if self.quorum.unsnapshotted_bytes < self._config.snapshot_interval_bytes:
            return
        if self._snapshotting is None or self._snapshotting.done():
            image = self.committed.copy()
            writing = self.quorum.write_snapshot(image)
            self._snapshotting = self.runtime.spawn(writing, "metadata snapshot")


def _log_changes(image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
    """Log a line for each changed broker, and the numbers of partitions whose leader changed."""
    led = unclean = leaderless = away = 0
    for record in records:
        match record:
            case BrokerChangeRecord(broker_id=broker_id):
                broker = image.brokers[broker_id]
                state = "fenced" if broker.fenced else "unfenced"
                if broker.in_controlled_shutdown and not broker.fenced:
                    state = "in controlled shutdown"
                log.info("broker %d (epoch %d) is %s", broker_id, broker.broker_epoch, state)
            case UnregisterBrokerRecord(broker_id=broker_id):
                log.info("broker %d is unregistered", broker_id)
            case PartitionChangeRecord(directories=directories) if directories:
                away += 1
            case PartitionChangeRecord(leader=leader) if leader is not None:
                led += leader != NO_LEADER
                leaderless += leader == NO_LEADER
                unclean += bool(record.recovering)
    if led or leaderless:
        log.info("partitions with a new leader: %d, without a leader: %d", led, leaderless)
    if away:
        what = "bring its directories back, or allow unclean election"
        log.warning("the last copies of %d partitions are away with their broker: %s", away, what)
    if unclean:
        log.warning("elected uncleanly: %d; what only others had is lost", unclean)
