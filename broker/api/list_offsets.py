"""ListOffsets: where partitions begin, end, or were at a time; every answer is its leader's."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ..net.answer import Call
from ..requests import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetAnswer,
)

LOWEST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL_TIMESTAMP: 8, LATEST_TIERED_TIMESTAMP: 9}
LAST_NAMED_TIMESTAMP = LATEST_TIERED_TIMESTAMP


def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up every partition asked for, once."""
    seen: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            seen[key] = seen.get(key, 0) + 1
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _answered(
                    asked.partition_index,
                    _look_up(call, request, topic, asked)
                    if seen[topic.name, asked.partition_index] == 1
                    else OffsetAnswer(error=ErrorCode.INVALID_REQUEST),
                )
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _look_up(
    call: Call, request: ListOffsetsRequest, topic: ListOffsetsTopic, asked: ListOffsetsPartition
) -> OffsetAnswer:
    if call.version < LOWEST_VERSION.get(asked.timestamp, 0):
        return OffsetAnswer(error=ErrorCode.UNSUPPORTED_VERSION)
    if asked.timestamp < LAST_NAMED_TIMESTAMP:
        return OffsetAnswer(error=ErrorCode.UNSUPPORTED_VERSION)
    partition = call.edge.partitions.find(topic.name, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return OffsetAnswer(error=partition)
    return partition.list_offset(
        asked.timestamp,
        current_leader_epoch=asked.current_leader_epoch,
        isolation=request.isolation_level,
        replica_id=request.replica_id,
    )


def _answered(index: int, answer: OffsetAnswer) -> ListOffsetsPartitionResponse:
    if answer.error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=answer.error)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=answer.offset,
        timestamp=answer.timestamp_ms,
        leader_epoch=answer.leader_epoch,
    )
