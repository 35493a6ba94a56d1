"""Hello: checks the cluster, chooses a version, and names the active controller."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    Hello,
    HelloAnswer,
)
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ..server import ControllerServer


def answer(server: "ControllerServer", greeting: Hello) -> HelloAnswer:
    """Accept the peer, or refuse it with an error that says why."""
    controller, node_id = server.controller, server.config.node_id
    cluster_id = controller.cluster_id
    version = min(greeting.max_version, PROTOCOL_VERSION_MAX)
    if version < max(greeting.min_version, PROTOCOL_VERSION_MIN):
        spoken = f"{PROTOCOL_VERSION_MIN}-{PROTOCOL_VERSION_MAX}"
        detail = f"versions {greeting.min_version}-{greeting.max_version} of the control protocol"
        detail = f"{detail} are not spoken here ({spoken}): upgrade one of the two"
        return HelloAnswer(ErrorCode.UNSUPPORTED_VERSION, detail, node_id=node_id)
    if None not in (greeting.cluster_id, cluster_id) and greeting.cluster_id != cluster_id:
        detail = f"this controller belongs to cluster {cluster_id}, node {greeting.node_id} to"
        detail = f"{detail} {greeting.cluster_id}: check controller.quorum.* and the data directory"
        return HelloAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID, detail, node_id=node_id)
    return HelloAnswer(
        ErrorCode.NONE,
        cluster_id=cluster_id,
        version=version,
        node_id=node_id,
        active_controller=controller.quorum.leader_endpoint(),
        active_id=controller.quorum.leader_id,
    )
