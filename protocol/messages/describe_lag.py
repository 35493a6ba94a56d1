"""DescribeLag, our own API: leaders report what is left to read after committed offsets."""

from typing import Final

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response

MOST_PARTITIONS: Final = 500
"""Partitions that one request may name."""


@nested
class CommittedPartition:
    """A partition, and how far it is read."""

    partition_index: Int32
    committed_offset: Int64
    """Everything before it is read."""


@nested
class CommittedTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[CommittedPartition]


@request(ApiKey.DESCRIBE_LAG, versions="0", flexible="0+")
class DescribeLagRequest:
    """Ask the leaders of at most MOST_PARTITIONS partitions, each named once."""

    topics: list[CommittedTopic]


@nested
class PartitionLag:
    """The part of one partition that is left to read; offsets are -1 beside an error."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    log_start_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    last_stable_offset: Int64 = field(default=-1)
    records: Int64 = field(default=-1)
    """Records between the committed offset and the last stable offset that an application would
    be given: no markers, none of aborted transactions, none that are deleted."""
    size_bytes: Int64 = field(default=-1)
    """Bytes of those records, as stored."""
    oldest_timestamp: Int64 = field(default=-1)
    """Timestamp of the first of those records, ms since the epoch, to the batch: when it was
    produced, or appended under message.timestamp.type=LogAppendTime. -1: nothing is left."""
    is_estimated: Bool = field(default=False)
    """The broker looked at the first batches alone."""


@nested
class TopicLag:
    """One topic's partitions."""

    name: String
    partitions: list[PartitionLag]


@response(ApiKey.DESCRIBE_LAG)
class DescribeLagResponse:
    """One item for each partition; INVALID_REQUEST and none of them where too many were named."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[TopicLag] = field(default=[])
