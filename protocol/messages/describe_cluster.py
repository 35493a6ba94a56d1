"""DescribeCluster: the cluster's id, nodes and controller (KIP-700, KIP-919)."""

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, field, nested, request, response
from .metadata import OPERATIONS_NOT_ASKED

BROKERS, CONTROLLERS = 1, 2


@request(ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Ask for the nodes of one kind: brokers or controllers."""

    include_cluster_authorized_operations: Bool = field(default=False)
    endpoint_type: Int8 = field("1+", default=BROKERS)
    """The kind of nodes: 1 for brokers, 2 for controllers."""
    include_fenced_brokers: Bool = field("2+", default=False)


@nested
class DescribeClusterBroker:
    """A node, with its address on the listener that received the request."""

    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)
    is_fenced: Bool = field("2+", default=False)


@response(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterResponse:
    """The nodes, and the operations on the cluster that the client is allowed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=BROKERS)
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = field(default=OPERATIONS_NOT_ASKED)
    """The allowed operations as a bit set; the smallest int32 if they were not asked for."""
