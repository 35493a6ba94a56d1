"""AlterConfigs: replace the whole configuration of a resource.

A key that is not named returns to its default. KIP-339 deprecated this API, but clients still send
it.
"""

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, field, nested, request, response


@nested
class AlterableConfig:
    """A key and its value."""

    name: String
    value: String | None


@nested
class AlterConfigsResource:
    """One topic or broker and its whole configuration."""

    resource_type: Int8
    """The kind of resource: a ResourceType of DescribeConfigs."""
    resource_name: String
    configs: list[AlterableConfig]


@request(ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace the whole configuration of each resource; each succeeds or fails on its own."""

    resources: list[AlterConfigsResource]
    validate_only: Bool = field(default=False)


@nested
class AlterConfigsResourceResponse:
    """The result for one resource."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    resource_type: Int8
    resource_name: String


@response(ApiKey.ALTER_CONFIGS)
class AlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlterConfigsResourceResponse]
