"""DescribeReplicas, our own API: each broker reports the state of its own replicas."""

from enum import IntEnum
from typing import Final

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, Int64, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

MOST_REPLICAS: Final = 500
"""The most partitions that one request may name; the response then has about 300 kB."""
MOST_EPOCHS: Final = 32
"""The most leader epochs that are reported for each replica."""
MOST_TRANSACTIONS: Final = 10
"""The most open transactions that are reported for each replica."""


class ReplicaRole(IntEnum):
    """The role of a replica."""

    NONE = 0
    """The replica has no role: it knows no leader yet, or its directory has failed."""
    LEADER = 1
    FOLLOWER = 2


@nested
class TopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.DESCRIBE_REPLICAS, versions="0", flexible="0+")
class DescribeReplicasRequest:
    """Ask a broker about its replicas of at most MOST_REPLICAS partitions."""

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
    """The offset up to which the follower has fetched; -1 if it has not fetched yet."""
    held_offset: Int64 = field(default=-1)
    """The offset up to which the follower's log counts for the high watermark. With
    flush.policy=group only the flushed part of the log counts."""
    behind_ms: Int64
    """Milliseconds since the follower last had the leader's whole log; 0 if it has it now. If it
    has not fetched in this epoch, the time counts from the epoch's start; for a follower outside
    the ISR replica.lag.time.max.ms is added."""


@nested
class UndecidedTransaction:
    """A transaction that is still open in this partition."""

    producer_id: Int64
    producer_epoch: Int16
    first_offset: Int64
    started_ms: Int64 = field(default=-1)
    """The timestamp of the transaction's first record, in ms since the epoch. It is -1 if the
    broker would have to read its disk for it."""


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
    """The in-sync replicas; empty if this replica does not lead."""
    followers: list[FollowerState] = field(default=[])
    """The followers in the order of the assignment; empty if this replica does not lead."""
    open_transactions: list[UndecidedTransaction] = field(default=[])
    """The oldest open transactions; the first of them determines the last stable offset."""


@nested
class TopicResponse:
    """Replicas of one topic's partitions."""

    name: String
    partitions: list[PartitionResponse]


@response(ApiKey.DESCRIBE_REPLICAS)
class DescribeReplicasResponse:
    """One item for each partition; no items and INVALID_REQUEST if the request named too many."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[TopicResponse] = field(default=[])
