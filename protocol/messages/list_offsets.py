"""ListOffsets: find the first or last offset of a partition, or the offset at a time."""

from collections.abc import Iterable, Mapping

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, Int64, String, field, nested, request, response

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
"""The timestamp that asks for the record with the largest timestamp (version 7, KIP-734)."""
EARLIEST_LOCAL_TIMESTAMP = -4
"""The timestamp that asks for the first offset on the broker's own disk (version 8)."""
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


@nested
class ListOffsetsPartition:
    """One partition and the time to look up."""

    partition_index: Int32
    current_leader_epoch: Int32 = field("4+", default=-1)
    timestamp: Int64
    """The time in ms at or after which the first record is wanted, or one of the constants above.
    """


@nested
class ListOffsetsTopic:
    """The partitions to look up in one topic."""

    name: String
    partitions: list[ListOffsetsPartition]


@request(ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """Look up offsets on the partitions' leaders."""

    replica_id: Int32 = field(default=-1)
    """The id of the broker that asks; -1 for a consumer."""
    isolation_level: Int8 = field("2+", default=0)
    """The isolation level, which decides on the latest offset: the high watermark for 0, the last
    stable offset for 1."""
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field("10+", default=0)
    """Milliseconds that a lookup in tiered storage may take."""


def request_of_ends(topics: Mapping[str, Iterable[int]]) -> ListOffsetsRequest:
    """Make a consumer's request for the high watermarks of these partitions."""
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP)
                    for index in indexes
                ],
            )
            for topic, indexes in topics.items()
        ]
    )


@nested
class ListOffsetsPartitionResponse:
    """The offset found in one partition."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    timestamp: Int64 = field(default=-1)
    """The timestamp of the record found, in ms since the epoch. It is -1 if none was found, and for
    the earliest and latest offset."""
    offset: Int64 = field(default=-1)
    """The offset found; -1 if no record has that timestamp or a later one."""
    leader_epoch: Int32 = field("4+", default=-1)


@nested
class ListOffsetsTopicResponse:
    """The offsets found in one topic."""

    name: String
    partitions: list[ListOffsetsPartitionResponse]


@response(ApiKey.LIST_OFFSETS)
class ListOffsetsResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = field("2+", default=0)
    topics: list[ListOffsetsTopicResponse]
