"""OffsetForLeaderEpoch: the end offset of a leader epoch in the leader's log.

A follower or consumer whose position comes from an earlier leader finds the offset from which the
present leader's log differs (KIP-101, KIP-320).
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ..net.answer import Call


def handle(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Look up the epoch's end offset in each partition."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_look_up(call, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = call.edge.partitions.find(topic, asked.partition)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(error_code=partition, partition=asked.partition)
    answer = partition.end_offset_for_epoch(
        asked.leader_epoch, current_leader_epoch=asked.current_leader_epoch
    )
    if answer.error:
        return EpochEndOffset(error_code=answer.error, partition=asked.partition)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=answer.leader_epoch, end_offset=answer.offset
    )
