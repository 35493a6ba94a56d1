"""DescribeTopicPartitions: read topics page by page, with eligible leader replicas (KIP-966)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, Uuid, field, nested, request, response
from .metadata import OPERATIONS_NOT_ASKED


@nested
class TopicRequest:
    """A topic, given by its name."""

    name: String


@nested
class Cursor:
    """The position in the list of partitions at which a page begins."""

    topic_name: String
    partition_index: Int32


@request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Ask for one page of topics and their partitions."""

    topics: list[TopicRequest]
    """The topics to describe. An empty list means every topic, in the order of the names."""
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)
    """The position to begin at; None for the first page."""


@nested
class DescribeTopicPartitionsResponsePartition:
    """One partition; replicas are given as broker ids."""

    error_code: Int16 = field(default=0)
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(default=None)
    """Replicas outside the ISR that are known to have every committed record."""
    last_known_elr: list[Int32] | None = field(default=None)
    offline_replicas: list[Int32] = field(default=[])


@nested
class DescribeTopicPartitionsResponseTopic:
    """One topic, or the error for a topic of the request."""

    error_code: Int16 = field(default=0)
    name: String | None
    topic_id: Uuid
    is_internal: Bool = field(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default=[])
    topic_authorized_operations: Int32 = field(default=OPERATIONS_NOT_ASKED)


@response(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsResponse:
    """A page of topics, and the position where the next page begins."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(default=None)
    """The position of the next page; None if this is the last page."""
