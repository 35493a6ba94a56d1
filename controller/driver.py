"""The active controller: turns decisions into appended, replayed and committed records.

One loop, no locks. `decide` runs a decision against the newest image, appends its records and
replays them at once, so that the next decision sees them; the answer waits for the commit. An
answer without records waits for the newest pending offset: it may rest on what is not committed.
Brokers are told only what is committed. A lost append fails every pending answer, and the image
is loaded again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..protocol.control.image import MetadataImage
from ..protocol.control.records import (
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    BrokerChangeRecord,
    ClusterRecord,
    ControllerElected,
    FeatureRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import NO_LEADER
from ..runtime.errors import InvariantViolation
from ..runtime.runtime import Runtime
from .leases import LeaseExpired, Leases
from .metadata.brokers import fence_expired
from .metadata.decision import Cluster, Decision, Defaults
from .quorum.interface import Quorum

A = TypeVar("A")

PENDING_ANSWERS_MAX: Final = 10_000
LOAD_AGAIN_MS: Final = 500
"""Pause after a lost append: a full disk does not empty at once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the driver takes from the configuration."""

    node_id: int
    cluster_id: str
    session_ms: int
    snapshot_interval_bytes: int
    defaults: Defaults


@dataclass(slots=True)
class _Pending:
    """An answer, and the high watermark it waits for."""

    high_watermark: int
    answer: Any
    future: "asyncio.Future[Any]"


class Controller:
    """Decides, and drives what follows from it."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: Quorum,
        settings: Settings,
        *,
        on_failed: Callable[[str], None],
    ) -> None:
        """`on_failed` ends the process: this node's log cannot be trusted any more."""
        self.runtime = runtime
        self.quorum = quorum
        self.settings = settings
        self.leases = Leases(settings.session_ms)
        self.on_failed = on_failed
        self.on_active: Callable[[], None] = lambda: None
        """Told each time this controller has become active."""
        self.on_replayed: Callable[[Sequence[MetadataRecord]], None] = lambda records: None
        """Told of records as soon as decisions see them."""
        self.cluster = Cluster(MetadataImage(), settings.defaults)
        """As of the newest append: for decisions only."""
        self.committed = MetadataImage()
        """As of the last commit: for everything that leaves this process."""
        self._replayed: deque[tuple[int, MetadataRecord]] = deque()
        self._pending: deque[_Pending] = deque()
        self._parked: dict[asyncio.Future[None], None] = {}
        self._is_active = False
        self._snapshotting: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the metadata, begin the new epoch, and be active once that is committed."""
        self.quorum.start(self)
        await self._become_active()

    async def _become_active(self) -> None:
        image = await self.quorum.load()
        if image.cluster_id not in (None, self.settings.cluster_id):
            why = f"the metadata log belongs to cluster {image.cluster_id}"
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
        self.cluster.image = image
        self.committed = image.copy()
        self._is_active = True
        first: list[MetadataRecord] = []
        if image.cluster_id is None:
            level = SUPPORTED_FEATURES[METADATA_VERSION].highest
            first.append(ClusterRecord(self.settings.cluster_id))
            first.append(FeatureRecord(METADATA_VERSION, level))
        epoch = self.quorum.epoch
        first.append(ControllerElected(self.settings.node_id, epoch))
        await self.submit(Decision(None, first))
        self.leases.restart(list(image.brokers.values()), self.runtime.monotonic_ms())
        self.on_active()
        log.info(
            "active in epoch %d: %d brokers, %d topics, metadata up to offset %d",
            epoch,
            len(image.brokers),
            len(image.topics),
            image.offset,
        )

    async def stop(self) -> None:
        """Answer what can still be committed, then close the log."""
        pending = [each.future for each in self._pending]
        self._is_active = False
        if pending:
            await asyncio.wait(pending)
        tasks = [each for each in (self._snapshotting, self._loading) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.quorum.close()

    # Decisions.

    async def decide(self, decide: Callable[[Cluster], Decision[A]]) -> A:
        """Decide on the newest state; return the answer once everything it rests on is stable."""
        self.check_active()
        if len(self._pending) >= PENDING_ANSWERS_MAX:
            # Before anything is decided: what is refused has not happened.
            detail = f"{PENDING_ANSWERS_MAX} answers wait for the metadata log: try again later"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)
        return await self.submit(decide(self.cluster))

    @property
    def is_active(self) -> bool:
        """May decisions be made here?"""
        return self._is_active

    def check_active(self) -> None:
        """ApiError NOT_CONTROLLER while nothing can be decided here."""
        if not self._is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active: try again")

    def submit(self, decision: Decision[A]) -> "asyncio.Future[A]":
        """Append and replay; the future has the answer at commit. Decide and submit in one step."""
        self.check_active()
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        if decision.records:
            first = self.cluster.next_offset
            last = self.quorum.append(decision.records)
            if last != first + len(decision.records) - 1:
                raise InvariantViolation(f"decided for offset {first}, appended up to {last}")
            for offset, record in enumerate(decision.records, first):
                self.cluster.image.apply(record, offset)
                self._replayed.append((offset, record))
            self.on_replayed(decision.records)
        end_offset = self.quorum.log_end_offset
        if end_offset <= self.quorum.high_watermark:
            future.set_result(decision.answer)
        else:
            self._pending.append(_Pending(end_offset, decision.answer, future))
        return future

    def on_lease_expired(self, expired: LeaseExpired) -> None:
        """Fence the broker; without a log to write to, its lease will expire again."""
        broker_id, broker_epoch = expired.broker_id, expired.broker_epoch
        if not self._is_active:
            return
        decision = fence_expired(self.cluster, broker_id, broker_epoch)
        if decision.records:
            log.warning("fencing broker %d: %s", broker_id, expired.reason)
            future = self.submit(decision)
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    # The quorum's listener.

    def on_committed(self, high_watermark: int) -> None:
        """Answer, tell brokers, and now and then keep a snapshot."""
        replayed: list[MetadataRecord] = []
        while self._replayed and self._replayed[0][0] < high_watermark:
            offset, record = self._replayed.popleft()
            self.committed.apply(record, offset)
            replayed.append(record)
        while self._pending and self._pending[0].high_watermark <= high_watermark:
            pending = self._pending.popleft()
            if not pending.future.done():
                pending.future.set_result(pending.answer)
        parked, self._parked = self._parked, {}
        for future in parked:
            if not future.done():
                future.set_result(None)
        _log_changes(self.committed, replayed)
        self._maybe_snapshot()

    def on_append_lost(self, why: str) -> None:
        """Nothing that was not committed ever happened."""
        log.error("metadata was not written: %s", why)
        self._fail_pending(why)
        self._loading = self.runtime.spawn(self._become_active_again(), "load metadata")

    def _fail_pending(self, why: str) -> None:
        self._is_active = False
        self._replayed.clear()
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.future.done():
                each.future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, why))

    async def _become_active_again(self) -> None:
        await asyncio.sleep(LOAD_AGAIN_MS / 1000)
        try:
            await self._become_active()
        except ApiError as error:
            # The next append was lost too; that loss has started the next attempt.
            log.error("%s", error)

    def on_quorum_failed(self, why: str) -> None:
        """End: nobody may take an answer from here for good."""
        self._fail_pending(why)
        self.on_failed(why)

    async def wait_for_metadata(self, offset: int, max_wait_ms: int) -> None:
        """Return when something is committed at `offset`, or after the time given."""
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
        if self.quorum.unsnapshotted_bytes < self.settings.snapshot_interval_bytes:
            return
        if self._snapshotting is None or self._snapshotting.done():
            image = self.committed.copy()
            writing = self.quorum.write_snapshot(image)
            self._snapshotting = self.runtime.spawn(writing, "metadata snapshot")


def _log_changes(image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
    """One line for each broker that changed, and one for the partitions with it."""
    led = unclean = leaderless = away = 0
    for record in records:
        match record:
            case BrokerChangeRecord(broker_id=broker_id):
                broker = image.brokers[broker_id]
                state = "fenced" if broker.fenced else "unfenced"
                if broker.in_controlled_shutdown and not broker.fenced:
                    state = "in controlled shutdown"
                log.info("broker %d (epoch %d) is %s", broker_id, broker.broker_epoch, state)
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
