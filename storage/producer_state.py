"""The newest batches of each producer in a partition, which reveal retries and open transactions.

Pure. Every replica keeps this state from the batches it appends, so that a new leader refuses the
batches that the old leader would have refused. Per producer (Kafka's rules, in this order):

    | the batch of a client                            | the answer                            |
    |--------------------------------------------------|---------------------------------------|
    | equals one of the last five (epoch, sequences)   | a duplicate, at its old offset        |
    | older than the one batch that a snapshot keeps   | a duplicate, at an unknown offset     |
    | epoch older than the producer's                  | INVALID_PRODUCER_EPOCH                |
    | transactional, none open, not verified           | INVALID_TXN_STATE                     |
    | epoch newer, first sequence not 0                | OUT_OF_ORDER_SEQUENCE_NUMBER          |
    | same epoch, sequence not the next (MAX wraps)    | OUT_OF_ORDER_SEQUENCE_NUMBER          |
    | not transactional, though a transaction is open  | INVALID_TXN_STATE                     |
    | nothing is known of the producer                 | accepted with any sequence            |

A transaction is open from its first batch to its marker, and undecided until the marker is below
the high watermark. Until then a truncation can undo the effect of a marker or of a new epoch.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.records.batch_header import TRANSACTIONAL_BIT
from ..protocol.records.record_batch import BatchHeader
from .aborted import AbortedTransaction
from .markers import TransactionMarker

MAX_SEQUENCE = 2**31 - 1
NOT_VERIFIED = -1
DUPLICATES_KNOWN = 5
# More than a producer may have in flight: after a truncation that cuts all of those, the batch
# before them is still known, and so is the next sequence.
BATCHES_KEPT = DUPLICATES_KNOWN + 3
FORWARD_EPOCH = 30_000
"""The producer epoch of the batches that a Forwarder appends. The marker that fences its producer
id has the next one. Ids that the coordinators give to clients end far below."""
FORWARD_LIFE_MS = 7 * 24 * 60 * 60 * 1000
"""Milliseconds for which a Forwarder's idle producer id is remembered at least, so that a batch
that was held up for days is still known as a duplicate."""
RAISES_EPOCH_FROM = 2
"""The transaction version from which a marker has a newer epoch than its batches (KIP-890)."""


class ProducedBatch(NamedTuple):
    """One batch of a producer in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """The greatest timestamp of its records, in ms. Under LogAppendTime it is also the timestamp in
    the answer to a duplicate."""


