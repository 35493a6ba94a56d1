"""Produce: append record batches to the partitions that the broker leads.

Versions 0 to 2 have older record formats. ApiVersions lists these versions, because librdkafka
before 2.11.1 requires that, but requests in them are refused.
"""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, Records, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID
from .leader_hint import LeaderIdAndEpoch, NodeEndpoint

ACKS_ALL = -1
"""The `acks` of a producer that waits until all in-sync replicas have its batches."""


@nested
class PartitionProduceData:
    """Batches for one partition."""

    index: Int32
    records: Records | None


@nested
class TopicProduceData:
    """Batches for one topic, named up to version 12 and given by its id from 13 on (KIP-516)."""

    name: String = field("3-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData]


@request(ApiKey.PRODUCE, versions="3-13", advertise="0-13", flexible="9+", most_items=20_000)
class ProduceRequest:
    """Append record batches to partitions that this broker leads."""

    transactional_id: String | None = field(default=None)
    acks: Int16
    """The replicas to wait for: -1 for every in-sync replica, 1 for the leader only, 0 for none.
    With 0 there is no response."""
    timeout_ms: Int32
    """Milliseconds that a request with acks=-1 may wait for the replicas."""
    topic_data: list[TopicProduceData]


@nested
class BatchIndexAndErrorMessage:
    """One record that caused its batch to be refused."""

    batch_index: Int32
    """The index of the record in the partition's batch."""
    batch_index_error_message: String | None = field(default=None)


@nested
class PartitionProduceResponse:
    """The result for one partition's batches."""

    index: Int32
    error_code: Int16 = field(default=0)
    base_offset: Int64
    """Offset of the first record; -1 if nothing was appended."""
    log_append_time_ms: Int64 = field(default=-1)
    """The time of the append if the topic has message.timestamp.type=LogAppendTime, else -1."""
    log_start_offset: Int64 = field("5+", default=-1)
    """The partition's log start offset, by which a producer distinguishes retention from data loss;
    -1 if unknown."""
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", default=[])
    error_message: String | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch | None = field("10+", default=None, tag=0)
    """The present leader, given with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""


@nested
class TopicProduceResponse:
    """The results for one topic's batches."""

    name: String = field("3-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse]


@response(ApiKey.PRODUCE)
class ProduceResponse:
    """One result for each partition of the request; there is no response if acks=0."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field(default=0)
    node_endpoints: list[NodeEndpoint] = field("10+", default=[], tag=0)
    """Endpoints of the leaders that `current_leader` names."""
