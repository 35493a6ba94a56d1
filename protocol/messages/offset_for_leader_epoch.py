"""OffsetForLeaderEpoch: the end of an epoch in the leader's log, to find lost data (KIP-101)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response

CONSUMER_REPLICA_ID = -1
UNKNOWN_REPLICA_ID = -2


@nested
class OffsetForLeaderPartition:
    """One partition and the epoch to look up."""

    partition: Int32
    current_leader_epoch: Int32 = field(default=-1)
    """The leader epoch that the reader knows; -1 skips the check."""
    leader_epoch: Int32
    """The epoch whose end is asked for."""


@nested
class OffsetForLeaderTopic:
    """The epochs to look up in one topic."""

    topic: String
    partitions: list[OffsetForLeaderPartition]


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Look up ends of epochs on the partitions' leaders."""

    replica_id: Int32 = field("3+", default=UNKNOWN_REPLICA_ID)
    """-1 for a consumer, -2 when not said."""
    topics: list[OffsetForLeaderTopic]


@nested
class EpochEndOffset:
    """The largest epoch not above the one asked for, and its end offset."""

    error_code: Int16 = field(default=0)
    partition: Int32
    leader_epoch: Int32 = field(default=-1)
    """-1 when the log knows no epoch so old."""
    end_offset: Int64 = field(default=-1)


@nested
class OffsetForLeaderTopicResult:
    """The epochs found in one topic."""

    topic: String
    partitions: list[EpochEndOffset]


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochResponse:
    """One answer for each question."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[OffsetForLeaderTopicResult]
