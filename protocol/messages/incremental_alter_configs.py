"""IncrementalAlterConfigs: set, delete, append to or subtract from single keys (KIP-339)."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Bool, Int8, Int32, String, field, nested, request, response
from .alter_configs import AlterConfigsResourceResponse


class ConfigOperation(IntEnum):
    """The changes that can be made to a key; the last two apply to lists only."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@nested
class AlterableConfig:
    """One change of one key."""

    name: String
    config_operation: Int8 = field(default=ConfigOperation.SET)
    """The kind of change: a ConfigOperation."""
    value: String | None
    """The new value; None only if the operation is DELETE."""


@nested
class AlterConfigsResource:
    """The changes to one resource; all of them are made or none."""

    resource_type: Int8
    """The kind of resource: a ResourceType of DescribeConfigs."""
    resource_name: String
    configs: list[AlterableConfig]


@request(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Change configurations; each resource succeeds or fails on its own."""

    resources: list[AlterConfigsResource]
    validate_only: Bool = field(default=False)


@response(ApiKey.INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsResponse:
    """One result for each resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlterConfigsResourceResponse]
