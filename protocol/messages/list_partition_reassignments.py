"""ListPartitionReassignments: list the partitions that are being reassigned (KIP-455)."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@nested
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32]


@request(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Ask about some partitions, or about all."""

    timeout_ms: Int32 = field(default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)


@nested
class OngoingPartitionReassignment:
    """One partition that is being reassigned."""

    partition_index: Int32
    replicas: list[Int32]
    """The ids of all brokers with a replica, old and new."""
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@nested
class OngoingTopicReassignment:
    """The partitions of one topic that are being reassigned."""

    name: String
    partitions: list[OngoingPartitionReassignment]


@response(ApiKey.LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsResponse:
    """The partitions that are being reassigned, and no others."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topics: list[OngoingTopicReassignment] = field(default=[])
