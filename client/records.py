"""The records that users send and receive, and their places in the log.

All of them are plain values.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple

from ..protocol.records.record_batch import Headers, TimestampType
from ..protocol.types import ZERO_UUID, TopicPartition
from .errors import ClientError
from .serialization import K, V


class RecordMetadata(NamedTuple):
    """The place of an acknowledged record."""

    topic: str
    partition: int
    offset: int
    """The record's offset, or -1 if it is unknown.

    Acknowledgements have no offset with acks=0, nor for a retry that the broker found a duplicate.
    """
    timestamp_ms: int
    """The record's own timestamp, or the broker's if the topic has LogAppendTime."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class BatchMetadata(NamedTuple):
    """The place of records of one batch: `record_count` offsets from `base_offset` on."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class ProducerRecord(NamedTuple, Generic[K, V]):
    """One record for `send_batch`."""

    value: V | None
    key: K | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    """Milliseconds since the epoch; None means now."""


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record read; key and value are bytes unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since the epoch, or -1 if the record has no timestamp."""
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class RecordColumns(NamedTuple):
    """The records of one batch as columns, which cost less than an object for each record."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    timestamp_type: TimestampType
    keys: Sequence[bytes | None] | None
    """The keys, or None if no record has one."""
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None
    """The headers, or None if no record has any."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class AbortedTransaction(NamedTuple):
    """The records of `producer_id` from `first_offset` up to its next abort marker are aborted."""

    producer_id: int
    first_offset: int


class RawRecords(NamedTuple):
    """Whole record batches of one partition, encoded as in the log.

    The reader must skip control batches, and records with offsets outside [position,
    next_position), because the first batch may begin before `position`. Under read_committed the
    reader must also skip the records of `aborted_transactions`.
    """

    topic: str
    partition: int
    position: int
    next_position: int
    high_watermark: int
    last_stable_offset: int
    """The last stable offset, or -1 if the broker did not return it."""
    log_start_offset: int
    """The first offset of the log, or -1 if the broker did not return it."""
    data: memoryview
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    topic_id: bytes = ZERO_UUID
    """The topic's id; zeros if the broker does not have topic ids."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class OffsetAndTimestamp(NamedTuple):
    """The offset and timestamp of the first record at or after the requested time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


OnDelivery = Callable[[ClientError | None, RecordMetadata | None], None]
"""A callback for one record, called on the client's loop with its error or its metadata."""
