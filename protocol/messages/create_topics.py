"""CreateTopics: create topics with a number of partitions and replicas, or with an assignment."""

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID

BROKER_DEFAULT = -1
"""The number that stands for the cluster's default number of partitions or replication factor."""


@nested
class CreatableReplicaAssignment:
    """The brokers of one partition, preferred leader first."""

    partition_index: Int32
    broker_ids: list[Int32]


@nested
class CreatableTopicConfig:
    """A key of the topic's configuration and its value."""

    name: String
    value: String | None


@nested
class CreatableTopic:
    """A topic to create."""

    name: String
    num_partitions: Int32 = field(default=BROKER_DEFAULT)
    """The number of partitions; -1 for the cluster's default, and always with `assignments`."""
    replication_factor: Int16 = field(default=BROKER_DEFAULT)
    assignments: list[CreatableReplicaAssignment] = field(default=[])
    """The brokers of each partition. If the list is empty, the controller chooses them."""
    configs: list[CreatableTopicConfig] = field(default=[])


@request(ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Create topics; each topic succeeds or fails on its own."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60_000)
    validate_only: Bool = field(default=False)


@nested
class CreatableTopicConfigs:
    """A key and its value in the configuration of the new topic."""

    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = field(default=-1)
    """The place where the value was set: a ConfigSource of DescribeConfigs."""
    is_sensitive: Bool


@nested
class CreatableTopicResult:
    """The result for one topic."""

    name: String
    topic_id: Uuid = field("7+", default=ZERO_UUID)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    topic_config_error_code: Int16 = field("5+", default=0, tag=0)
    """The error that explains why `configs` is None."""
    num_partitions: Int32 = field("5+", default=-1)
    replication_factor: Int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+", default=[])
    """The new topic's configuration. It is None if the client is not allowed to read it."""


@response(ApiKey.CREATE_TOPICS)
class CreateTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[CreatableTopicResult]
