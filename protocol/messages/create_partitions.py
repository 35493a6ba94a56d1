"""CreatePartitions: add partitions to existing topics; the number can only grow."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, field, nested, request, response


@nested
class CreatePartitionsAssignment:
    """The brokers of one new partition, preferred leader first."""

    broker_ids: list[Int32]


@nested
class CreatePartitionsTopic:
    """A topic that gets more partitions."""

    name: String
    count: Int32
    """The total number of partitions that the topic shall have."""
    assignments: list[CreatePartitionsAssignment] | None = field(default=None)
    """One assignment for each new partition. If it is None, the controller chooses the brokers."""


@request(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Add partitions to topics; each topic succeeds or fails on its own."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = field(default=False)


@nested
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@response(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[CreatePartitionsTopicResult]
