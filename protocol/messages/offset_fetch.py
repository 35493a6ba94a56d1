"""OffsetFetch: read committed offsets of a group, from version 8 on of many groups (KIP-709)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

NO_OFFSET = -1
"""The `committed_offset` of a partition that has no commit, which is not an error."""


@nested
class OffsetFetchRequestTopics:
    """Partitions of one topic, which is named by its id from version 10 on."""

    name: String = field("1-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partition_indexes: list[Int32]


@nested
class OffsetFetchRequestGroup:
    """A group, and the topics whose offsets are wanted."""

    group_id: String
    member_id: String | None = field("9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    """The epoch of a member that uses the protocol of KIP-848; -1 otherwise."""
    topics: list[OffsetFetchRequestTopics] | None = field(default=None)
    """The topics to read; None means every topic that the group has committed."""


@request(ApiKey.OFFSET_FETCH, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """Ask for the committed offsets of groups; up to version 7, of one group."""

    group_id: String = field("0-7", default="")
    topics: list[OffsetFetchRequestTopics] | None = field("0-7", nullable="2-7", default=[])
    """The topics to read; None means every topic that the group has committed."""
    groups: list[OffsetFetchRequestGroup] = field("8+", default=[])
    require_stable: Bool = field("7+", default=False)
    """If true, an offset that an open transaction may change is answered UNSTABLE_OFFSET_COMMIT
    (KIP-447)."""


@nested
class OffsetFetchResponsePartitions:
    """A partition and the offset of the next record to read."""

    partition_index: Int32
    committed_offset: Int64 = field(default=NO_OFFSET)
    committed_leader_epoch: Int32 = field("5+", default=-1)
    metadata: String | None = field(default="")
    error_code: Int16 = field(default=0)


@nested
class OffsetFetchResponseTopics:
    """The offsets of one topic, which is named as in the request."""

    name: String = field("1-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions]


@nested
class OffsetFetchResponseGroup:
    """The offsets of one group."""

    group_id: String
    topics: list[OffsetFetchResponseTopics] = field(default=[])
    error_code: Int16 = field(default=0)


@response(ApiKey.OFFSET_FETCH)
class OffsetFetchResponse:
    """One item for each group; up to version 7 the response itself has the one group's fields."""

    throttle_time_ms: Int32 = field("3+", default=0)
    topics: list[OffsetFetchResponseTopics] = field("0-7", default=[])
    error_code: Int16 = field("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field("8+", default=[])
