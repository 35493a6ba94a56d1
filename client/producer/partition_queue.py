"""One partition's batches: which may be sent now, and how an answer changes them all.

Pure. The rules for an idempotent producer:

- A batch gets the next sequence when it is first sent and keeps it through every retry. A sequence
  is never given to other records under the same epoch, because a broker would take those for a
  duplicate and drop them.
- When an attempt fails, nothing is sent until every batch in flight is answered; then all that are
  not acknowledged are sent again in order.
- From the oldest unacknowledged batch to the newest sent there are at most `max_in_flight` batches,
  acknowledged ones included, because a broker recognises only its last 5 as duplicates.
- Before the first acknowledgement under an identity only one batch is in flight: a broker that
  does not know the producer yet accepts any sequence, so it could accept a second batch after it
  refused the first. This does not hold in transactions of version 2: each has an epoch of its own,
  in which a broker accepts only sequence 0 first (KIP-890).
- A batch given up (expired, refused) leaves a gap, unless a broker has appended it after all. The
  next answer shows this: OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID for the oldest
  unacknowledged batch proves that this batch is not in the log. Only then the epoch grows and the
  remaining batches are numbered from 0. For a younger batch these codes only say that an older
  batch is missing.

Without idempotence only one batch is in flight, so that retries keep the order.

In transactions only the coordinator raises the epoch: a batch that would need a new epoch fails,
and the transaction with it.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from ..errors import ClientError, DeliveryFailed, DeliveryTimeout, ProducerFenced
from .batch import SEQUENCE_MASK, UNNUMBERED, Acknowledged, Batch, ProducerIdentity

MAX_EPOCH: Final = 0x7FFF
SEQUENCE_LOST: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)
FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


class Verdict(Enum):
    """The outcome of one sending of a batch."""

    DONE = auto()
    """The batch is acknowledged."""
    RETRY = auto()
    """The batch will be sent again."""
    FAILED = auto()
    """The batch is given up with an error."""
    STALE = auto()
    """The answer is to an earlier attempt, so it is ignored."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer about one batch."""

    code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str = ""


