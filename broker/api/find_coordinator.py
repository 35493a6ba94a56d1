"""FindCoordinator: the broker that coordinates a group or transactional id.

The coordinator is the leader of the key's partition of the internal topic. If this topic is
missing, it is created, and the client gets COORDINATOR_NOT_AVAILABLE.
"""

from ...protocol.commit_groups import home_of
from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ...protocol.types import NO_LEADER
from ..coordinator.keys import GROUPS_TOPIC, TRANSACTIONS_TOPIC, is_key, partition_of
from ..net.answer import Call

SEVERAL_FROM = 4
TOPICS = {
    CoordinatorType.GROUP: GROUPS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTIONS_TOPIC,
}


def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Look up the coordinator of every key."""
    if call.version >= SEVERAL_FROM:
        found = [_find(call, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(call: Call, key_type: int, key: str) -> Coordinator:
    topic_name = TOPICS.get(key_type)  # type: ignore[call-overload]
    if topic_name is None:
        why = f"there are no coordinators of type {key_type}"
        return _failed(key, ErrorCode.INVALID_REQUEST, why)
    if not is_key(key):
        return _failed(key, ErrorCode.INVALID_REQUEST, "the key is too long")
    edge = call.edge
    topic = edge.image.topic(topic_name)
    if topic is None:
        edge.auto_creation.create([topic_name])
        why = f"{topic_name} is being created"
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    home = home_of(key) if topic_name == TRANSACTIONS_TOPIC else key
    index = partition_of(home, len(topic.partitions))
    leader = topic.partitions[index].leader
    listener = call.connection.listener.name
    where = None if leader == NO_LEADER else edge.whereabouts.endpoint(leader, listener)
    if where is None:
        why = f"{topic_name}-{index} has no leader on listener {listener}"
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    endpoint, _ = where
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _failed(key: str, error: ErrorCode, why: str) -> Coordinator:
    return Coordinator(key=key, error_code=error, error_message=why)
