"""DescribeReplicas, our own API: each broker reports the state of its own replicas."""

from enum import IntEnum
from typing import Final

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

MOST_REPLICAS: Final = 500
"""The most partitions that one request may name; the response has then about 300 kB."""
MOST_EPOCHS: Final = 32
"""The most leader epochs that are reported of each replica."""
MOST_TRANSACTIONS: Final = 10
"""The most open transactions that are reported of each replica."""


class ReplicaRole(IntEnum):
    """The role of a replica."""

    NONE = 0
    """The replica has no leader yet, or its directory has failed."""
    LEADER = 1
    FOLLOWER = 2


@nested
class TopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.DESCRIBE_REPLICAS, versions="0", flexible="0+")
class DescribeReplicasRequest:
    """Ask a broker about its replicas of these partitions, at most MOST_REPLICAS."""

    topics: list[TopicRequest]


@nested
class EpochStart:
    """A leader epoch, and the offset at which it began in this replica's log."""

    leader_epoch: Int32
    start_offset: Int64


@nested
class FollowerState:
    """A follower, as the leader knows it from the fetches of this leader epoch."""

    broker_id: Int32
    log_end_offset: Int64 = field(default=-1)
    """The follower has fetched everything before this offset; -1 if it has not fetched yet."""
    held_offset: Int64 = field(default=-1)
    """Everything before this offset counts towards the high watermark; with flush.policy=group,
    that is what the follower has flushed."""
    behind_ms: Int64
    """Milliseconds since the follower last had the whole of the leader's log; 0 if it has it now.
    For a follower that has not fetched in this epoch the time is a bound: since the epoch began if
    it is in sync, else replica.lag.time.max.ms more."""


@nested
class UndecidedTransaction:
    """A transaction that is still open in this partition."""

    producer_id: Int64
    producer_epoch: Int16
    first_offset: Int64
    started_ms: Int64 = field(default=-1)
    """The timestamp of the transaction's first record, ms since the epoch. It is -1 if the broker
    would have to read its disk to know it."""


@nested
class PartitionResponse:
    """The state of one replica; offsets are -1 if there is an error."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    role: Int8 = field(default=ReplicaRole.NONE)
    leader_id: Int32 = field(default=-1)
    """The leader that this broker knows of; -1 if it knows none."""
    leader_epoch: Int32 = field(default=-1)
    log_start_offset: Int64 = field(default=-1)
    log_end_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    last_stable_offset: Int64 = field(default=-1)
    size_bytes: Int64 = field(default=-1)
    segment_count: Int32 = field(default=-1)
    directory_id: Uuid = field(default=ZERO_UUID)
    epochs: list[EpochStart] = field(default=[])
    """The newest leader epochs, oldest first."""
    isr_nodes: list[Int32] = field(default=[])
    """The replicas in sync; empty if this replica does not lead."""
    followers: list[FollowerState] = field(default=[])
    """The followers in the order of the assignment; empty if this replica does not lead."""
    open_transactions: list[UndecidedTransaction] = field(default=[])
    """The oldest open transactions. The first of them holds back the last stable offset."""


@nested
class TopicResponse:
    """Replicas of one topic's partitions."""

    name: String
    partitions: list[PartitionResponse]


@response(ApiKey.DESCRIBE_REPLICAS)
class DescribeReplicasResponse:
    """One item for each partition; no item and INVALID_REQUEST if the request named too many."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[TopicResponse] = field(default=[])
