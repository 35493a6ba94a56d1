"""CreatePartitions: more partitions for existing topics; their number never goes down."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, String, field, nested, request, response


@nested
class CreatePartitionsAssignment:
    """The brokers of one new partition, preferred leader first."""

    broker_ids: list[Int32]


@nested
class CreatePartitionsTopic:
    """A topic to grow."""

    name: String
    count: Int32
    """The number of partitions that the topic shall have in all."""
    assignments: list[CreatePartitionsAssignment] | None = field(default=None)
    """One assignment for each new partition; None if the controller shall choose."""


@request(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Grow topics, each on its own."""

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
