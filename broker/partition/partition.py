"""One partition on this broker: one log, one role, and the order in which things happen to both.

Its parts keep state of their own: `Staging` the appends to be written, `Verifications` the
transactions that are about to begin here, `CommitWaiters` the producers that wait and `DataWaiters`
the fetches that wait. Other modules have functions on a partition: `reading` answers its readers,
`own_batches` appends what a coordinator writes, and `log_starts` moves its log start. `leading`
carries out a leader's effects, and `replication.following` those of a follower.

A partition never waits: for a cold page or a commit it returns an object that the caller can wait
for. Appends are staged and written together; reads and new metadata first write the staged batches.

    role               leader       follower     what changes it
    NoRole             None         None         the first metadata
    LeaderReplica      the role     None         metadata that names another leader; going offline
    FollowerReplica    None         the role     metadata that names this broker; going offline

The role keeps the newest metadata and the high watermark; the log keeps its own end.
"""

import logging
from collections.abc import Callable

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.produce import ACKS_ALL
from ...protocol.records.batch_header import TRANSACTIONAL_BIT
from ...protocol.records.record_checks import Verdict
from ...protocol.types import NO_LEADER, TopicIdPartition, TopicPartition
from ...runtime.errors import StorageError
from ...storage.log import Log
from ...storage.topic_config import TopicConfig
from ..replica.follower import FollowerReplica
from ..replica.leader import LeaderReplica
from ..replica.state import NoRole, PartitionMetadata
from ..tracing.tracer import Trace
from . import intake, reading
from .host import Host
from .leading import carry_out
from .requests import Appended, FetchAnswer, FetchSpec, OffsetAnswer
from .staging import NO_ANSWERS, Staging
from .verification import Verification, Verifications
from .waiters import CommitWaiters, DataWaiters, Waiter

log = logging.getLogger(__name__)

Role = LeaderReplica | FollowerReplica | NoRole
"""The role of the replica, which keeps the newest metadata and the high watermark."""


