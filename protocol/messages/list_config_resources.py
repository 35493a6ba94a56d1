"""ListConfigResources: list the resources that have their own configuration (KIP-1142).

Version 0 lists client metrics subscriptions only.
"""

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response
from .describe_configs import ResourceType


@request(ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """Ask for resources of some types; an empty list means all types."""

    resource_types: list[Int8] = field("1+", default=[])


@nested
class ConfigResource:
    """One resource."""

    resource_name: String
    resource_type: Int8 = field("1+", default=ResourceType.CLIENT_METRICS)


@response(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesResponse:
    """The resources found."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    config_resources: list[ConfigResource] = field(default=[])
