"""One partition's batches: which may be sent now, and what an answer means for the others.

Pure. The theory, for an idempotent producer:

- A batch gets the next sequence when it is first sent and keeps it through every retry. A sequence
  is never given to other records under the same epoch: a broker would take those for a duplicate
  and drop them.
- When an attempt fails, nothing is sent until every batch in flight is answered; then all that are
  not acknowledged are sent again in order.
- At most `max_in_flight` batches lie between the oldest unacknowledged and the newest sent,
  acknowledged ones included: a broker recognises only its last 5 as duplicates.
- Before the first acknowledgement under an identity only one batch is in flight: a broker that
  does not know the producer yet accepts any sequence, so a second batch could pass a first one
  that was refused. Not in transactions of version 2: whatever a broker knows, it takes nothing but
  sequence 0 first there, since each transaction has an epoch of its own (KIP-890).
- A batch given up (expired, refused) leaves a gap, or none if it was appended after all. The next
  batch finds out: OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID for the oldest
  unacknowledged batch proves that it is not in the log. Only then the epoch grows and what is
  left is numbered from 0. For a younger batch it only says that an older one is missing.

Without idempotence one batch is in flight, so order holds through retries.

In transactions the epoch is the coordinator's to raise: a batch that would need another one is
given up, and with it the transaction.
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
    """The outcome of one attempt."""

    DONE = auto()
    """The batch is acknowledged."""
    RETRY = auto()
    """The batch will be sent again."""
    FAILED = auto()
    """The batch is given up."""
    STALE = auto()
    """The answer was to an attempt that is no longer waited for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer about one batch."""

    code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str = ""


class PartitionQueue:
    """The batches of one partition in the order their records came."""

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
        """The broker that `in_flight` went to."""
        self.identity: ProducerIdentity | None = None
        """None: a producer id is needed before anything can be sent."""
        self.blocked = ""
        """The reason why a producer id is missing; nothing can be sent until there is one."""
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
        """The reason why a batch before those in flight was given up: brokers will miss it."""

    @property
    def is_idle(self) -> bool:
        """True if nothing waits and nothing is in flight."""
        return not self.waiting and not self.in_flight

    @property
    def needs_identity(self) -> bool:
        """True if a producer id must be allocated before this partition can go on."""
        return self._is_idempotent and self.identity is None

    @property
    def oldest(self) -> Batch | None:
        """The oldest batch that is not acknowledged and was sent or is to be sent."""
        # While an older batch waits again, every batch in flight was sent before that one failed.
        candidates = [*self.in_flight[:1], *([self.waiting[0]] if self.waiting else [])]
        sent = [batch for batch in candidates if batch.order >= 0]
        return min(sent, key=lambda batch: batch.order) if sent else None

    # -- sending

    def next_to_send(self, now_ms: int, *, begins_at_0: bool = False) -> Batch | None:
        """Give the batch to send next, None if none may be sent; `on_sent` must follow.

        `begins_at_0`: brokers that do not know the identity take nothing but sequence 0 from it.
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
        """True if no batch is in flight to another broker: order holds only on the way to one."""
        return not self.in_flight or self.sent_to == node_id

    def on_sent(self, batch: Batch, node_id: int) -> None:
        """The batch that `next_to_send` gave goes out to a broker."""
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
        """A producer id was allocated; batches numbered under an older one are numbered again."""
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
        """Number all that is left from 0; nothing may be in flight. False: a new id is needed."""
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
        """Take a broker's word on an attempt; a retry waits until `not_before_ms`."""
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
            # Perhaps the transaction only took too long: its coordinator tells that from fencing.
            batch.complete(DeliveryFailed(self.partition, error))
        elif code in FENCED:
            if not self._is_transactional:
                # Somebody else's epoch, or a broker's confusion: start afresh under a new id.
                self._drop_identity()
            batch.complete(ProducerFenced(self.partition, error))
        else:
            batch.complete(DeliveryFailed(self.partition, error))
        return Verdict.FAILED

    def on_attempt_lost(self, batch: Batch, attempt: int, why: str, not_before_ms: int) -> Verdict:
        """Nobody will answer this attempt; whether it was appended is open."""
        if batch.outcome is not None or batch.attempt != attempt or batch not in self.in_flight:
            return Verdict.STALE
        batch.last_error = why
        return self._again(batch, not_before_ms)

    def on_leader_changed(self, node_id: int, now_ms: int) -> bool:
        """Take in that a broker leads now; True if attempts at another broker were given up for it.

        The old leader may never answer. Sending again elsewhere is safe only with sequences: the
        new leader recognises the batches that it has.
        """
        self.not_before_ms = min(self.not_before_ms, now_ms)
        if not self._is_idempotent or not self.in_flight or self.sent_to == node_id:
            return False
        for batch in list(self.in_flight):
            batch.last_error = f"broker {self.sent_to} no longer leads and did not answer"
            self._again(batch, now_ms)
        return True

    def on_deadlines(self, now_ms: int) -> list[Batch]:
        """Give up the batches past their deadlines; return them, completed."""
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
        """Give up the batches that are not in flight."""
        given_up = list(self.waiting)
        self.waiting.clear()
        for batch in given_up:
            batch.complete(error)
            self._note_gap(batch, error)

    def fail_all(self, error: ClientError) -> list[Batch]:
        """Give up every batch; return them, completed."""
        given_up = [*self.in_flight, *self.waiting]
        self.in_flight.clear()
        self.waiting.clear()
        self._is_held = False
        for batch in given_up:
            batch.complete(error)
        return given_up

    def check_invariants(self) -> None:
        """Batches stand in the order of their numbers, and none is in two places."""
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
