"""A replica that can be appended to: batches get offset and epoch, and wait to be written.

Checks nothing of a client's batch; `Partition` does, and writes what is staged.
"""

from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import CONTROL_BIT, BatchHeader
from ..replica.leader import LeaderReplica
from . import intake
from .flushed_replica import FlushedReplica
from .requests import Appended

if TYPE_CHECKING:
    from .partition import Partition


class StagingReplica(FlushedReplica):
    """Staging, for batches of clients and of this broker itself."""

    __slots__ = ()

    def append_own(self, batch: bytearray, wall_ms: int) -> Appended:
        """Stage a batch that this broker has built itself, under acks=all.

        Only role, min ISR and size are checked, and no sequence: it has none.
        """
        leader = self.leader
        if leader is None:
            return Appended(self._error_without_role())
        if not leader.has_min_isr:
            return Appended(ErrorCode.NOT_ENOUGH_REPLICAS)
        if len(batch) > self._rules.max_message_bytes:
            return Appended(ErrorCode.MESSAGE_TOO_LARGE)
        return self._stage(leader, memoryview(batch), BatchHeader(batch), wall_ms)

    def _stage(
        self, leader: LeaderReplica, records: memoryview, header: BatchHeader, wall_ms: int
    ) -> Appended:
        base_offset = self._next_offset
        append_time_ms = wall_ms if self._rules.is_log_append_time else None
        header = intake.place(
            records, header, base_offset, leader.metadata.leader_epoch, append_time_ms
        )
        next_offset = self._next_offset = base_offset + header.last_offset_delta + 1
        if header.producer_id >= 0 and not header.attributes & CONTROL_BIT:
            # Staged already counts: the next batch of this read event continues the sequence. If
            # the write fails, the directory is lost and this state with it.
            self.log.producers.observe(header, wall_ms)
        staged = self._staged
        if staged is None:
            staged = self._staged = []
            self._staged_answers = []
            self._host.dirty.append(cast("Partition", self))
        staged.append((header, records))
        appended = Appended(
            ErrorCode.NONE,
            base_offset,
            next_offset - 1,
            -1 if append_time_ms is None else append_time_ms,
            self.log.log_start_offset,
        )
        self._staged_answers.append(appended)
        return appended

    def _error_without_role(self) -> ErrorCode:
        return self.offline_because or ErrorCode.NOT_LEADER_OR_FOLLOWER
