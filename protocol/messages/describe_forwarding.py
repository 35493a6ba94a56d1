"""DescribeForwarding, our own API: leaders tell what waits in delay topics, and for whom."""

from typing import Final

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, Uuid, field, nested, request, response

MOST_PARTITIONS: Final = 500
"""The most partitions that one request may name."""
MOST_TARGETS: Final = 100
"""The most target partitions that are told of each partition."""


@nested
class ForwardingTopic:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.DESCRIBE_FORWARDING, versions="0", flexible="0+")
class DescribeForwardingRequest:
    """Ask the leaders of at most MOST_PARTITIONS partitions."""

    topics: list[ForwardingTopic]


@nested
class TargetStatus:
    """A target partition for which records are planned."""

    topic_id: Uuid
    partition_index: Int32
    records: Int64
    """The records that it has not taken yet."""
    error_code: Int16 = field(default=0)
    """The last error; 0 if it takes what it gets."""


@nested
class ForwardingStatus:
    """The state of one partition. Counts of what is over begin anew with the leader's process."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    """INVALID_REQUEST if the topic is no delay topic."""
    pending: Int64 = field(default=0)
    """The records that wait, those of open transactions left out."""
    planned: Int64 = field(default=0)
    """The records that are on their way."""
    next_due_ms: Int64 = field(default=-1)
    """When the next record is due, in ms since the epoch; -1 if none waits."""
    forwarded: Int64 = field(default=0)
    dead_letters: Int64 = field(default=0)
    dropped: Int64 = field(default=0)
    """The records that nobody could take."""
    cancelled: Int64 = field(default=0)
    targets: list[TargetStatus] = field(default=[])


@nested
class ForwardingTopicResult:
    """One topic's partitions."""

    name: String
    partitions: list[ForwardingStatus]


@response(ApiKey.DESCRIBE_FORWARDING)
class DescribeForwardingResponse:
    """One item for each partition; no items and INVALID_REQUEST if the request named too many."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    topics: list[ForwardingTopicResult] = field(default=[])
