"""OffsetCommit: store the offsets up to which a group has read its partitions."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

NO_GENERATION = -1
"""The generation in a commit by a client that is no group member; its member id is empty."""


@nested
class OffsetCommitRequestPartition:
    """A partition and the offset of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("6+", default=-1)
    """The leader epoch of the last record read; -1 if it is not known."""
    committed_metadata: String | None = field(default=None)
    """A text of the application, which the broker stores and returns."""


@nested
class OffsetCommitRequestTopic:
    """The offsets of one topic, which is named by its id from version 10 on."""

    name: String = field("0-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition]


@request(ApiKey.OFFSET_COMMIT, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Commit offsets; each partition succeeds or fails on its own."""

    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=NO_GENERATION)
    member_id: String = field(default="")
    group_instance_id: String | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    """Milliseconds to keep the offsets; -1 means the broker's offsets.retention.minutes."""
    topics: list[OffsetCommitRequestTopic]


@nested
class OffsetCommitResponsePartition:
    """The result for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = field(default=0)


@nested
class OffsetCommitResponseTopic:
    """The results for one topic, which is named as in the request."""

    name: String = field("0-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition]


@response(ApiKey.OFFSET_COMMIT)
class OffsetCommitResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = field("3+", default=0)
    topics: list[OffsetCommitResponseTopic]
