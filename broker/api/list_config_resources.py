"""ListConfigResources: resources that have or may have their own configuration (KIP-1142)."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..edge import Edge
from ..net.answer import Call

TYPES_FROM = 1
LISTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of each requested type, or of all types if none is requested."""
    asked = list(dict.fromkeys(request.resource_types)) or list(LISTED)
    if call.version < TYPES_FROM:
        asked = [ResourceType.CLIENT_METRICS]
    if any(each not in LISTED for each in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in asked
            for name in _names(call.edge, kind)
        ]
    )


def _names(edge: Edge, kind: int) -> list[str]:
    if kind == ResourceType.TOPIC:
        return sorted(edge.image.topic_ids)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(edge.image.brokers)]
    if kind == ResourceType.CLIENT_METRICS:
        return sorted(name for one, name in edge.image.configs if one == kind)
    return []  # Nobody can configure groups yet.
