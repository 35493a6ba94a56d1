"""What each idempotent producer last wrote to a partition: why a retry is no duplicate.

Pure. Every replica keeps this, from the batches it appends, so that a new leader goes on
refusing what the old one would have refused. Per producer (Kafka's rules):

    | the batch                                        | the answer                            |
    |--------------------------------------------------|---------------------------------------|
    | equals one of the last five (epoch, sequences)   | a duplicate, at its old offset        |
    | older than the one batch that a snapshot keeps   | a duplicate, at an unknown offset     |
    | epoch older than the producer's                  | INVALID_PRODUCER_EPOCH                |
    | epoch newer, first sequence not 0                | OUT_OF_ORDER_SEQUENCE_NUMBER          |
    | same epoch, sequence not the next (MAX wraps)    | OUT_OF_ORDER_SEQUENCE_NUMBER          |
    | nothing is known of the producer                 | accepted with any sequence            |

The snapshot is Kafka's `.snapshot` file, big-endian:

    version i16 = 1 | crc32c u32 of the rest | count i32 | entry*
    entry: producer_id i64, producer_epoch i16, last_sequence i32, last_offset i64,
           offset_delta i32, timestamp i64, coordinator_epoch i32, current_txn_first_offset i64
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import crc32c

from ..protocol.errors import ErrorCode
from ..protocol.record_batch import BatchHeader

MAX_SEQUENCE = 2**31 - 1
DUPLICATES_KNOWN = 5
# More than a producer may have in flight: after a truncation that cuts all of those, the batch
# before them is still known, and with it the next sequence.
BATCHES_KEPT = DUPLICATES_KNOWN + 3

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_STARTS_AT = 6


class ProducedBatch(NamedTuple):
    """One batch of a producer, as it lies in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """The greatest of its records: what a duplicate's answer repeats under LogAppendTime."""


class Producer:
    """What one producer last wrote."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_from_snapshot",
        "last_seen_ms",
        "transaction_start",
    )

    def __init__(self, epoch: int, last_seen_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        """Oldest first, all of the current epoch."""
        self.is_from_snapshot = False
        """The first of `batches` had others before it, which the snapshot does not tell."""
        self.last_seen_ms = last_seen_ms
        self.coordinator_epoch = -1
        self.transaction_start = -1

    def duplicate_of(self, header: BatchHeader) -> ProducedBatch | None:
        """The batch among the last five that this one repeats."""
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches[-DUPLICATES_KNOWN:]:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return self._forgotten(header)

    def _forgotten(self, header: BatchHeader) -> ProducedBatch | None:
        """A repeat of what came before the snapshot's one batch, at an offset nobody remembers.

        Sequences are appended without gaps, so it is in the log, below the first batch we know.
        To call it out of order would make the producer number it anew, and write it twice.
        """
        if not self.is_from_snapshot or not 0 < len(self.batches) < DUPLICATES_KNOWN:
            return None
        oldest = self.batches[0]
        distance = wrapped(oldest.first_sequence - header.last_sequence)
        if not 0 < distance <= MAX_SEQUENCE // 2:
            return None
        first, last = header.base_sequence, header.last_sequence
        return ProducedBatch(first, last, -1, oldest.base_offset - 1, oldest.timestamp)


def wrapped(sequence: int) -> int:
    """Bring a sequence that ran past its ends back between them."""
    return sequence % (MAX_SEQUENCE + 1)


class ProducerState:
    """The idempotent producers of one partition."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def get(self, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader) -> ProducedBatch | ErrorCode | None:
        """May the leader append this batch of a client? None: yes, and then `observe` it.

        A `ProducedBatch` means that it is a duplicate of that one: answer with its offset.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        batches = producer.batches
        if (
            batches
            and header.producer_epoch == producer.epoch
            and header.base_sequence == (batches[-1].last_sequence + 1) & MAX_SEQUENCE
        ):
            return None  # The next in line, as nearly all are: it repeats none of them.
        duplicate = producer.duplicate_of(header)
        if duplicate is not None:
            return duplicate
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > producer.epoch:
            expected = 0
        elif not producer.batches:
            return None
        else:
            expected = wrapped(producer.batches[-1].last_sequence + 1)
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    def observe(self, header: BatchHeader, now_ms: int) -> None:
        """Take in a batch that is in the log, or is staged to be; seeing it twice is harmless.

        `now_ms` is wall time and counts for expiry. The batch's own timestamps do not: a producer
        that replays last year's events must not be forgotten at once.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch, now_ms)
        batches = producer.batches
        last_offset = header.last_offset
        if batches and batches[-1].last_offset >= last_offset:
            return
        producer.last_seen_ms = now_ms
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.is_from_snapshot = False
            batches.clear()
        if header.is_control:
            return
        batches.append(
            ProducedBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                last_offset,
                header.max_timestamp,
            )
        )
        if len(batches) > BATCHES_KEPT:
            del batches[0]

    def truncate_to(self, offset: int) -> bool:
        """Forget batches from `offset` on; False if what is left is not enough to go on with."""
        is_complete = True
        for producer_id, producer in list(self._producers.items()):
            before = len(producer.batches)
            producer.batches = [b for b in producer.batches if b.last_offset < offset]
            if before and not producer.batches:
                del self._producers[producer_id]
                is_complete = False
        return is_complete

    def remove_expired(self, now_ms: int, expire_after_ms: int) -> int:
        """Forget producers idle for that long (wall time, in ms); how many were there?"""
        idle_since = now_ms - expire_after_ms
        idle = [id_ for id_, one in self._producers.items() if one.last_seen_ms <= idle_since]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def encode(self, end_offset: int) -> bytes:
        """Write the snapshot of what lies below `end_offset`."""
        entries: list[bytes] = []
        for producer_id, producer in self._producers.items():
            # What is staged may still be lost; and a snapshot must agree with its own name.
            below = [b for b in producer.batches if b.last_offset < end_offset]
            if producer.batches and not below:
                continue
            last = below[-1] if below else ProducedBatch(-1, -1, -1, -1, -1)
            entries.append(
                _ENTRY.pack(
                    producer_id,
                    producer.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.last_offset - last.base_offset,
                    producer.last_seen_ms,
                    producer.coordinator_epoch,
                    producer.transaction_start,
                )
            )
        body = _HEAD.pack(_VERSION, 0, len(entries))[_CRC_STARTS_AT:] + b"".join(entries)
        return _HEAD.pack(_VERSION, crc32c.crc32c(body), 0)[:_CRC_STARTS_AT] + body

    @classmethod
    def decode(cls, data: bytes, now_ms: int) -> "ProducerState | None":
        """Read a snapshot; None if it is torn or corrupt. Times ahead of `now_ms` become it."""
        if len(data) < _HEAD.size:
            return None
        version, crc, count = _HEAD.unpack_from(data)
        if version != _VERSION or crc32c.crc32c(memoryview(data)[_CRC_STARTS_AT:]) != crc:
            return None
        if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
            return None
        state = cls()
        for row in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, txn = row
            producer = Producer(epoch, min(timestamp, now_ms))
            producer.coordinator_epoch, producer.transaction_start = coordinator, txn
            if last_offset >= 0:
                first = wrapped(last_sequence - delta)
                base = last_offset - delta
                producer.is_from_snapshot = first > 0
                producer.batches.append(
                    ProducedBatch(first, last_sequence, base, last_offset, timestamp)
                )
            state._producers[producer_id] = producer
        return state
