"""Answers that several APIs share: leaders, endpoints of nodes, operations that clients may do.

Small builders of response values; nothing here decides about a partition.
"""

from collections.abc import Iterable

from ...protocol.acls import CLUSTER_NAME, OPERATION_BITS, Operation, Resource
from ...protocol.errors import ErrorCode
from ...protocol.messages.leader_hint import NodeEndpoint
from ..net.answer import Call
from ..partition.requests import CONSUMER

OPERATIONS_NOT_ASKED = -0x80000000

STALE_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors for which a response also names the current leader (KIP-951)."""

TOPIC_NAME_MAX = 249
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def operations_told(call: Call, resource: Resource, name: str = CLUSTER_NAME) -> int:
    """Return the operations that the client may do on a resource, as a bit field (KIP-430).

    A client that may not describe the cluster gets none of the cluster's.
    """
    rights = call.rights
    if rights is None:
        return OPERATION_BITS[resource]
    if resource is Resource.CLUSTER and not rights.may(Operation.DESCRIBE, resource):
        return 0
    return rights.told_operations(resource, name)


def is_legal_topic_name(name: str) -> bool:
    """True if a name has 1 to 249 letters, digits, dots, underscores and hyphens, as in Kafka.

    The names `.` and `..` are not legal.
    """
    return (
        0 < len(name) <= TOPIC_NAME_MAX
        and name not in (".", "..")
        and _NAME_CHARACTERS.issuperset(name)
    )


def client_host(call: Call) -> str:
    """Return the client's address in the form of a group member's host, such as `/127.0.0.1`."""
    return "/" + call.connection.peer.rpartition(":")[0]


def replica_id_of(call: Call, claimed: int) -> int:
    """Return the replica id `claimed`, if the client may act as a follower; else CONSUMER.

    The listener must be one that this broker uses, and with an authorizer the client must have
    CLUSTER_ACTION on the cluster.
    """
    rights, listener = call.rights, call.connection.listener.name
    if rights is not None and not rights.may(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        return CONSUMER
    return claimed if call.edge.whereabouts.is_used_by(claimed, listener) else CONSUMER


def node_endpoints(call: Call, broker_ids: Iterable[int]) -> list[NodeEndpoint]:
    """Return the endpoints of these brokers on the client's listener; skip brokers without one."""
    listener = call.connection.listener.name
    nodes: list[NodeEndpoint] = []
    for broker_id in dict.fromkeys(broker_ids):
        found = call.edge.whereabouts.endpoint(broker_id, listener)
        if found is not None:
            at, rack = found
            nodes.append(NodeEndpoint(node_id=broker_id, host=at.host, port=at.port, rack=rack))
    return nodes


def known_to_client(error: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """Return the error, or the older error that the client's version knows.

    Versions below `fenced_from` get INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
    """
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
