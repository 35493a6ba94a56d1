"""ListOffsets: first offsets, last offsets and offsets by time, each from the partition's leader.

First and last offsets are in memory. A search by time reads the log, in one task per request.
"""

from collections.abc import Awaitable, Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ..net.answer import Answer, Call
from ..partition.requests import OffsetAnswer
from .common import replica_id_of
from .worked import Worked

LOWEST_VERSION = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
LAST_NAMED_TIMESTAMP = EARLIEST_PENDING_UPLOAD_TIMESTAMP

OFFSET_NOT_AVAILABLE_FROM = 5

Search = Callable[[], Awaitable[OffsetAnswer]]


def handle(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse | Answer:
    """Look up each partition; a partition named more than once gets INVALID_REQUEST."""
    seen: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            seen[key] = seen.get(key, 0) + 1
    response = ListOffsetsResponse(topics=[])
    searches: list[tuple[ListOffsetsPartitionResponse, Search]] = []
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name, partitions=[])
        response.topics.append(answered)
        for asked in topic.partitions:
            found = OffsetAnswer(error=ErrorCode.INVALID_REQUEST)
            if seen[topic.name, asked.partition_index] == 1:
                found = _look_up(call, request, topic, asked)
            data = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            answered.partitions.append(data)
            if found.later is not None:
                searches.append((data, found.later))
            else:
                _fill(data, found)
    if searches:

        def searched() -> ListOffsetsResponse:
            _rest_on_lease(call, response)
            return response

        return Worked(call, _search(searches), "offset-search", searched)
    if replica_id_of(call, request.replica_id) < 0:
        _rest_on_lease(call, response)
    return response


async def _search(searches: list[tuple[ListOffsetsPartitionResponse, Search]]) -> None:
    for data, search in searches:
        _fill(data, await search())


def _rest_on_lease(call: Call, response: ListOffsetsResponse) -> None:
    """Send the answer only under the leader's lease, unless all its results are errors."""
    if any(not data.error_code for topic in response.topics for data in topic.partitions):
        call.rest_on_lease()


def _look_up(
    call: Call, request: ListOffsetsRequest, topic: ListOffsetsTopic, asked: ListOffsetsPartition
) -> OffsetAnswer:
    is_known = asked.timestamp >= LAST_NAMED_TIMESTAMP
    if not is_known or call.version < LOWEST_VERSION.get(asked.timestamp, 0):
        return OffsetAnswer(error=ErrorCode.UNSUPPORTED_VERSION)
    partition = call.edge.partitions.find(topic.name, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return OffsetAnswer(error=partition)
    found = partition.list_offset(
        asked.timestamp,
        current_leader_epoch=asked.current_leader_epoch,
        isolation=request.isolation_level,
        replica_id=replica_id_of(call, request.replica_id),
    )
    if found.error is ErrorCode.OFFSET_NOT_AVAILABLE and call.version < OFFSET_NOT_AVAILABLE_FROM:
        # Older clients do not know that error, but retry after this one.
        found.error = ErrorCode.LEADER_NOT_AVAILABLE
    return found


def _fill(data: ListOffsetsPartitionResponse, found: OffsetAnswer) -> None:
    data.error_code = found.error
    if not found.error:
        data.offset = found.offset
        data.timestamp = found.timestamp_ms
        data.leader_epoch = found.leader_epoch
