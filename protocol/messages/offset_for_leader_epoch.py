"""OffsetForLeaderEpoch: find where a leader epoch ends in the leader's log (KIP-101).

With the answer a reader finds the offset at which its own log or position diverges from the
leader's log.
"""

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
    """The epoch whose end offset is wanted."""


@nested
class OffsetForLeaderTopic:
    """The epochs to look up in one topic."""

    topic: String
    partitions: list[OffsetForLeaderPartition]


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Look up the end offsets of epochs; the leader of each partition must be asked."""

    replica_id: Int32 = field("3+", default=UNKNOWN_REPLICA_ID)
    """The follower's broker id; -1 for a consumer, -2 if the reader does not say."""
    topics: list[OffsetForLeaderTopic]


@nested
class EpochEndOffset:
    """The largest epoch in the log up to the requested one, and the offset where it ends."""

    error_code: Int16 = field(default=0)
    partition: Int32
    leader_epoch: Int32 = field(default=-1)
    """The epoch found. It is the requested one if the log begins with a later epoch, and -1 if no
    epoch is known."""
    end_offset: Int64 = field(default=-1)


@nested
class OffsetForLeaderTopicResult:
    """The epochs found in one topic."""

    topic: String
    partitions: list[EpochEndOffset]


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochResponse:
    """One result for each partition."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[OffsetForLeaderTopicResult]
