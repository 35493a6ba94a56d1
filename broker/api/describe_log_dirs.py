"""DescribeLogDirs: this broker's log directories, their replicas and their free space."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...runtime.errors import LogDirectoryFailed
from ...storage.directory import LogDirectory
from ..net.answer import Call
from ..partition.partition import Partition
from ..upkeep.moves import Moving

Replica = tuple[str, DescribeLogDirsPartition]
"""The topic of a replica, and how the replica is described."""


def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every directory, with those of its replicas that the request names.

    A replica that is moving is listed in both directories, in its target as a future replica.
    """
    partitions = call.edge.partitions
    wanted: dict[tuple[str, int], None] | None = None
    if request.topics is not None:
        wanted = {(each.topic, index): None for each in request.topics for index in each.partitions}
    inside: dict[LogDirectory, list[Replica]] = {each: [] for each in partitions.store.directories}
    for partition in partitions:
        if wanted is None or (partition.topic, partition.index) in wanted:
            inside[partitions.directory_of(partition)].append(_replica(partition))
    for moving in call.edge.moves:
        partition = moving.partition
        if wanted is None or (partition.topic, partition.index) in wanted:
            inside[moving.target].append(_future(moving))
    online = partitions.store.online
    return DescribeLogDirsResponse(
        results=[
            _described(directory, found)
            if directory in online
            else DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
            )
            for directory, found in inside.items()
        ]
    )


def _replica(partition: Partition) -> Replica:
    row = DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=max(partition.high_watermark - partition.log_end_offset, 0),
    )
    return partition.topic, row


def _future(moving: Moving) -> Replica:
    row = DescribeLogDirsPartition(
        partition_index=moving.partition.index,
        partition_size=moving.size_bytes,
        offset_lag=moving.lag,
        is_future_key=True,
    )
    return moving.partition.topic, row


def _described(directory: LogDirectory, found: list[Replica]) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic, row in found:
        topics.setdefault(topic, []).append(row)
    try:
        total, usable = directory.files.space()
    except LogDirectoryFailed:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
