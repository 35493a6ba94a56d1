"""DescribeQuorum: the controllers' quorum in Kafka's response, with brokers as its observers.

Brokers forward the request, or a tool connected to this controller sends it. Only the active
controller knows how far the other voters are.
"""

from typing import TYPE_CHECKING

from ...protocol.control.records import METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartitionData,
    QuorumTopicData,
    ReplicaState,
)

if TYPE_CHECKING:
    from ..driver import Controller


def describe_quorum(
    controller: "Controller", request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Describe the quorum; raise ApiError NOT_CONTROLLER if this controller does not lead it."""
    controller.check_active()
    described = controller.quorum.describe()
    described.observers += _brokers(controller)
    topics = [
        QuorumTopicData(
            topic_name=topic.topic_name,
            partitions=[
                described
                if topic.topic_name == METADATA_TOPIC and asked.partition_index == 0
                else _unknown(asked.partition_index)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = [
        QuorumNode(
            node_id=node_id,
            listeners=[QuorumListener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
        )
        for node_id, endpoint in controller.quorum.peering.endpoints.items()
    ]
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _brokers(controller: "Controller") -> list[ReplicaState]:
    """Describe the brokers by their heartbeats, which state the offset that each has applied."""
    now_ms, wall_ms = controller.runtime.monotonic_ms(), controller.runtime.wall_ms()
    end_offset = controller.committed.offset + 1
    found: list[ReplicaState] = []
    for broker_id in sorted(controller.committed.brokers):
        broker = controller.committed.brokers[broker_id]
        lease = controller.leases.find(broker_id)
        heard_ms = -1 if lease is None else wall_ms - (now_ms - lease.contact_ms)
        offset = -1 if lease is None or lease.metadata_offset < 0 else lease.metadata_offset + 1
        found.append(
            ReplicaState(
                replica_id=broker_id,
                replica_directory_id=broker.directory_ids[0] if broker.directory_ids else bytes(16),
                log_end_offset=offset,
                last_fetch_timestamp=heard_ms,
                last_caught_up_timestamp=heard_ms if offset >= end_offset else -1,
            )
        )
    return found


def _unknown(index: int) -> QuorumPartitionData:
    return QuorumPartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=f"only partition 0 of {METADATA_TOPIC} has a quorum",
    )
