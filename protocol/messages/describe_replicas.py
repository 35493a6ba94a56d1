"""DescribeReplicas, our own API: the state of replicas, each reported by its broker."""

from enum import IntEnum
from typing import Final

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

MOST_REPLICAS: Final = 500
"""Partitions that one request may name: a response of some 300 kB, encoded in one go."""
MOST_EPOCHS: Final = 32
"""The most leader epochs that are reported for each replica."""
MOST_TRANSACTIONS: Final = 10
"""The most open transactions that are reported for each replica."""


class ReplicaRole(IntEnum):
    """The role of a replica."""

    NONE = 0
    """It has no leader yet, or its directory failed."""
    LEADER = 1
    FOLLOWER = 2


@nested
class TopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.DESCRIBE_REPLICAS, versions="0", flexible="0+")
class DescribeReplicasRequest:
    """Ask a broker for its replicas of these partitions, at most MOST_REPLICAS."""

    topics: list[TopicRequest]


@nested
class EpochStart:
    """A leader epoch, and the offset at which it began in this replica's log."""

    leader_epoch: Int32
    start_offset: Int64


@nested
class FollowerState:
    """A follower, as the leader knows it by its fetches in this leader epoch."""

    broker_id: Int32
    log_end_offset: Int64 = field(default=-1)
    """The offset before which all is fetched; -1 if the follower has not fetched yet."""
    held_offset: Int64 = field(default=-1)
    """Everything before it counts as held: under flush.policy=group, what the follower has
    flushed."""
    behind_ms: Int64
    """Milliseconds since the follower last held all of the leader's log; 0: it does now. Where it
    has not fetched yet, since it might have: in sync from the epoch's begin on, out of sync
    replica.lag.time.max.ms longer."""


@nested
class UndecidedTransaction:
    """A transaction that no marker has decided."""

    producer_id: Int64
    producer_epoch: Int16
    first_offset: Int64
    started_ms: Int64 = field(default=-1)
    """Timestamp of its first record, ms since the epoch; -1 where only a read of the disk would
    tell."""


@nested
class PartitionResponse:
    """The replica of one partition; offsets are -1 beside an error."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    role: Int8 = field(default=ReplicaRole.NONE)
    leader_id: Int32 = field(default=-1)
    """The leader that this broker knows of; -1 if none."""
    leader_epoch: Int32 = field(default=-1)
    log_start_offset: Int64 = field(default=-1)
    log_end_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    last_stable_offset: Int64 = field(default=-1)
    size_bytes: Int64 = field(default=-1)
    segment_count: Int32 = field(default=-1)
    directory_id: Uuid = field(default=ZERO_UUID)
    epochs: list[EpochStart] = field(default=[])
    """The newest of them, oldest first."""
    isr_nodes: list[Int32] = field(default=[])
    """Empty where the replica does not lead."""
    followers: list[FollowerState] = field(default=[])
    """In the order of the assignment; empty where the replica does not lead."""
    open_transactions: list[UndecidedTransaction] = field(default=[])
    """The oldest of them: the first one holds the last stable offset back."""


@nested
class TopicResponse:
    """Replicas of one topic's partitions."""

    name: String
    partitions: list[PartitionResponse]


@response(ApiKey.DESCRIBE_REPLICAS)
class DescribeReplicasResponse:
    """One item for each partition; INVALID_REQUEST and none of them where too many were named."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[TopicResponse] = field(default=[])
