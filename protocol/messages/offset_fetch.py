"""OffsetFetch: groups' committed offsets; one group up to version 7, then any number (KIP-709)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

NO_OFFSET = -1
"""The `committed_offset` of a partition without a commit; this is no error."""


@nested
class OffsetFetchRequestTopics:
    """Partitions of one topic, named by id from version 10 on."""

    name: String = field("1-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partition_indexes: list[Int32]


@nested
class OffsetFetchRequestGroup:
    """A group to ask about."""

    group_id: String
    member_id: String | None = field("9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    """The epoch of a member by KIP-848; -1 otherwise."""
    topics: list[OffsetFetchRequestTopics] | None = field(default=None)
    """The topics to read; None for all committed offsets."""


@request(ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """Ask for committed offsets."""

    group_id: String = field("0-7", default="")
    topics: list[OffsetFetchRequestTopics] | None = field("0-7", nullable="2-7", default=[])
    """The topics to read; None for all committed offsets."""
    groups: list[OffsetFetchRequestGroup] = field("8+", default=[])
    require_stable: Bool = field("7+", default=False)
    """UNSTABLE_OFFSET_COMMIT where a transaction is about to change the offset (KIP-447)."""


@nested
class OffsetFetchResponsePartitions:
    """The next offset to read of one partition."""

    partition_index: Int32
    committed_offset: Int64 = field(default=NO_OFFSET)
    committed_leader_epoch: Int32 = field("5+", default=-1)
    metadata: String | None = field(default="")
    error_code: Int16 = field(default=0)


@nested
class OffsetFetchResponseTopics:
    """Offsets in one topic, named as in the request."""

    name: String = field("1-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions]


@nested
class OffsetFetchResponseGroup:
    """Offsets of one group."""

    group_id: String
    topics: list[OffsetFetchResponseTopics] = field(default=[])
    error_code: Int16 = field(default=0)


@response(ApiKey.OFFSET_FETCH)
class OffsetFetchResponse:
    """Up to version 7 the one group's offsets, then one item for each group."""

    throttle_time_ms: Int32 = field("3+", default=0)
    topics: list[OffsetFetchResponseTopics] = field("0-7", default=[])
    error_code: Int16 = field("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field("8+", default=[])
