"""AlterPartitionReassignments: move replicas to other brokers, or cancel such a move (KIP-455)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, field, nested, request, response


@nested
class ReassignablePartition:
    """One partition, and the brokers that shall hold its replicas."""

    partition_index: Int32
    replicas: list[Int32] | None = field(default=None)
    """The new replicas, preferred leader first. None cancels the reassignment that is under way."""


@nested
class ReassignableTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[ReassignablePartition]


@request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Begin, change or cancel reassignments; each partition succeeds or fails on its own."""

    timeout_ms: Int32 = field(default=60_000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    """If false, a change of the number of replicas is refused (KIP-860)."""
    topics: list[ReassignableTopic]


@nested
class ReassignablePartitionResponse:
    """The result for one partition: its reassignment has begun, or there is an error."""

    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@nested
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: list[ReassignablePartitionResponse]


@response(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsResponse:
    """A result for each partition; the reassignments continue after this response."""

    throttle_time_ms: Int32 = field(default=0)
    allow_replication_factor_change: Bool = field("1+", default=True)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    responses: list[ReassignableTopicResponse] = field(default=[])
