"""OffsetCommit: commit a group's offsets.

The request is answered once the offsets are committed in `__consumer_offsets`.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..coordinator.group.commits import Commit, NewOffset
from ..coordinator.group.values import Who
from ..edge import Edge
from ..net.answer import Answer, Call
from .parked import Parked

GROUP_ID_NOT_FOUND_FROM = 9
TOPIC_IDS_FROM = 10

Asked = tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition]


def handle(call: Call, request: OffsetCommitRequest) -> Answer:
    """Commit offsets of partitions that exist; each partition has its own result."""
    answer = Parked(call)
    offsets: list[NewOffset] = []
    results: list[OffsetCommitResponsePartition] = []
    """The results of `offsets`, which `done` fills in."""
    response = OffsetCommitResponse(topics=[])
    for topic in request.topics:
        name, unknown = _name(call, topic)
        answered = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=[]
        )
        response.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            result = OffsetCommitResponsePartition(partition_index=index)
            answered.partitions.append(result)
            if unknown or not has_partition(call.edge, name, index):
                result.error_code = unknown or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offsets.append(
                NewOffset(
                    name,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata or "",
                )
            )
            results.append(result)

    def done(error: ErrorCode, errors: list[ErrorCode]) -> None:
        for result, own in zip(results, errors or [error] * len(results), strict=True):
            result.error_code = own or error
        answer.finish(response)

    if request.topics and not offsets:
        answer.finish(response)
    else:
        call.edge.groups.commit(_commit(call, request, offsets), done)
    return answer


def _commit(call: Call, request: OffsetCommitRequest, offsets: list[NewOffset]) -> Commit:
    if_unknown = ErrorCode.ILLEGAL_GENERATION
    if call.version >= GROUP_ID_NOT_FOUND_FROM:
        if_unknown = ErrorCode.GROUP_ID_NOT_FOUND
    return Commit(
        group_id=request.group_id,
        who=Who(request.member_id, request.group_instance_id),
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
        client_id=call.client_id,
        retention_ms=request.retention_time_ms,
        if_unknown=if_unknown,
    )


def _name(call: Call, topic: OffsetCommitRequestTopic) -> tuple[str, ErrorCode]:
    """Return the topic's name, or an error if its id is unknown."""
    if call.version < TOPIC_IDS_FROM:
        return topic.name, ErrorCode.NONE
    known = call.edge.image.topics.get(topic.topic_id)
    return ("", ErrorCode.UNKNOWN_TOPIC_ID) if known is None else (known.name, ErrorCode.NONE)


def has_partition(edge: Edge, topic: str, index: int) -> bool:
    """True if the partition exists in the metadata."""
    known = edge.image.topic(topic)
    return known is not None and index in known.partitions
