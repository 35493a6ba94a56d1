"""Log start offsets: moved by DeleteRecords requests (KIP-107), and tracked for every replica.

A leader moves its own log start. Followers learn the leader's log start from the answer to their
next fetch, and report their own with the fetch after that. Retention later deletes whole segments
below the log start.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_records import HIGH_WATERMARK
from ...runtime.errors import StorageError
from .requests import FetchSpec

if TYPE_CHECKING:
    from .partition import Partition


def delete_before(partition: "Partition", offset: int) -> ErrorCode | int:
    """Raise the leader's log start to `offset`, unless it is higher; return `offset`, or an error.

    -1 stands for the high watermark, whose offset is then returned.
    """
    if partition.offline_because:
        return partition.offline_because
    if partition.leader is None or partition.host.lacks_lease():
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not partition.log.config.is_deleted:
        return ErrorCode.POLICY_VIOLATION
    partition.write_staged()
    start = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= start <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if start > partition.log_start_offset:
        try:
            partition.log.advance_log_start(start)
        except StorageError as error:
            partition.on_storage_error(error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition.data_waiters.note_followers(partition)
    return start


def low_watermark(partition: "Partition", live: Container[int]) -> int:
    """Return the lowest log start among the followers whose broker is in `live`.

    Return -1 while one of them has not reported its log start, and this replica's own log start if
    there are no such followers.
    """
    leader = partition.leader
    starts = (
        []
        if leader is None
        else [
            progress.log_start_offset
            for follower, progress in leader.followers.items()
            if follower in live
        ]
    )
    return min(starts, default=partition.log_start_offset)


def note_follower(partition: "Partition", spec: FetchSpec) -> None:
    """Note the log start that a follower reports with its fetch."""
    progress = partition.leader.followers.get(spec.replica_id) if partition.leader else None
    if progress is not None and progress.log_start_offset != spec.log_start_offset:
        progress.log_start_offset = spec.log_start_offset
        if spec.log_start_offset > 0:
            partition.data_waiters.note_followers(partition)