class Producer:
    """The newest batches of one producer, its epoch and its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_from_snapshot",
        "last_seen_ms",
        "since",
        "transaction_start",
    )

    def __init__(self, epoch: int, last_seen_ms: int, since: int = -1) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        """The newest batches of the current epoch, oldest first."""
        self.is_from_snapshot = False
        """True if `batches` came from a snapshot, which keeps only the last batch: earlier ones are
        unknown."""
        self.last_seen_ms = last_seen_ms
        self.since = since
        """The offset of the producer's first known batch; -1 if the producer came from a
        snapshot."""
        self.coordinator_epoch = -1
        self.transaction_start = -1
        """First offset of the open transaction; -1 if none is open."""

    def copy(self) -> "Producer":
        """Copy the state; both share the list of batches, to which later ones are added."""
        copied = Producer(self.epoch, self.last_seen_ms, self.since)
        copied.batches = self.batches
        copied.is_from_snapshot = self.is_from_snapshot
        copied.coordinator_epoch = self.coordinator_epoch
        copied.transaction_start = self.transaction_start
        return copied

    def duplicate_of(self, header: BatchHeader) -> ProducedBatch | None:
        """Return the stored batch that this one repeats: one of the last five, or None.

        For a repeated batch that is older than the only one in a snapshot, return a stand-in whose
        offset is -1.
        """
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches[-DUPLICATES_KNOWN:]:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return self._forgotten(header)

    def _forgotten(self, header: BatchHeader) -> ProducedBatch | None:
        """Return a stand-in for a repeated batch that is older than the snapshot's, or None.

        The stand-in's base offset is -1, because the batch's offset is unknown. Sequences are
        appended without gaps, so the batch is in the log before the first batch that the snapshot
        keeps. An out-of-order error instead would make the producer send the batch with a new
        number, and so write it twice.
        """
        if not self.is_from_snapshot or not 0 < len(self.batches) < DUPLICATES_KNOWN:
            return None
        oldest = self.batches[0]
        distance = wrapped(oldest.first_sequence - header.last_sequence)
        if not 0 < distance <= MAX_SEQUENCE // 2:
            return None
        first, last = header.base_sequence, header.last_sequence
        return ProducedBatch(first, last, -1, oldest.base_offset - 1, oldest.timestamp)


def _refuse_sequence(producer: Producer, header: BatchHeader) -> ErrorCode | None:
    """Return the error for a batch that is not next in the sequence; None if it is next."""
    if header.producer_epoch < producer.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if header.producer_epoch > producer.epoch or not producer.batches:
        expected = 0
    else:
        expected = wrapped(producer.batches[-1].last_sequence + 1)
    if header.base_sequence != expected:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return None


def wrapped(sequence: int) -> int:
    """Wrap a sequence number into the range from 0 to MAX_SEQUENCE."""
    return sequence % (MAX_SEQUENCE + 1)


class Change(NamedTuple):
    """A marker or the first batch of a newer epoch, and the producer's state before it."""

    offset: int
    producer_id: int
    before: Producer | None
    """The producer before the change; None if it was not known."""

    @property
    def transaction_start(self) -> int:
        """First offset of the transaction that a marker ended; -1 if it ended none."""
        return -1 if self.before is None else self.before.transaction_start


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_open", "_producers", "_settled", "unsettled")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """The producer id of each open transaction, by its first offset, in rising order."""
        self.unsettled: deque[Change] | None = None
        """Changes that a truncation may still undo, oldest first; they are settled once the high
        watermark is above them. None instead of an empty queue, to save memory in idle logs."""
        self._settled = -1
        """The offset of the newest settled change, which can no longer be undone."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        """Return the producer's state, or None if the producer is not known."""
        return self._producers.get(producer_id)

    # May it be appended?

    def check(self, header: BatchHeader) -> ProducedBatch | ErrorCode | None:
        """Check a client's batch before the leader appends it.

        Return None if the batch may be appended; the caller then calls `observe`. Return an error
        code to refuse the batch. Return the stored `ProducedBatch` that this one repeats; the
        answer then has that batch's offset. Use `check_transactional` for batches of a transaction.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        batches = producer.batches
        if (
            batches
            and header.producer_epoch == producer.epoch
            and header.base_sequence == (batches[-1].last_sequence + 1) & MAX_SEQUENCE
            and producer.transaction_start < 0
        ):
            return None  # The usual case: next in sequence.
        known = producer.duplicate_of(header) or _refuse_sequence(producer, header)
        if known is None and producer.transaction_start >= 0:
            return ErrorCode.INVALID_TXN_STATE
        return known

    def check_transactional(
        self, header: BatchHeader, verified_up_to: int
    ) -> ProducedBatch | ErrorCode | None:
        """Check a batch of a transaction, and return as `check` does.

        `verified_up_to` is the least sequence that was verified with the coordinator, or
        NOT_VERIFIED (KIP-890). If no transaction is open, the batch's first sequence must not be
        greater.
        """
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            known = producer.duplicate_of(header)
            if known is not None:
                return known
            if header.producer_epoch < producer.epoch:
                # Checked first, so that a fenced client learns that it can go on with a new epoch
                # (KAFKA-19690).
                return ErrorCode.INVALID_PRODUCER_EPOCH
        if not self.has_open_transaction(header.producer_id, header.producer_epoch):
            if verified_up_to == NOT_VERIFIED:
                return ErrorCode.INVALID_TXN_STATE
            if header.base_sequence > verified_up_to:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None if producer is None else _refuse_sequence(producer, header)

    def known(self, producer_id: int) -> Producer | None:
        """Return what is known of a producer, for reading only."""
        return self._producers.get(producer_id)

    def check_epoch(self, producer_id: int, epoch: int) -> ErrorCode:
        """Return the error for a coordinator's batch, which has no sequence, or NONE."""
        producer = self._producers.get(producer_id)
        is_old = producer is not None and epoch < producer.epoch
        return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else ErrorCode.NONE

    def check_marker(self, marker: TransactionMarker) -> ErrorCode:
        """Return the error for a marker, or NONE. A repeated marker is allowed: it ends nothing."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return ErrorCode.NONE
        is_open = producer.transaction_start >= 0
        is_late = (
            is_open
            and marker.producer_epoch == producer.epoch
            and marker.transaction_version >= RAISES_EPOCH_FROM
        )
        if marker.producer_epoch < producer.epoch or is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if the producer has an open transaction, not ended by a marker, in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start >= 0 and producer.epoch == epoch

    # What is in the log.

    def observe(self, header: BatchHeader, now_ms: int) -> None:
        """Record a batch that is in the log or staged for it; repeating the call changes nothing.

        Expiry counts from `now_ms` (wall time) and not from the batch's own timestamps, because a
        producer that replays last year's events must not expire at once.
        """
        producer_id = header.producer_id
        base_offset = header.base_offset
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = Producer(header.producer_epoch, now_ms, base_offset)
            self._producers[producer_id] = producer
        batches = producer.batches
        last_offset = header.last_offset
        if batches and batches[-1].last_offset >= last_offset:
            return
        producer.last_seen_ms = now_ms
        if producer.epoch != header.producer_epoch:
            batches = self._begin_epoch(producer_id, producer, header.producer_epoch, base_offset)
        if header.attributes & TRANSACTIONAL_BIT and producer.transaction_start < 0:
            producer.transaction_start = base_offset
            self._open[base_offset] = producer_id
        if header.base_sequence < 0:
            return  # A coordinator's batch has no sequence and no duplicates.
        batches.append(
            ProducedBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp,
            )
        )
        if len(batches) > BATCHES_KEPT:
            del batches[0]

    def observe_marker(
        self, marker: TransactionMarker, offset: int, now_ms: int
    ) -> AbortedTransaction | None:
        """Record a marker that is in the log.

        Return the aborted transaction, if the marker aborts one with records.
        """
        producer_id = marker.producer_id
        producer = self._producers.get(producer_id)
        start = -1 if producer is None else producer.transaction_start
        if start > offset:
            return None
        before = None if producer is None else producer.copy()
        if producer is None:
            producer = Producer(marker.producer_epoch, now_ms, offset)
            self._producers[producer_id] = producer
        self._note_change(Change(offset, producer_id, before))
        if producer.epoch != marker.producer_epoch:
            producer.epoch, producer.batches = marker.producer_epoch, []
            producer.is_from_snapshot = False
        producer.last_seen_ms = now_ms
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.transaction_start = -1
        if start < 0:
            return None
        self._open.pop(start, None)
        if marker.is_commit:
            return None
        stable = next(iter(self._open), offset + 1)
        return AbortedTransaction(producer_id, start, offset, min(stable, offset + 1))

    def _begin_epoch(
        self, producer_id: int, producer: Producer, epoch: int, offset: int
    ) -> list[ProducedBatch]:
        before = producer.copy()
        before.transaction_start = -1  # A new epoch does not end the transaction.
        self._note_change(Change(offset, producer_id, before))
        producer.epoch, producer.batches = epoch, []
        producer.is_from_snapshot = False
        return producer.batches

    def _note_change(self, change: Change) -> None:
        if self.unsettled is None:
            self.unsettled = deque()
        self.unsettled.append(change)

    # What is undecided.

    @property
    def has_undecided(self) -> bool:
        """True if the last stable offset may be below the high watermark."""
        return bool(self._open or self.unsettled)

    def open_transactions(self) -> Iterator[tuple[int, int]]:
        """Return first offset and producer id of each open transaction, oldest first."""
        return iter(self._open.items())

    def first_undecided(self, otherwise: int) -> int:
        """Return the first offset of the oldest undecided transaction, but at most `otherwise`."""
        first = next(iter(self._open), otherwise)
        for change in self.unsettled or ():
            if 0 <= change.transaction_start < first:
                first = change.transaction_start
        return min(first, otherwise)

    def first_unsettled(self, otherwise: int) -> int:
        """Return the offset of the oldest unsettled change; `otherwise` if there is none."""
        return self.unsettled[0].offset if self.unsettled else otherwise

    def settle(self, high_watermark: int) -> None:
        """Settle all changes below the high watermark, which can no longer be undone."""
        unsettled = self.unsettled
        while unsettled and unsettled[0].offset < high_watermark:
            self._settled = unsettled.popleft().offset
        if not unsettled:
            self.unsettled = None

    def came_from_snapshot(self, end_offset: int) -> None:
        """Note that this state is from a snapshot of `end_offset`: older markers stay settled."""
        if any(producer.coordinator_epoch >= 0 for producer in self._producers.values()):
            self._settled = end_offset - 1

    def truncate_to(self, offset: int) -> bool:
        """Forget batches from `offset` on, and undo changes at or after it.

        Return False if the state is then incomplete and must be rebuilt from the log.
        """
        is_complete = offset > self._settled
        while self.unsettled and self.unsettled[-1].offset >= offset:
            self._take_back(self.unsettled.pop())
        for producer_id, producer in list(self._producers.items()):
            if producer.since >= offset:
                del self._producers[producer_id]
                continue
            before = len(producer.batches)
            producer.batches = [b for b in producer.batches if b.last_offset < offset]
            if producer.transaction_start >= offset:
                producer.transaction_start = -1
            if before and not producer.batches:
                del self._producers[producer_id]
                is_complete = False
        self._note_open()
        return is_complete

    def _take_back(self, change: Change) -> None:
        now, before = self._producers.get(change.producer_id), change.before
        if before is None:
            self._producers.pop(change.producer_id, None)
            return
        if now is not None and before.transaction_start < 0:
            # The new epoch did not end the transaction; a later transaction is cut with its own
            # batches.
            before.transaction_start = now.transaction_start
        self._producers[change.producer_id] = before

    def _note_open(self) -> None:
        starts = (
            (producer.transaction_start, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transaction_start >= 0
        )
        self._open = dict(sorted(starts))

    def remove_expired(self, now_ms: int, expire_after_ms: int) -> int:
        """Forget producers that were idle for `expire_after_ms`; return how many were forgotten.

        `now_ms` is wall time. A producer with an open transaction stays, because readers wait for
        its marker, and a Forwarder's for FORWARD_LIFE_MS at least.
        """
        idle_since = now_ms - expire_after_ms
        forwarders_idle_since = min(idle_since, now_ms - FORWARD_LIFE_MS)
        idle = [
            producer_id
            for producer_id, one in self._producers.items()
            if one.last_seen_ms
            <= (forwarders_idle_since if one.epoch >= FORWARD_EPOCH else idle_since)
            and one.transaction_start < 0
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def postpone_expiry(self, by_ms: int, now_ms: int) -> None:
        """Have producers expire later, as if seen after the clock was set forward by `by_ms`."""
        for producer in self._producers.values():
            producer.last_seen_ms = min(now_ms, producer.last_seen_ms + by_ms)

    @classmethod
    def of(cls, producers: dict[int, Producer]) -> "ProducerState":
        """Make a state from the producers in a snapshot."""
        state = cls()
        state._producers = producers
        state._note_open()
        return state
