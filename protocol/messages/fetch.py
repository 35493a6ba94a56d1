"""Fetch: read record batches, as a consumer or, to replicate them, as a follower.

A request with a session id names only partitions whose parameters changed since the last request
(KIP-227). A follower that fetches at offset N thereby confirms that it has everything before N; its
`last_fetched_epoch` lets the leader find the offset at which the two logs diverge (KIP-595).
"""

from ..api import ApiKey
from ..schema import (
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    field,
    nested,
    request,
    response,
)
from ..types import ZERO_UUID
from .leader_hint import LeaderIdAndEpoch, NodeEndpoint

FLUSHED_OFFSET_TAG = 10_000
INCARNATION_TAG = 10_001
UNKNOWN_HIGH_WATERMARK = 2**63 - 1
INVALID_SESSION_ID = 0
FINAL_SESSION_EPOCH = -1
INITIAL_SESSION_EPOCH = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@nested
class ReplicaState:
    """The follower's identity; from version 15 on its broker epoch fences zombies (KIP-903)."""

    replica_id: Int32 = field(default=-1)
    """The follower's broker id; -1 for a consumer, -2 for a tool that may read from any replica."""
    replica_epoch: Int64 = field(default=-1)
    incarnation_id: Uuid = field("15+", default=ZERO_UUID, tag=INCARNATION_TAG)
    """Our own field: the incarnation id of the follower's registration. It is zeros if the follower
    does not send it; clients do not know the field."""


@nested
class FetchPartition:
    """A partition, the offset to read from, and how much to read."""

    partition: Int32
    current_leader_epoch: Int32 = field("9+", default=-1)
    """The leader epoch that the reader knows; -1 skips the check."""
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field("12+", default=-1)
    """Epoch of the last batch in the reader's log; -1 if the log is empty, or to skip the check."""
    log_start_offset: Int64 = field("5+", default=-1)
    """The follower's log start offset; -1 from a consumer."""
    partition_max_bytes: Int32
    """The most bytes to read; the first batch is returned whole even if it is larger."""
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0)
    high_watermark: Int64 = field("18+", default=UNKNOWN_HIGH_WATERMARK, tag=1)
    """The high watermark that the reader knows. A leader with a higher one answers without waiting
    (KIP-1166)."""
    flushed_offset: Int64 = field("12+", default=-1, tag=FLUSHED_OFFSET_TAG)
    """Our own field: the offset up to which the follower's log is flushed; -1 if the follower does
    not send it."""


@nested
class FetchTopic:
    """The partitions to read of one topic, given by name up to version 12, by id from 13 on."""

    topic: String = field("4-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[FetchPartition]


@nested
class ForgottenTopic:
    """Partitions to drop from the session."""

    topic: String = field("4-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[Int32]


@request(ApiKey.FETCH, versions="4-18", flexible="12+")
class FetchRequest:
    """Read from partitions; wait up to `max_wait_ms` until `min_bytes` of records are available."""

    cluster_id: String | None = field("12+", default=None, tag=0)
    replica_id: Int32 = field("4-14", default=-1)
    replica_state: ReplicaState | None = field("15+", default=None, tag=1)
    """The follower that reads; None for a consumer."""
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFF_FFFF)
    isolation_level: Int8 = field(default=0)
    """The bound of the read: 0 for the high watermark, 1 for the last stable offset."""
    session_id: Int32 = field("7+", default=INVALID_SESSION_ID)
    session_epoch: Int32 = field("7+", default=FINAL_SESSION_EPOCH)
    """The number of this request in the session; 0 begins a session, -1 uses none. Both close the
    session that `session_id` names."""
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default=[])
    rack_id: String = field("11+", default="")


@nested
class EpochEndOffset:
    """The end of an epoch in the leader's log, to which the follower truncates."""

    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


@nested
class SnapshotId:
    """The snapshot that the reader must load first; used by the metadata quorum only."""

    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


@nested
class AbortedTransaction:
    """The records of a producer from `first_offset` up to its next abort marker are aborted."""

    producer_id: Int64
    first_offset: Int64


@nested
class PartitionData:
    """The batches read from one partition, and its high watermark, last stable and start offset."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    high_watermark: Int64
    last_stable_offset: Int64 = field(default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field("12+", default=None, tag=0)
    current_leader: LeaderIdAndEpoch | None = field("12+", default=None, tag=1)
    snapshot_id: SnapshotId | None = field("12+", default=None, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(default=None)
    """The aborted transactions in `records`; None unless `isolation_level` is 1."""
    preferred_read_replica: Int32 = field("11+", default=-1)
    """The id of a nearer replica to read from; -1 if there is none (KIP-392)."""
    records: Records | None
    """Whole batches; the first may begin before the requested offset."""


@nested
class FetchableTopicResponse:
    """The partitions of one topic that were read."""

    topic: String = field("4-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[PartitionData]


@response(ApiKey.FETCH)
class FetchResponse:
    """The batches read; within a session, only partitions that have something new."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("7+", default=0)
    session_id: Int32 = field("7+", default=INVALID_SESSION_ID)
    """The id of the session; 0 if there is none."""
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", default=[], tag=0)
    """Endpoints of the leaders that `current_leader` names."""
