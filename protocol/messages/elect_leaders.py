"""ElectLeaders: elect preferred leaders, or unclean leaders where no in-sync replica is alive."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response


class ElectionType(IntEnum):
    """The replicas that may be elected (KIP-460)."""

    PREFERRED = 0
    """Elect the first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """If there is no leader, elect the live replica with the longest log. It may lack records."""


@nested
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@request(ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect leaders of these partitions; version 0 can ask for preferred leaders only."""

    election_type: Int8 = field("1+", default=ElectionType.PREFERRED)
    topic_partitions: list[TopicPartitions] | None
    """The partitions to elect leaders of; None for all."""
    timeout_ms: Int32 = field(default=60_000)


@nested
class PartitionResult:
    """The result for one partition."""

    partition_id: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@nested
class ReplicaElectionResult:
    """The results for one topic's partitions."""

    topic: String
    partition_result: list[PartitionResult]


@response(ApiKey.ELECT_LEADERS)
class ElectLeadersResponse:
    """One result for each partition of the request, or if it named none, for each that changed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default=[])
