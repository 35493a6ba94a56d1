"""OffsetDelete: delete committed offsets of topics to which no member of the group subscribes."""

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..audit.happenings import Change
from ..coordinator.group.offsets import Place
from ..net.answer import Answer, Call
from .acted import tell
from .offset_commit import has_partition
from .parked import Parked


def handle(call: Call, request: OffsetDeleteRequest) -> Answer:
    """Delete offsets. Each partition has its own result, unless the group has an error."""
    answer = Parked(call)
    places: list[Place] = []
    results: list[OffsetDeleteResponsePartition] = []
    response = OffsetDeleteResponse(topics=[])
    for topic in request.topics:
        answered = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
        response.topics.append(answered)
        for partition in topic.partitions:
            result = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(result)
            if has_partition(call.edge, topic.name, partition.partition_index):
                places.append((topic.name, partition.partition_index))
                results.append(result)
            else:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def done(error: ErrorCode, errors: list[ErrorCode]) -> None:
        if error:
            answer.finish(OffsetDeleteResponse(error_code=error))
            return
        for result, own in zip(results, errors, strict=True):
            result.error_code = own
        gone = [place for place, own in zip(places, errors, strict=True) if not own]
        group = f"group/{request.group_id}"
        changes = [Change(group, f"offset of {t}-{p}", "committed", None) for t, p in gone]
        tell(call, ApiKey.OFFSET_DELETE, changes)
        answer.finish(response)

    call.edge.groups.delete_offsets(request.group_id, places, done)
    return answer
