"""OffsetDelete: delete a group's offsets in partitions that it no longer reads (KIP-496)."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@nested
class OffsetDeleteRequestPartition:
    """A partition whose committed offset is to be deleted."""

    partition_index: Int32


@nested
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteRequestPartition]


@request(ApiKey.OFFSET_DELETE, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Delete committed offsets."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@nested
class OffsetDeleteResponsePartition:
    """The result for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = field(default=0)


@nested
class OffsetDeleteResponseTopic:
    """The results for one topic's offsets."""

    name: String
    partitions: list[OffsetDeleteResponsePartition]


@response(ApiKey.OFFSET_DELETE)
class OffsetDeleteResponse:
    """The error of the group, or else one result for each partition."""

    error_code: Int16 = field(default=0)
    throttle_time_ms: Int32 = field(default=0)
    topics: list[OffsetDeleteResponseTopic] = field(default=[])
