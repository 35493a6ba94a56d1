"""Describes the controllers' quorum, by the message DescribeQuorum."""

from ...protocol.control.records import METADATA_TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
)
from ...protocol.types import uuid_to_text
from ..net.connection import KafkaConnection
from ..outcomes import raise_for
from .asking import Asking
from .cluster_types import MetadataQuorum, QuorumReplica


async def describe_metadata_quorum(asking: Asking) -> MetadataQuorum:
    """Describe the controllers' quorum: its leader, its voters and observers, and their offsets."""

    async def ask(connection: KafkaConnection) -> MetadataQuorum:
        return quorum_of(await asking.request(connection, quorum_question()))

    return await asking.one_broker(ask)


def quorum_question() -> DescribeQuorumRequest:
    """Build the request about the metadata log, for a broker or a controller."""
    partition = QuorumPartition(partition_index=0)
    return DescribeQuorumRequest(
        topics=[QuorumTopic(topic_name=METADATA_TOPIC, partitions=[partition])]
    )


def quorum_of(response: DescribeQuorumResponse) -> MetadataQuorum:
    """Read the answer; raise ApiError if it has an error."""
    raise_for(response.error_code, response.error_message)
    partitions = [one for topic in response.topics for one in topic.partitions]
    if len(partitions) != 1:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(partitions)} metadata partitions")
    (found,) = partitions
    raise_for(found.error_code, found.error_message)
    return MetadataQuorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(_replica(one) for one in found.current_voters),
        tuple(_replica(one) for one in found.observers),
        {
            node.node_id: tuple(f"{one.name}://{one.host}:{one.port}" for one in node.listeners)
            for node in response.nodes
        },
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    def when(timestamp: int) -> int | None:
        return None if timestamp < 0 else timestamp

    return QuorumReplica(
        state.replica_id,
        uuid_to_text(state.replica_directory_id),
        state.log_end_offset,
        when(state.last_fetch_timestamp),
        when(state.last_caught_up_timestamp),
    )
