"""AlterReplicaLogDirs: replicas of this broker move to other log directories of it (KIP-113)."""

import logging

from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.types import TopicIdPartition, TopicPartition
from ...storage.directory import LogDirectory
from ...storage.names import has_room
from ..edge import Edge
from ..net.answer import Call

log = logging.getLogger(__name__)


def handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Begin to move each replica that is in another directory; DescribeLogDirs has the progress."""
    edge, store = call.edge, call.edge.partitions.store
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for each in request.dirs:
        target = store.at(each.path)
        for topic in each.topics:
            for index in topic.partitions:
                if target is None:
                    error = ErrorCode.LOG_DIR_NOT_FOUND
                elif target not in store.online:
                    error = ErrorCode.KAFKA_STORAGE_ERROR
                else:
                    error = _ask(edge, TopicPartition(topic.name, index), target)
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                results.setdefault(topic.name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _ask(edge: Edge, name: TopicPartition, target: LogDirectory) -> ErrorCode:
    """Request one move; if the replica is not here yet, keep the choice until it is made."""
    partition = edge.partitions.find(*name)
    if isinstance(partition, ErrorCode):
        key = TopicIdPartition(edge.image.topic_ids.get(name.topic, b""), name.partition)
        if edge.image.partition(*key) is not None:
            edge.partitions.store.choices.note(key, target)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if partition.offline_because:
        return partition.offline_because
    if not has_room(name):
        log.warning("%r cannot be moved: its name is too long for that", partition)
        return ErrorCode.INVALID_REQUEST
    edge.moves.ask(partition, target)
    return ErrorCode.NONE
