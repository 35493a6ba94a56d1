"""DescribeConfigs: read the configuration of topics or brokers, and where each value was set."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, field, nested, request, response


class ResourceType(IntEnum):
    """The kinds of resources that have a configuration."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The place where a value was set."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """The type of a value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@nested
class DescribeConfigsResource:
    """One topic or broker."""

    resource_type: Int8
    """The kind of resource: a ResourceType."""
    resource_name: String
    """A topic's name, or a broker's id; for a broker, empty means the default of all brokers."""
    configuration_keys: list[String] | None = field(default=None)
    """The keys to describe; None means all keys."""


@request(ApiKey.DESCRIBE_CONFIGS, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Ask for the configuration of some resources."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field(default=False)
    include_documentation: Bool = field("3+", default=False)


@nested
class DescribeConfigsSynonym:
    """One place where the key is set; the first place in the list gives the value."""

    name: String
    value: String | None
    source: Int8


@nested
class DescribeConfigsResourceResult:
    """One key of the configuration."""

    name: String
    value: String | None
    """The value; None if it is sensitive or not set."""
    read_only: Bool
    """True if the key cannot be changed while the broker runs."""
    config_source: Int8 = field(default=-1)
    """The place where the value was set: a ConfigSource."""
    is_sensitive: Bool = field(default=False)
    synonyms: list[DescribeConfigsSynonym] = field(default=[])
    config_type: Int8 = field("3+", default=0)
    """The type of the value: a ConfigType."""
    documentation: String | None = field("3+", default="")


@nested
class DescribeConfigsResult:
    """The configuration of one topic or broker."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult] = field(default=[])


@response(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DescribeConfigsResult]
