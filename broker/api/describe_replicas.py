"""DescribeReplicas: the state of replicas on this broker, both leaders and followers.

A broker describes only its own replicas, so a client that wants to see all replicas of a partition
asks each broker that has one.
"""

from itertools import islice

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_replicas import (
    MOST_EPOCHS,
    MOST_REPLICAS,
    MOST_TRANSACTIONS,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    EpochStart,
    FollowerState,
    PartitionResponse,
    ReplicaRole,
    TopicResponse,
    UndecidedTransaction,
)
from ...runtime.errors import LogDirectoryFailed
from ...storage.header_reading import first_timestamp, header_in_memory
from ..net.answer import Call
from ..partition.partition import Partition
from ..replica.leader import LeaderReplica
from ..replica.progress import FollowerProgress
from .slices import answer_each


def handle(call: Call, request: DescribeReplicasRequest) -> object:
    """Describe the replicas that the request names, in slices if they are many."""
    asked = dict.fromkeys(
        (topic.name, index) for topic in request.topics for index in topic.partition_indexes
    )
    if len(asked) > MOST_REPLICAS:
        return DescribeReplicasResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"{len(asked)} partitions in one request: name at most {MOST_REPLICAS}",
        )
    return answer_each(call, list(asked), lambda one: (one[0], _described(call, *one)), _whole)


def _whole(told: list[tuple[str, PartitionResponse]]) -> DescribeReplicasResponse:
    topics: dict[str, list[PartitionResponse]] = {}
    for name, described in told:
        topics.setdefault(name, []).append(described)
    return DescribeReplicasResponse(
        topics=[TopicResponse(name=name, partitions=rows) for name, rows in topics.items()]
    )


def _described(call: Call, topic: str, index: int) -> PartitionResponse:
    partitions = call.edge.partitions
    partition = partitions.find(topic, index)
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=index, error_code=partition)
    partition.write_staged()
    transactions = _undecided(partition)
    metadata = partition.metadata
    if partition.offline_because:
        return PartitionResponse(
            partition_index=index,
            error_code=partition.offline_because,
            leader_id=metadata.leader,
            leader_epoch=metadata.leader_epoch,
        )
    log, leader = partition.log, partition.leader
    epochs = log.leader_epochs
    described = PartitionResponse(
        partition_index=index,
        role=_role_of(partition),
        leader_id=metadata.leader,
        leader_epoch=metadata.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        size_bytes=log.size_bytes,
        segment_count=len(log.segments),
        directory_id=partitions.directory_of(partition).meta.directory_id,
        epochs=[
            EpochStart(leader_epoch=epoch, start_offset=start)
            for epoch, start in islice(epochs, max(len(epochs) - MOST_EPOCHS, 0), None)
        ],
        open_transactions=transactions,
    )
    if leader is not None:
        now_ms = call.edge.runtime.monotonic_ms()
        described.isr_nodes = list(leader.isr)
        described.followers = [
            _follower(leader, broker_id, progress, now_ms)
            for broker_id, progress in leader.followers.items()
        ]
    return described


def _role_of(partition: Partition) -> ReplicaRole:
    if partition.leader is not None:
        return ReplicaRole.LEADER
    return ReplicaRole.NONE if partition.follower is None else ReplicaRole.FOLLOWER


def _follower(
    leader: LeaderReplica, broker_id: int, progress: FollowerProgress, now_ms: int
) -> FollowerState:
    return FollowerState(
        broker_id=broker_id,
        log_end_offset=progress.log_end_offset,
        held_offset=progress.held_offset,
        behind_ms=progress.behind_ms(leader.log_end_offset, now_ms),
    )


def _undecided(partition: Partition) -> list[UndecidedTransaction]:
    log = partition.log
    found: list[UndecidedTransaction] = []
    for first_offset, producer_id in islice(log.producers.open_transactions(), MOST_TRANSACTIONS):
        producer = log.producers.get(producer_id)
        try:
            header = header_in_memory(log.reader, first_offset)
        except LogDirectoryFailed as error:
            partition.on_storage_error(error)
            return []
        found.append(
            UndecidedTransaction(
                producer_id=producer_id,
                producer_epoch=-1 if producer is None else producer.epoch,
                first_offset=first_offset,
                started_ms=-1 if header is None else first_timestamp(header),
            )
        )
    return found
