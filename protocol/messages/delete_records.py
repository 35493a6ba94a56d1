"""DeleteRecords: delete all records before an offset (KIP-107)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response

HIGH_WATERMARK = -1
"""The `offset` that stands for the high watermark, so that every committed record is deleted."""
NO_LOW_WATERMARK = -1


@nested
class DeleteRecordsPartition:
    """One partition and its new log start offset."""

    partition_index: Int32
    offset: Int64


@nested
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsPartition]


@request(ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Delete records; the leader of each partition must be asked."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@nested
class DeleteRecordsPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    low_watermark: Int64 = field(default=NO_LOW_WATERMARK)
    """The smallest log start offset among the live replicas; -1 if there is an error."""
    error_code: Int16 = field(default=0)


@nested
class DeleteRecordsTopicResult:
    """The results for one topic's partitions."""

    name: String
    partitions: list[DeleteRecordsPartitionResult]


@response(ApiKey.DELETE_RECORDS)
class DeleteRecordsResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[DeleteRecordsTopicResult]
