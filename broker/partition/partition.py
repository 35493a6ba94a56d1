"""One partition on this broker: one log, one role, and the order in which things happen to both.

Carries out the effects of `replica.leader` in the order they are returned; those of a follower
are carried out by `following`. Never waits: a cold page or a commit is handed back as something
to wait on. Appends are staged and written together; anything else writes them first.

    role         leader               follower               what changes it
    none         None                 None                   the first metadata, a lost directory
    leader       LeaderReplica        None                   metadata that names another leader
    follower     None                 FollowerReplica        metadata that names this broker
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.records.batch_header import TRANSACTIONAL_BIT
from ...protocol.records.record_checks import RefusedRecords, Verdict
from ...runtime.errors import StorageError
from ...storage.producer_state import ProducedBatch
from ...storage.topic_config import TopicConfig
from ..replica.follower import FollowerReplica
from ..replica.history import check_leader_epoch
from ..replica.leader import (
    Effects,
    EpochStarted,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderReplica,
    ProposeIsr,
)
from ..replica.state import PartitionMetadata
from . import intake, reading
from .hosted_replica import NO_ANSWERS
from .requests import READ_COMMITTED, Appended, FetchAnswer, FetchSpec, OffsetAnswer
from .transactional_replica import TransactionalReplica
from .verification import Verification
from .waiters import CommitWaiters, Waiter

log = logging.getLogger(__name__)

ALL = -1


class Partition(TransactionalReplica):
    """A replica in its role."""

    __slots__ = ()

    # Producing.

    def append_as_leader(
        self,
        records: memoryview,
        *,
        acks: int,
        wall_ms: int,
        guard: Verification | None = None,
        verdict: Verdict | None = None,
    ) -> Appended:
        """Check everything, stamp in place and stage; final after `Partitions.write_staged`.

        `records` must stay as it is until then. `guard` is what `needs_verification` gave for a
        batch that begins a transaction here, `verdict` a worker's on one that `needs_opening`.
        """
        leader = self.leader
        if leader is None or (acks != ALL and self.has_no_lease):
            return Appended(self._error_without_role())
        if acks == ALL and not leader.has_min_isr:
            return Appended(ErrorCode.NOT_ENOUGH_REPLICAS)
        rules = self._rules
        try:
            header = intake.check(records, rules, wall_ms, self._host.openings, verdict)
        except ApiError as error:
            named = error.record_errors if isinstance(error, RefusedRecords) else ()
            return Appended(error.code, message=error.detail, record_errors=named)
        except intake.NeedsOpening as needed:
            return Appended(ErrorCode.UNKNOWN_SERVER_ERROR, needs_opening=needed.rules)
        if header.producer_id >= 0:
            if header.attributes & TRANSACTIONAL_BIT:
                known = self._check_transactional(header, guard)
            else:
                known = self.log.producers.check(header)
            if known is not None:
                return self._answer_known(known)
        return self._stage(leader, records, header, wall_ms)

    def write_staged(self) -> None:
        """Write what is staged in one go; its appends are final for acks=1 afterwards."""
        staged, answers = self._staged, self._staged_answers
        if staged is None:
            return
        self._staged, self._staged_answers = None, NO_ANSWERS
        try:
            self.log.append(staged)
        except StorageError as error:
            for appended in answers:
                appended.error = ErrorCode.KAFKA_STORAGE_ERROR
            self.on_storage_error(error)
            return
        leader = self.leader
        if leader is not None:
            effects = leader.on_appended(self._next_offset, self._host.monotonic_ms())
            if effects:
                self.carry_out(effects)
        if self.metadata.group_flush:
            self._host.flush_soon(self)
        if self._data_waiters:
            self._wake(followers_only=True)

    def when_committed(
        self, appended: Appended, deadline_ms: int, done: Callable[[], None]
    ) -> Waiter | None:
        """Call `done` once `appended` is final for acks=all; at once, with None, if it is."""
        leader = self.leader
        if leader is None and not appended.error:
            appended.error = self._error_without_role()
        if leader is None or appended.error:
            done()
            return None
        offset = appended.last_offset + 1
        if offset <= self.high_watermark:
            if not leader.commits_with_min_isr:
                appended.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            done()
            return None
        if self._commit_waiters is None:
            self._commit_waiters = CommitWaiters(self._host.wheel)
        waiter = Waiter(offset, appended, deadline_ms, done)
        self._commit_waiters.add(waiter)
        return waiter

    def _answer_known(self, known: ProducedBatch | ErrorCode) -> Appended:
        """A repeat gets the answer of the first time; a gap in the sequence is refused."""
        if isinstance(known, ErrorCode):
            return Appended(known)
        append_time_ms = known.timestamp if self._rules.is_log_append_time else -1
        start = self.log.log_start_offset
        first, last = known.base_offset, known.last_offset
        appended = Appended(ErrorCode.NONE, first, last, append_time_ms, start)
        if last >= self.log.log_end_offset and self._staged is not None:
            self._staged_answers.append(appended)  # It shares the fate of the staged original.
        return appended

    # Reading.

    def fetch(self, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        """Validate, read, and record the follower's progress, in one step (scenario B-29)."""
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
        """Offset for a timestamp or one of its negative names, below the high watermark."""
        error = self.refuse(current_leader_epoch)
        if error:
            return OffsetAnswer(error)
        is_committed = isolation == READ_COMMITTED
        is_replica = replica_id >= 0
        return reading.list_offset(
            self, timestamp, is_replica=is_replica, is_committed=is_committed
        )

    def end_offset_for_epoch(
        self, epoch: int, *, current_leader_epoch: int = -1, replica_id: int = -1
    ) -> OffsetAnswer:
        """End offset of the newest epoch of ours that is at most `epoch`; -1 if unknown.

        Not bounded by the high watermark: a new leader's may be older than what a consumer has
        read, and a bounded answer would look like a truncation to it.
        """
        error = self.refuse(current_leader_epoch)
        if error:
            return OffsetAnswer(error)
        found = self.end_offset_for(epoch)
        if found is None:
            return OffsetAnswer()
        return OffsetAnswer(offset=found.offset, leader_epoch=found.epoch)

    def refuse(self, current_leader_epoch: int, *, leader_only: bool = True) -> ErrorCode:
        """Why a reader with this leader epoch gets nothing here; NONE if it may read."""
        if self.offline_because:
            return self.offline_because
        self.write_staged()
        error = self.validate_epoch(current_leader_epoch)
        if error:
            return error
        if self.leader is None and (leader_only or self.follower is None):
            return self._error_without_role()
        return ErrorCode.NONE

    def validate_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NONE; -1 asks for no check."""
        return check_leader_epoch(current_leader_epoch, self.metadata.leader_epoch)

    def _wake(self, *, followers_only: bool = False) -> None:
        for waiter in tuple(self._data_waiters or ()):
            if waiter.is_follower or not followers_only:
                waiter.on_data(self)

    def note_followers(self) -> None:
        """Followers that wait here for nothing else have to be looked at with their next fetch."""
        for waiter in tuple(self._data_waiters or ()):
            if waiter.is_follower:
                waiter.note(self)

    def is_followed_to_the_end(self, follower: int) -> bool:
        """Is it in the ISR, with all that we have? Then its fetches prove nothing new."""
        leader = self.leader
        return leader is not None and leader.is_followed_to_the_end(follower)

    # Changes of role.

    def on_metadata(self, metadata: PartitionMetadata) -> None:
        """The controller's newest record of this partition; an older one changes nothing."""
        if metadata.partition_epoch <= self.metadata.partition_epoch or self.offline_because:
            return
        self.write_staged()
        changes_epoch = metadata.leader_epoch != self.metadata.leader_epoch
        self.metadata = metadata
        if metadata.leader == self._host.broker_id:
            self._lead(metadata)
        else:
            self._follow(metadata)
        self.flush_if_behind()
        if changes_epoch:
            self._wake()
            self._host.on_role_changed(self)

    def on_config(self, config: TopicConfig) -> None:
        """The topic's settings changed."""
        self.log.reconfigure(config)
        self._rules = intake.rules_of(config)
        min_isr = config.min_insync_replicas
        group = config.is_group_flush
        self.metadata = replace(self.metadata, min_isr=min_isr, group_flush=group)
        self.flush_if_behind()
        if self.leader is not None:
            now_ms = self._host.monotonic_ms()
            changed = self.leader.on_settings_changed
            self.carry_out(changed(min_isr, group_flush=group, now_ms=now_ms))
            self.note_followers()

    def on_brokers_changed(self) -> None:
        """Somebody died or returned."""
        if self.leader is not None:
            self.carry_out(self.leader.on_brokers_changed(self._host.monotonic_ms()))

    def go_offline(self, error: ErrorCode) -> None:
        """The role ends for good: the directory failed, or the topic is gone."""
        self.offline_because = error
        self.leader = self.follower = None
        self._end_verifications()
        for appended in self._staged_answers:
            appended.error = error
        self._staged, self._staged_answers = None, NO_ANSWERS
        if self._commit_waiters is not None:
            self._commit_waiters.fail(error)
        self._fail_flush_waiters(error)
        self._wake()
        self._host.on_role_changed(self)

    def on_storage_error(self, error: StorageError) -> None:
        """The disk failed us: whoever owns the directory decides what goes with it."""
        self._host.on_storage_error(self, error)

    def _lead(self, metadata: PartitionMetadata) -> None:
        host = self._host
        if self.leader is None:
            self.follower = None
            self.leader = LeaderReplica(
                host.broker_id, host.brokers, host.lag_max_ms, self.high_watermark
            )
            self.leader.flushed_offset = self.log.flushed_offset
        self._next_offset = end = self.log.log_end_offset
        if metadata.recovering:
            log.warning("%r: elected uncleanly: what was committed from %d on is gone", self, end)
        self.carry_out(self.leader.on_metadata(metadata, end, host.monotonic_ms()))

    def _follow(self, metadata: PartitionMetadata) -> None:
        if self.leader is not None:
            self.leader = None
            self._end_verifications()
            if self._commit_waiters is not None:
                self._commit_waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._fail_flush_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.follower is None:
            self.follower = FollowerReplica(self.high_watermark)
        self.follower.on_metadata(metadata)

    # Effects.

    def carry_out(self, effects: Effects) -> None:
        """Do what the leader decided, in order; a failing disk ends the role."""
        for effect in effects:
            match effect:
                case HighWatermarkAdvanced(offset):
                    self.move_high_watermark(offset)
                case ProposeIsr():
                    self._host.propose(self, effect)
                case IsrChanged(isr):
                    log.info("%r: isr is %s", self, list(isr))
                    assert self.leader is not None
                    self.metadata = self.leader.metadata
                    self.note_followers()
                case EpochStarted(epoch, start_offset):
                    log.info("%r: leading epoch %d from offset %d", self, epoch, start_offset)
                    try:
                        self.log.assign_epoch(epoch, start_offset)
                    except StorageError as error:
                        self.on_storage_error(error)
                        return
                case _:
                    assert_never(effect)

    def move_high_watermark(self, offset: int) -> None:
        """Note it for the checkpoint, answer producers, wake consumers."""
        self.high_watermark = offset
        self._host.moved[self] = None
        if self.log.producers.unsettled is not None:
            self.log.producers.settle(offset)
        waiters = self._commit_waiters
        if waiters is not None and waiters and self.leader is not None:
            enough = self.leader.commits_with_min_isr
            short = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            waiters.complete(offset, ErrorCode.NONE if enough else short)
        for waiter in tuple(self._data_waiters or ()):
            if waiter.is_follower:
                waiter.note(self)
            else:
                waiter.on_data(self)
