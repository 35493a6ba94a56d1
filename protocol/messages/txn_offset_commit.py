"""TxnOffsetCommit: commit a group's offsets as part of a transaction (KIP-98)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response


@nested
class TxnOffsetCommitRequestPartition:
    """A partition and the offset of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("2+", default=-1)
    committed_metadata: String | None = field(default=None)


@nested
class TxnOffsetCommitRequestTopic:
    """The offsets of one topic."""

    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@request(ApiKey.TXN_OFFSET_COMMIT, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commit offsets of a group; from version 5 on, this also adds the group to the transaction."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    """The generation; with member id and instance id it fences outdated consumers (KIP-447)."""
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@nested
class TxnOffsetCommitResponsePartition:
    """The result for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = field(default=0)


@nested
class TxnOffsetCommitResponseTopic:
    """The results for one topic's offsets."""

    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@response(ApiKey.TXN_OFFSET_COMMIT)
class TxnOffsetCommitResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TxnOffsetCommitResponseTopic]
