"""What transactions add to a replica: markers, what coordinators write, what is verified first.

Up to where transactions are decided is the log's to know; which of them may begin here, the
leader's (KIP-890). Nothing here asks a coordinator: the produce handler does.
"""

from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import CODEC_MASK, TRANSACTIONAL_BIT
from ...protocol.records.record_batch import BatchHeader
from ...storage.markers import TransactionMarker, encode_marker
from ...storage.producer_state import NOT_VERIFIED, ProducedBatch
from . import intake
from .requests import Appended
from .staging_replica import StagingReplica
from .verification import Verification, Verifications


class TransactionalReplica(StagingReplica):
    """A replica, and the transactions in it."""

    __slots__ = ()

    # What clients write.

    def needs_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        *,
        raises_epoch: bool = False,
    ) -> Verification | None:
        """What a batch must come back with that would begin a transaction here; None if none is.

        Its coordinator is to be asked in between, and the batch waits in line meanwhile
        (`Verification.join`). `raises_epoch`: each transaction of this client has an epoch of its
        own (Produce version 12 and later).
        """
        if self.log.producers.has_open_transaction(producer_id, producer_epoch):
            return None
        if self._verifications is None:
            self._verifications = Verifications()
        attempt = Verification(
            producer_epoch, base_sequence, self._host.monotonic_ms(), raises_epoch=raises_epoch
        )
        return self._verifications.begin(producer_id, attempt)

    def may_need_opening(self, header: BatchHeader) -> bool:
        """May a worker have to open a batch that is appended later (`intake.NeedsOpening`)?"""
        is_compressed = bool(header.attributes & CODEC_MASK)
        return is_compressed and intake.looks_inside(self._rules, header)

    def _check_transactional(
        self, header: BatchHeader, guard: Verification | None
    ) -> ProducedBatch | ErrorCode | None:
        """May a client's batch of a transaction be appended? None: yes."""
        producers, producer_id = self.log.producers, header.producer_id
        up_to = NOT_VERIFIED
        if guard is not None and self._is_verified(header, guard):
            known = producers.get(producer_id)
            begins_at_0 = guard.raises_epoch and (known is None or not known.batches)
            up_to = 0 if begins_at_0 else guard.lowest_sequence
        refused = producers.check_transactional(header, up_to)
        if refused is None:
            self._end_verification(header)
        elif refused is ErrorCode.INVALID_TXN_STATE and guard is not None and not guard.is_led:
            # Not the client's fault, and nothing was appended: it finds the leader, and asks again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return refused

    def _is_verified(self, header: BatchHeader, guard: Verification) -> bool:
        attempts = self._verifications
        return (
            attempts is not None
            and guard.epoch == header.producer_epoch
            and attempts.is_current(header.producer_id, guard)
        )

    def _end_verification(self, header: BatchHeader) -> None:
        if self._verifications is not None:
            self._verifications.end(header.producer_id, header.producer_epoch)
            if not len(self._verifications):
                self._verifications = None

    def _end_verifications(self) -> None:
        """The role ends: whatever is being asked counts for nothing afterwards."""
        if self._verifications is not None:
            self._verifications.end_leadership()
            self._verifications = None

    # What coordinators write.

    def append_own(
        self, batch: bytearray, wall_ms: int, guard: Verification | None = None
    ) -> Appended:
        """Stage a batch of this broker's own; one of a transaction is the producer's it names.

        With a `guard` it may begin a transaction here only if that is current; without one
        whoever calls vouches for it.
        """
        header = BatchHeader(batch)
        if header.attributes & TRANSACTIONAL_BIT:
            error = self._refuse_producer(header, guard)
            if error:
                return Appended(error)
        appended = super().append_own(batch, wall_ms)
        if header.attributes & TRANSACTIONAL_BIT and not appended.error:
            self._end_verification(header)
        return appended

    def _refuse_producer(self, header: BatchHeader, guard: Verification | None) -> ErrorCode:
        producers = self.log.producers
        producer_id, epoch = header.producer_id, header.producer_epoch
        error = producers.check_epoch(producer_id, epoch)
        if error or guard is None or producers.has_open_transaction(producer_id, epoch):
            return error
        is_verified = self._is_verified(header, guard)
        return ErrorCode.NONE if is_verified else ErrorCode.INVALID_TXN_STATE

    def append_marker(self, marker: TransactionMarker, wall_ms: int) -> Appended:
        """End a producer's transaction here: written on return, final when committed (acks=all).

        INVALID_PRODUCER_EPOCH from a producer's older epoch, TRANSACTION_COORDINATOR_FENCED from a
        coordinator that has been replaced. A marker that ends nothing is written, too.
        """
        self.write_staged()
        leader = self.leader
        if leader is None:
            return Appended(self._error_without_role())
        if not leader.has_min_isr:
            return Appended(ErrorCode.NOT_ENOUGH_REPLICAS)
        error = self.log.producers.check_marker(marker)
        if error:
            return Appended(error)
        if self._verifications is not None:
            # Whoever was told that the transaction goes on may not begin it anew (KAFKA-14884).
            self._verifications.end_by(marker)
        records = memoryview(encode_marker(marker, wall_ms))
        appended = self._stage(leader, records, BatchHeader(records), wall_ms)
        self.write_staged()
        return appended

    def write_staged(self) -> None:
        """Write what is staged."""
        raise NotImplementedError

    # Time.

    def forget_idle_producers(self, now_ms: int, expire_after_ms: int) -> int:
        """Forget producers idle for that long (wall time); how many were there?"""
        if self._verifications is not None:
            self._verifications.remove_older(self._host.monotonic_ms() - expire_after_ms)
        return self.log.producers.remove_expired(now_ms, expire_after_ms)
