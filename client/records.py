"""Records as users hand them in and get them, and where they are.

Plain values; nothing here reads or writes.
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
    """-1 when unknown: with acks=0, or when a retry found the record already there, long ago."""
    timestamp_ms: int
    """The record's own timestamp, or the broker's if the topic has LogAppendTime."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class BatchMetadata(NamedTuple):
    """The place of records sent together: `record_count` offsets from `base_offset` on."""

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
    """Milliseconds since the epoch; None is now."""


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record read; key and value are bytes unless the consumer has deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """-1 when the record has none."""
    timestamp_type: TimestampType
    key: K | None
    value: V | None
    headers: Headers = ()

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class RecordColumns(NamedTuple):
    """Records of one batch of one partition by field, which costs less than an object for each."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    timestamp_type: TimestampType
    keys: Sequence[bytes | None] | None
    """None where no record has one."""
    values: Sequence[bytes | None]
    headers: Sequence[Headers] | None
    """None where no record has any."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class AbortedTransaction(NamedTuple):
    """Records of this producer from `first_offset` to its next abort marker do not count."""

    producer_id: int
    first_offset: int


class RawRecords(NamedTuple):
    """Whole record batches of one partition, as they lie in the log.

    Only records with offsets in [position, next_position) are meant: the first batch may begin
    before `position`. Control batches are included; under read_committed, `aborted_transactions`
    says which records do not count.
    """

    topic: str
    partition: int
    position: int
    next_position: int
    high_watermark: int
    last_stable_offset: int
    """-1 when the broker did not say."""
    log_start_offset: int
    """-1 when the broker did not say."""
    data: memoryview
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    topic_id: bytes = ZERO_UUID
    """The id of the topic that was read; zeros if the broker has none."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one key."""
        return TopicPartition(self.topic, self.partition)


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after the time asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


OnDelivery = Callable[[ClientError | None, RecordMetadata | None], None]
"""Called once per record, on the client's loop, with exactly one of the two."""
