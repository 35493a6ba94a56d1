"""DescribeCluster: the cluster's brokers, with their addresses on this listener (KIP-700)."""

from ...protocol.acls import Resource
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    BROKERS,
    CONTROLLERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..net.answer import Call
from .common import OPERATIONS_NOT_ASKED, operations_told


def handle(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """List the brokers; refuse to list controllers, which answer DescribeCluster themselves."""
    edge, image = call.edge, call.edge.image
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if is_known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="ask a controller" if is_known else None,
            cluster_id=image.cluster_id or "",
            brokers=[],
        )
    brokers = [image.brokers[broker_id] for broker_id in sorted(image.brokers)]
    asks = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id or "",
        controller_id=edge.whereabouts.controller_id(),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in brokers
            if (endpoint := broker.endpoint(call.connection.listener.name)) is not None
            and (request.include_fenced_brokers or not broker.fenced)
        ],
        cluster_authorized_operations=(
            operations_told(call, Resource.CLUSTER) if asks else OPERATIONS_NOT_ASKED
        ),
    )
