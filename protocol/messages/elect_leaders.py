"""ElectLeaders: preferred leaders lead again, or replicas out of sync where no other is left."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response


class ElectionType(IntEnum):
    """Which replicas may win (KIP-460)."""

    PREFERRED = 0
    """The first in the list of replicas, if it is in sync."""
    UNCLEAN = 1
    """Where there is no leader: the living one that has most, though it may miss records."""


@nested
class TopicPartitions:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@request(ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect leaders of these partitions; version 0 knows preferred ones only."""

    election_type: Int8 = field("1+", default=ElectionType.PREFERRED)
    topic_partitions: list[TopicPartitions] | None
    """None: all partitions there are."""
    timeout_ms: Int32 = field(default=60_000)


@nested
class PartitionResult:
    """What became of one partition."""

    partition_id: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@nested
class ReplicaElectionResult:
    """What became of one topic's partitions."""

    topic: String
    partition_result: list[PartitionResult]


@response(ApiKey.ELECT_LEADERS)
class ElectLeadersResponse:
    """A result for each partition named; for all of them, where none was: those with news."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default=[])
