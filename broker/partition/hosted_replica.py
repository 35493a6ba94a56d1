"""What a replica on this broker is before it has a role: identity, log, metadata, who waits for it.

`Partition` gives it a role and moves it; this holds what any reader may look at. Nothing here
changes the log.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...client.net.refusals import Refusals
from ...protocol.errors import ErrorCode
from ...protocol.records.record_batch import BatchHeader
from ...protocol.types import NO_LEADER, OffsetAndEpoch, TopicIdPartition, TopicPartition
from ...runtime.errors import StorageError
from ...storage.log import Log
from ..deadlines import Deadlines
from ..replica.follower import FollowerReplica
from ..replica.leader import LeaderReplica, ProposeIsr
from ..replica.lease import LeaderLease
from ..replica.state import KnownBrokers, PartitionMetadata
from ..replica.throttle import Throttle, Throttles, names
from . import intake
from .requests import Appended, DataWaiter
from .verification import Verifications
from .waiters import CommitWaiters

if TYPE_CHECKING:
    from .partition import Partition


NO_ANSWERS: Final[list[Appended]] = []
"""Stands in while nothing is staged: an idle partition has no list of its own. Never changed."""


@dataclass(slots=True)
class Host:
    """What all partitions of a broker share."""

    broker_id: int
    wheel: Deadlines
    monotonic_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    lag_max_ms: int
    propose: Callable[["Partition", ProposeIsr], None]
    on_storage_error: Callable[["Partition", StorageError], None]
    flush_soon: Callable[["Partition"], None]
    on_role_changed: Callable[["Partition"], None] = lambda partition: None
    """Told after a new leader epoch, and after a partition went offline."""
    lease: LeaderLease = field(default_factory=LeaderLease)
    brokers: KnownBrokers = field(default_factory=KnownBrokers)
    throttles: Throttles = field(default_factory=Throttles)
    refusals: Refusals = field(default_factory=Refusals)
    openings: intake.Openings = field(default_factory=intake.Openings)
    dirty: list["Partition"] = field(default_factory=list)
    """Partitions with staged appends."""
    moved: dict["Partition", None] = field(default_factory=dict)
    """Partitions whose high watermark moved since the last checkpoint."""


class HostedReplica:
    """The replica of one partition that this broker holds."""

    __slots__ = (
        "_commit_waiters",
        "_data_waiters",
        "_flush_waiters",
        "_host",
        "_next_offset",
        "_rules",
        "_staged",
        "_staged_answers",
        "_verifications",
        "follower",
        "high_watermark",
        "index",
        "key",
        "leader",
        "log",
        "metadata",
        "offline_because",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        host: Host,
        key: TopicIdPartition,
        name: TopicPartition,
        log: Log,
        high_watermark: int = 0,
    ) -> None:
        """`high_watermark` is what the checkpoint says: it may be older than the log."""
        self._host = host
        self.topic_id = key.topic_id
        self.topic, self.index = name
        self.key = key
        self.log = log
        self.metadata = PartitionMetadata(NO_LEADER, -1, -1, (), ())
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.offline_because = ErrorCode.NONE
        """What everybody is answered once the directory failed or the topic is gone."""
        self._rules = intake.rules_of(log.config)
        self._next_offset = log.log_end_offset
        self._staged: list[tuple[BatchHeader, memoryview]] | None = None
        self._staged_answers: list[Appended] = NO_ANSWERS
        self._commit_waiters: CommitWaiters | None = None
        self._flush_waiters: CommitWaiters | None = None
        self._data_waiters: list[DataWaiter] | None = None
        self._verifications: Verifications | None = None
        log.producers.settle(self.high_watermark)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_id(self) -> int:
        """Who leads, as the newest metadata has it; -1 for nobody."""
        return self.metadata.leader

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch known here."""
        return self.metadata.leader_epoch

    @property
    def is_leader(self) -> bool:
        """Does this broker lead it?"""
        return self.leader is not None

    @property
    def has_no_lease(self) -> bool:
        """Is a lease needed to act as a leader, and not held?"""
        lease = self._host.lease
        return lease.is_required and not lease.is_held(self._host.monotonic_ms())

    @property
    def last_stable_offset(self) -> int:
        """All below it is decided: what readers of committed transactions may read.

        The first offset of the oldest transaction that is open, or whose marker is not below the
        high watermark; else the high watermark.
        """
        producers = self.log.producers
        if not producers.has_undecided:
            return self.high_watermark
        first = producers.first_undecided(self.high_watermark)
        return max(first, self.log.log_start_offset)

    @property
    def log_start_offset(self) -> int:
        """First readable offset."""
        return self.log.log_start_offset

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but never more than the replicas there are."""
        return self.metadata.effective_min_isr

    # The log as replication sees it (replica.history.LogView).

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        """Newest epoch in the leader-epoch file, or -1."""
        return self.log.leader_epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        """Newest epoch of the log that is at most `epoch`, and where it ends."""
        return self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)

    # Throttles: whoever is in the ISR is never held back (scenario B-28).

    def throttle_of_follower(self, follower: int) -> Throttle | None:
        """What bounds our serving this copy to that follower, None for nothing."""
        throttle = self._host.throttles.leader
        if not throttle.is_on or follower in self.metadata.isr:
            return None
        listed = self.log.config.leader_replication_throttled_replicas
        return throttle if names(listed, self.index, self._host.broker_id) else None

    @property
    def throttle(self) -> Throttle | None:
        """What bounds our fetching of this copy, None for nothing."""
        throttle, me = self._host.throttles.follower, self._host.broker_id
        if not throttle.is_on or me in self.metadata.isr:
            return None
        listed = self.log.config.follower_replication_throttled_replicas
        return throttle if names(listed, self.index, me) else None

    def note_refusal(self, follower: int, broker_epoch: int, why: str) -> None:
        """Say once that fetches of this start of a broker are refused."""
        text = "broker %d, epoch %d: its fetches are refused: " + why
        self._host.refusals.note((follower, broker_epoch), text, follower, broker_epoch)

    # Waiting for data.

    def on_data(self, waiter: DataWaiter) -> None:
        """Tell `waiter` of everything that may change a fetch's answer, until `remove`."""
        if self._data_waiters is None:
            self._data_waiters = [waiter]
        elif waiter not in self._data_waiters:
            self._data_waiters.append(waiter)

    def remove(self, waiter: DataWaiter) -> None:
        """Forget a waiter; unknown ones do no harm."""
        waiters = self._data_waiters
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                self._data_waiters = None