class PartitionQueue:
    """The batches of one partition, in the order in which their records were sent."""

    def __init__(
        self,
        partition: TopicPartition,
        *,
        is_idempotent: bool,
        max_in_flight: int,
        is_transactional: bool = False,
    ) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.sent_to = -1
        """The id of the broker that the batches in flight were sent to."""
        self.identity: ProducerIdentity | None = None
        """The producer id and epoch; if it is None, an idempotent producer cannot send yet."""
        self.blocked = ""
        """The reason why there is no producer id yet, for the error of an expired batch."""
        self.refused_id = -1
        """The producer id that this partition can no longer use."""
        self.not_before_ms = 0
        self.failure_count = 0
        self._is_idempotent = is_idempotent
        self._is_transactional = is_transactional
        self._max_in_flight = max_in_flight if is_idempotent else 1
        self._next_sequence = 0
        self._next_order = 0
        self._must_renumber = False
        self._is_held = False
        self._is_known = False
        """True once a batch was acknowledged under the present identity."""
        self._gap: ClientError | None = None
        """The error of a batch given up before batches in flight; its sequence is then missing."""

    @property
    def is_idle(self) -> bool:
        """True if no batch waits and none is in flight."""
        return not self.waiting and not self.in_flight

    @property
    def needs_identity(self) -> bool:
        """True if this partition needs a producer id before its batches can be sent."""
        return self._is_idempotent and self.identity is None

    @property
    def oldest(self) -> Batch | None:
        """The oldest batch that was sent and is not acknowledged, or None.

        It is in flight, or waits to be sent again.
        """
        # While an older batch waits again, every batch in flight was sent before that one failed.
        candidates = [*self.in_flight[:1], *([self.waiting[0]] if self.waiting else [])]
        sent = [batch for batch in candidates if batch.order >= 0]
        return min(sent, key=lambda batch: batch.order) if sent else None

    # -- sending

    def next_to_send(self, now_ms: int, *, begins_at_0: bool = False) -> Batch | None:
        """Return the batch to send next, or None if none may be sent now.

        `begins_at_0` says that a broker that does not know the identity accepts sequence 0 only.
        Then several batches may be in flight before the first acknowledgement.
        """
        if not self.waiting or now_ms < self.not_before_ms or self.needs_identity:
            return None
        if self.in_flight and (
            self._is_held
            or self._must_renumber
            or not (self._is_known or begins_at_0)
            or len(self.in_flight) >= self._max_in_flight
            # Order holds only within one producer id.
            or (self._is_idempotent and self.in_flight[0].identity != self.identity)
        ):
            return None
        if self._must_renumber and not self._renumber():
            return None
        batch = self.waiting[0]
        order = self._next_order if batch.order < 0 else batch.order
        oldest = self.oldest
        if oldest is not None and order - oldest.order >= self._max_in_flight:
            return None
        return batch

    def may_go_to(self, node_id: int) -> bool:
        """True unless a batch is in flight to another broker; two brokers could break the order."""
        return not self.in_flight or self.sent_to == node_id

    def on_sent(self, batch: Batch, node_id: int) -> None:
        """Move the batch that `next_to_send` returned into flight, to a broker."""
        assert self.waiting[0] is batch
        self.waiting.popleft()
        if batch.order < 0:
            self._number(batch)
        batch.is_closed = True
        batch.attempt += 1
        if batch.attempt == 1:
            batch.last_error = f"broker {node_id} has not answered"
        self.sent_to = node_id
        self.in_flight.append(batch)
        self._is_held = False

    def on_identity(self, identity: ProducerIdentity) -> None:
        """Set the producer id and epoch; batches numbered under earlier ones are numbered anew."""
        self.identity = identity
        self.blocked = ""
        self._must_renumber = any(batch.order >= 0 for batch in self.waiting)
        self._next_sequence = self._next_order = 0
        self._is_known = False

    def _number(self, batch: Batch) -> None:
        if self._is_idempotent:
            assert self.identity is not None
            batch.number(self.identity, self._next_sequence, self._next_order)
            self._next_sequence = (self._next_sequence + batch.record_count) & SEQUENCE_MASK
        else:
            batch.number(UNNUMBERED, -1, self._next_order)
        self._next_order += 1

    def _renumber(self) -> bool:
        """Number the batches that wait to be sent again from 0, under the next epoch if necessary.

        Return False if the epochs are used up, so that a new producer id is needed.
        """
        self._must_renumber = False
        assert self.identity is not None
        numbered = [batch for batch in self.waiting if batch.order >= 0]
        if any(batch.identity == self.identity for batch in numbered) or self._next_order:
            if self.identity.epoch >= MAX_EPOCH:
                self._drop_identity()
                return False
            self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)
        self._next_sequence = self._next_order = 0
        self._is_known = False
        for batch in numbered:
            self._number(batch)
        return True

    # -- answers

    def on_answer(self, batch: Batch, attempt: int, answer: Answer, not_before_ms: int) -> Verdict:
        """Apply a broker's answer to one attempt; a retry waits until `not_before_ms`."""
        if batch.outcome is not None or batch.attempt != attempt or batch not in self.in_flight:
            return Verdict.STALE
        code = answer.code
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._leave_flight(batch)
            self.failure_count = 0
            self._is_known = self._is_known or batch.identity == self.identity
            batch.complete(Acknowledged(answer.base_offset, answer.log_append_time_ms))
            return Verdict.DONE
        batch.last_error = f"{code.name}: {answer.message or code.doc}"
        if self._is_idempotent and code in SEQUENCE_LOST:
            if self._gap is not None and self._is_transactional:
                batch.complete(self._gap)
                self._leave_flight(batch)
                return Verdict.FAILED
            is_lost = self.oldest is batch
            if not is_lost or not self._is_transactional:
                self._must_renumber |= is_lost
                return self._again(batch, not_before_ms)
        elif code.retriable:
            return self._again(batch, not_before_ms)
        self._leave_flight(batch)
        error = ApiError(code, answer.message)
        if self._is_transactional and code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # The transaction may only have taken too long; the coordinator will say if it did.
            batch.complete(DeliveryFailed(self.partition, error))
        elif code in FENCED:
            if not self._is_transactional:
                # Another producer's epoch, or a broker's error: continue under a new producer id.
                self._drop_identity()
            batch.complete(ProducerFenced(self.partition, error))
        else:
            batch.complete(DeliveryFailed(self.partition, error))
        return Verdict.FAILED

    def on_attempt_lost(self, batch: Batch, attempt: int, why: str, not_before_ms: int) -> Verdict:
        """Retry a batch whose attempt will get no answer; a broker may have appended it."""
        if batch.outcome is not None or batch.attempt != attempt or batch not in self.in_flight:
            return Verdict.STALE
        batch.last_error = why
        return self._again(batch, not_before_ms)

    def on_leader_changed(self, node_id: int, now_ms: int) -> bool:
        """Note a new leader; return True if batches in flight to another broker will be sent again.

        The old leader may never answer. Sending to the new leader is safe only with sequences, by
        which the new leader recognises batches that it already has.
        """
        self.not_before_ms = min(self.not_before_ms, now_ms)
        if not self._is_idempotent or not self.in_flight or self.sent_to == node_id:
            return False
        for batch in list(self.in_flight):
            batch.last_error = f"broker {self.sent_to} no longer leads and did not answer"
            self._again(batch, now_ms)
        return True

    def on_deadlines(self, now_ms: int) -> list[Batch]:
        """Fail with DeliveryTimeout the batches whose deadline has passed, and return them."""
        over = [batch for batch in self.in_flight if batch.deadline_ms <= now_ms]
        for batch in over:
            self._leave_flight(batch)
        while self.waiting and self.waiting[0].deadline_ms <= now_ms:
            over.append(self.waiting.popleft())
        for batch in over:
            waited_ms = now_ms - batch.created_ms
            why = self.blocked or batch.last_error
            error = DeliveryTimeout(self.partition, waited_ms, why)
            batch.complete(error)
            self._note_gap(batch, error)
        return over

    def fail_waiting(self, error: ClientError) -> None:
        """Fail the batches that are not in flight."""
        given_up = list(self.waiting)
        self.waiting.clear()
        for batch in given_up:
            batch.complete(error)
            self._note_gap(batch, error)

    def fail_all(self, error: ClientError) -> list[Batch]:
        """Fail every batch, and return them."""
        given_up = [*self.in_flight, *self.waiting]
        self.in_flight.clear()
        self.waiting.clear()
        self._is_held = False
        for batch in given_up:
            batch.complete(error)
        return given_up

    def check_invariants(self) -> None:
        """Assert that batches are in the order of their numbers, and none is in both queues."""
        waiting = [batch.order for batch in self.waiting if batch.order >= 0]
        assert waiting == sorted(waiting), "batches wait out of order"
        unsent = [batch.order < 0 for batch in self.waiting]
        assert unsent == sorted(unsent), "a new batch stands before one sent already"
        flying = [batch.order for batch in self.in_flight]
        assert flying == sorted(flying), "batches are in flight out of order"
        assert len(flying) <= self._max_in_flight, "too many in flight"
        assert not any(batch in self.waiting for batch in self.in_flight), "a batch is twice"

    def _again(self, batch: Batch, not_before_ms: int) -> Verdict:
        if not self.waiting or self.waiting[0].order < 0:
            self.failure_count += 1
        self.in_flight.remove(batch)
        place = sum(1 for other in self.waiting if 0 <= other.order < batch.order)
        self.waiting.insert(place, batch)
        self._is_held = bool(self.in_flight)
        self._must_renumber |= self._is_idempotent and batch.identity != self.identity
        self.not_before_ms = max(self.not_before_ms, not_before_ms)
        return Verdict.RETRY

    def _drop_identity(self) -> None:
        if self.identity is not None:
            self.refused_id = self.identity.producer_id
        self.identity = None

    def _leave_flight(self, batch: Batch) -> None:
        self.in_flight.remove(batch)
        if not self.in_flight:
            self._is_held = False
            self._gap = None

    def _note_gap(self, batch: Batch, error: ClientError) -> None:
        if self._gap is None and any(0 <= batch.order < other.order for other in self.in_flight):
            self._gap = error