class Partition:
    """The replica of one partition that this broker holds."""

    __slots__ = (
        "_commit_waiters",
        "data_waiters",
        "follower",
        "host",
        "index",
        "key",
        "leader",
        "log",
        "offline_because",
        "role",
        "rules",
        "staging",
        "topic",
        "topic_id",
        "traced",
        "traffic",
        "verifications",
    )

    def __init__(
        self, host: Host, key: TopicIdPartition, name: TopicPartition, log: Log, committed: int = 0
    ) -> None:
        """`committed` is the high watermark in the checkpoint, which may be older than the log."""
        self.host, self.log = host, log
        self.key, self.topic_id = key, key.topic_id
        self.topic, self.index = name
        committed = min(max(committed, log.log_start_offset), log.log_end_offset)
        self._become(NoRole(PartitionMetadata(NO_LEADER, -1, -1, (), ()), committed))
        self.offline_because = ErrorCode.NONE
        """The error that answers every request once the replica is offline; NONE before."""
        self.rules = intake.rules_of(log.config)
        self.traffic = None if host.traffic is None else host.traffic.of(self.topic)
        self.staging = Staging(log, self.traffic)
        self.verifications, self.data_waiters = Verifications(), DataWaiters()
        self._commit_waiters: CommitWaiters | None = None
        self.traced: Trace | None = None
        log.producers.settle(committed)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def metadata(self) -> PartitionMetadata:
        """The controller's newest record of this partition; the role keeps it."""
        return self.role.metadata

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are committed; the role keeps it."""
        return self.role.high_watermark

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch known here."""
        return self.role.metadata.leader_epoch

    @property
    def error_without_leader(self) -> ErrorCode:
        """The error for requests that only a leader may answer, when this broker does not lead."""
        return self.offline_because or ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def last_stable_offset(self) -> int:
        """The offset below which all transactions are decided; read_committed reads up to it."""
        return reading.last_stable_offset(self.log, self.high_watermark)

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record written to the log gets."""
        return self.log.log_end_offset

    # Producing.

    def append_as_leader(
        self,
        records: memoryview,
        acks: int,
        wall_ms: int,
        guard: Verification | None = None,
        verdict: Verdict | None = None,
    ) -> Appended:
        """Check a batch, stamp it in place and stage it; `write_staged` makes the result final.

        `records` must not change until then. `guard` is the result of `needs_verification`, if the
        batch begins a transaction here. Raise NeedsOpening if a worker must judge the batch first;
        the next call passes the worker's `verdict`.
        """
        leader = self.leader
        if leader is None or (acks != ACKS_ALL and self.host.lacks_lease()):
            return Appended(self.error_without_leader)
        if acks == ACKS_ALL and not leader.has_min_isr:
            return self.staging.refuse(Appended(ErrorCode.NOT_ENOUGH_REPLICAS))
        if self.staging.is_full:
            return self.staging.refuse(Appended(ErrorCode.POLICY_VIOLATION))
        rules = self.rules
        try:
            header = intake.check(records, rules, wall_ms, self.host.openings, verdict)
        except ApiError as error:
            return self.staging.refuse(Appended.refusing(error), len(records))
        if header.producer_id >= 0:
            if header.attributes & TRANSACTIONAL_BIT:
                known = self.verifications.check(self.log.producers, header, guard)
            else:
                known = self.log.producers.check(header)
            if known is not None:
                return self.staging.answer_known(known, rules)
        staging = self.staging
        if staging.batches is None:
            self.host.dirty.append(self)
        return staging.add(records, header, leader.metadata.leader_epoch, rules, wall_ms)

    def write_staged(self) -> None:
        """Write all staged batches; then acks=1 is done, unless it waits for a flush."""
        staging = self.staging
        batches = staging.batches
        if batches is None:
            return
        answers = staging.answers
        staging.batches, staging.answers = None, NO_ANSWERS
        try:
            size = self.log.append(batches, are_observed=True)
        except StorageError as error:
            for appended in answers:
                appended.error = ErrorCode.KAFKA_STORAGE_ERROR
            self.on_storage_error(error)
            return
        if self.traffic is not None and len(batches) > 1:
            self.traffic.on_more(batches, size)
        leader = self.leader
        if leader is not None:
            effects = leader.on_appended(self.log.log_end_offset, self.host.monotonic_ms())
            if effects:
                carry_out(self, effects)
            if leader.metadata.group_flush:
                self.host.group_flush.soon(self)
        if self.data_waiters.waiting:
            self.data_waiters.on_appended(self)

    def when_committed(
        self, appended: Appended, deadline_ms: int, done: Callable[[], None]
    ) -> Waiter | None:
        """Call `done` once `appended` is committed or failed; return None if it is so already."""
        leader = self.leader
        if leader is None and not appended.error:
            appended.error = self.error_without_leader
        if leader is None or appended.error:
            done()
            return None
        offset = appended.last_offset + 1
        if offset <= leader.high_watermark:
            if not leader.commits_with_min_isr:
                appended.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            done()
            return None
        if self._commit_waiters is None:
            self._commit_waiters = CommitWaiters(self.host.wheel)
        waiter = Waiter(offset, appended, deadline_ms, done)
        self._commit_waiters.add(waiter)
        return waiter

    def needs_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, raises_epoch: bool = False
    ) -> Verification | None:
        """Return the `guard` of a batch that begins a transaction; None if one is already open.

        The batch waits in it (`Verification.join`) while the coordinator is asked. `raises_epoch`
        is True if each transaction of the client has its own epoch (Produce 12 and later).
        """
        if self.log.producers.has_open_transaction(producer_id, producer_epoch):
            return None
        attempt = Verification(
            producer_epoch, sequence, self.host.monotonic_ms(), raises_epoch=raises_epoch
        )
        return self.verifications.begin(producer_id, attempt)

    # Reading.

    def fetch(self, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        """Check a fetch, read, and record a follower's progress in one step (scenario B-29)."""
        self.write_staged()
        return reading.fetch(self, spec, now_ms)

    def list_offset(
        self,
        timestamp: int,
        *,
        current_leader_epoch: int = -1,
        isolation: int = 0,
        replica_id: int = -1,
    ) -> OffsetAnswer:
        """Return the offset of a timestamp (ms), or of a negative constant such as LATEST (-1)."""
        self.write_staged()
        if error := reading.refuse(self, current_leader_epoch):
            return OffsetAnswer(error)
        return reading.list_offset(self, timestamp, isolation, is_replica=replica_id >= 0)

    def end_offset_for_epoch(self, epoch: int, *, current_leader_epoch: int = -1) -> OffsetAnswer:
        """Return the end of the newest epoch in the log that is at most `epoch`; -1 if unknown."""
        self.write_staged()
        return reading.end_offset_for_epoch(self, epoch, current_leader_epoch)

    # Changes of role.

    def on_metadata(self, metadata: PartitionMetadata) -> None:
        """Apply the controller's newest record of this partition; ignore an older one."""
        if metadata.partition_epoch <= self.metadata.partition_epoch or self.offline_because:
            return
        self.write_staged()
        changes_epoch = metadata.leader_epoch != self.leader_epoch
        if metadata.leader == self.host.broker_id:
            self._lead(metadata)
        else:
            self._follow(metadata)
        self.host.group_flush.catch_up(self)
        if changes_epoch:
            self.data_waiters.wake(self)
            self.host.on_role_changed(self)

    def on_config(self, config: TopicConfig) -> None:
        """Apply the topic's new settings."""
        self.log.reconfigure(config)
        self.rules = intake.rules_of(config)
        min_isr, group = config.min_insync_replicas, config.is_group_flush
        if self.follower is not None:
            self.follower.on_settings_changed(min_isr, group_flush=group)
            self.host.group_flush.catch_up(self)
        if self.leader is not None:
            now_ms = self.host.monotonic_ms()
            changed = self.leader.on_settings_changed
            effects = changed(min_isr, group_flush=group, now_ms=now_ms)
            self.host.group_flush.catch_up(self)
            carry_out(self, effects)
            self.data_waiters.note_followers(self)

    def go_offline(self, error: ErrorCode) -> None:
        """End the role for good, because the directory failed or the topic is deleted."""
        self.offline_because = error
        self._become(NoRole(self.metadata, min(self.high_watermark, self.log.log_end_offset)))
        self.staging.fail(error)
        self._end_leadership(error)
        self.data_waiters.wake(self)
        self.host.on_role_changed(self)

    def on_high_watermark_moved(self, offset: int) -> None:
        """Note the high watermark for the checkpoint, answer producers, wake consumers."""
        self.host.moved[self] = None
        if self.log.producers.unsettled is not None:
            self.log.producers.settle(offset)
        waiters = self._commit_waiters
        if waiters is not None and waiters and self.leader is not None:
            enough = self.leader.commits_with_min_isr
            short = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            waiters.complete(offset, ErrorCode.NONE if enough else short)
        if self.data_waiters.waiting:
            self.data_waiters.on_committed(self)

    def on_storage_error(self, error: StorageError) -> None:
        """Report a failure of the log to the broker, which takes it or its directory offline."""
        self.host.on_storage_error(self, error)

    def _lead(self, metadata: PartitionMetadata) -> None:
        host, leader, end = self.host, self.leader, self.log.log_end_offset
        if leader is None:
            known = self.high_watermark
            leader = LeaderReplica(host.broker_id, host.brokers, host.lag_max_ms, known)
            leader.flushed_offset = self.log.flushed_offset
        if metadata.recovering:
            log.warning("%r: elected uncleanly: what was committed from %d on is gone", self, end)
        effects = leader.on_metadata(metadata, end, host.monotonic_ms())
        self._become(leader)
        carry_out(self, effects)

    def _follow(self, metadata: PartitionMetadata) -> None:
        has_led = self.leader is not None
        follower = self.follower or FollowerReplica(self.high_watermark)
        follower.on_metadata(metadata)
        self._become(follower)
        if has_led:
            self._end_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _become(self, role: Role) -> None:
        self.role = role
        self.leader = role if isinstance(role, LeaderReplica) else None
        self.follower = role if isinstance(role, FollowerReplica) else None

    def _end_leadership(self, error: ErrorCode) -> None:
        """Answer waiting producers with `error`; their records may still be committed."""
        self.verifications.end_leadership()
        if self._commit_waiters is not None:
            self._commit_waiters.fail(error)
        self.host.group_flush.fail(self, error)
