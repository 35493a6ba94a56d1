"""DescribeLag: the committed records and bytes that a reader has not read, and their oldest time.

Only leaders answer, under their lease. If nothing is left, the response is sent at once. Otherwise
one task per request reads batch headers in slices, about MOST_HEADERS at most.
"""

from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_lag import (
    MOST_PARTITIONS,
    DescribeLagRequest,
    DescribeLagResponse,
    PartitionLag,
    TopicLag,
)
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...runtime.runtime import Runtime
from ...storage.unread import count_unread
from ..net.answer import Call
from ..partition.partition import Partition
from ..partition.reading import refuse
from .worked import Worked

MOST_HEADERS: Final = 5_000
"""The most batch headers that one request reads: some 20 ms of the event loop, in slices."""
HEADERS_EACH: Final = (16, 1_000)
"""The least and the most headers read in one partition, whatever the number of partitions."""


Key = tuple[str, int]
"""The topic's name and the index of a partition."""


class Behind(NamedTuple):
    """A partition in which records are left to read from `offset` on."""

    partition: Partition
    leader_epoch: int
    offset: int


def handle(call: Call, request: DescribeLagRequest) -> object:
    """Report the unread records of each partition that this broker leads."""
    asked = {
        (topic.name, each.partition_index): each.committed_offset
        for topic in request.topics
        for each in topic.partitions
    }
    if len(asked) > MOST_PARTITIONS:
        return DescribeLagResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"{len(asked)} partitions in one request: name at most {MOST_PARTITIONS}",
        )
    rows: dict[Key, PartitionLag] = {}
    behind: dict[Key, Behind] = {}
    for key, offset in asked.items():
        partition = call.edge.partitions.find(*key)
        if isinstance(partition, ErrorCode):
            rows[key] = PartitionLag(partition_index=key[1], error_code=partition)
            continue
        row = rows[key] = _bounds(partition)
        if max(offset, row.log_start_offset) < row.last_stable_offset:
            behind[key] = Behind(partition, partition.leader_epoch, offset)
    if not behind:
        return _whole(call, rows)
    counting = _count(call.edge.runtime, rows, behind)
    return Worked(call, counting, "lag", lambda: _whole(call, rows))


def _bounds(partition: Partition) -> PartitionLag:
    """Return the partition's offsets with a lag of 0, or an error if we cannot report them."""
    partition.write_staged()
    leader = partition.leader
    error = refuse(partition, -1)
    if not error and partition.host.lacks_lease():
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader is not None and not error and not leader.is_high_watermark_settled:
        # A new leader may know of fewer committed records than its predecessor has reported.
        error = ErrorCode.OFFSET_NOT_AVAILABLE
    if error:
        return PartitionLag(partition_index=partition.index, error_code=error)
    return PartitionLag(
        partition_index=partition.index,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        records=0,
        size_bytes=0,
    )


def _whole(call: Call, rows: dict[Key, PartitionLag]) -> DescribeLagResponse:
    if any(not row.error_code for row in rows.values()):
        call.rest_on_lease()  # Only the present leader may report offsets.
    topics: dict[str, list[PartitionLag]] = {}
    for (name, _), row in rows.items():
        topics.setdefault(name, []).append(row)
    return DescribeLagResponse(
        topics=[TopicLag(name=name, partitions=found) for name, found in topics.items()]
    )


async def _count(
    runtime: Runtime, rows: dict[Key, PartitionLag], behind: dict[Key, Behind]
) -> None:
    """Read batch headers for each partition with unread records, and fill in its row."""
    least, most = HEADERS_EACH
    headers = min(max(MOST_HEADERS // len(behind), least), most)
    for key, each in behind.items():
        error = await _count_one(runtime, each, rows[key], headers)
        if error:
            rows[key] = PartitionLag(partition_index=key[1], error_code=error)


async def _count_one(
    runtime: Runtime, behind: Behind, row: PartitionLag, most_headers: int
) -> ErrorCode:
    """Count the unread records of one partition, and fill in its `row`.

    Return an error if the log cannot be read, or if the leader epoch has changed since.
    """
    partition, epoch, offset = behind
    up_to = row.last_stable_offset
    try:
        unread = await count_unread(partition.log, runtime, offset, up_to, most_headers)
    except CorruptLog:
        # The log has already reported the damage for repair.
        return ErrorCode.KAFKA_STORAGE_ERROR
    except LogDirectoryFailed as error:
        partition.on_storage_error(error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition.leader is None or partition.leader_epoch != epoch:
        return partition.error_without_leader
    row.records, row.size_bytes, row.oldest_timestamp, row.is_estimated = unread
    return ErrorCode.NONE
