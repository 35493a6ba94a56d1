"""DescribeLag, our own API: leaders report how much is left to read after committed offsets."""

from typing import Final

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response

MOST_PARTITIONS: Final = 500
"""The most partitions that one request may name."""


@nested
class CommittedPartition:
    """A partition and the committed offset from which its lag is counted."""

    partition_index: Int32
    committed_offset: Int64
    """The offset of the next record to read: everything before it counts as read."""


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
    """The lag of one partition; its offsets are -1 if there is an error."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    log_start_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    last_stable_offset: Int64 = field(default=-1)
    records: Int64 = field(default=-1)
    """The number of records that a consumer would still get, from the committed offset up to the
    last stable offset. Markers, deleted records and records of aborted transactions do not count.
    """
    size_bytes: Int64 = field(default=-1)
    """Bytes of those records, as stored."""
    oldest_timestamp: Int64 = field(default=-1)
    """The timestamp, in ms since the epoch, of the oldest of those records: the time when it was
    produced, or appended if message.timestamp.type=LogAppendTime. It is exact to the batch, and -1
    if no record is left to read."""
    is_estimated: Bool = field(default=False)
    """True if the broker read only the first batches and estimated the rest."""


@nested
class TopicLag:
    """One topic's partitions."""

    name: String
    partitions: list[PartitionLag]


@response(ApiKey.DESCRIBE_LAG)
class DescribeLagResponse:
    """One item for each partition; no items and INVALID_REQUEST if the request named too many."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[TopicLag] = field(default=[])
