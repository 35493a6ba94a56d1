"""Processes the leader's fetch answers: checks the bytes, and carries out what is decided.

Record bytes are checked by header and checksum, sliced and written; never decoded or copied.
`replica.follower` makes the decisions; nothing here waits.
"""

import logging
from collections.abc import Callable
from typing import assert_never

from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.fetch import PartitionData
from ...protocol.records.record_batch import BatchHeader, crc_is_valid, headers
from ...protocol.types import Buffer, OffsetAndEpoch
from ...runtime.errors import StorageError
from ..partition.partition import Partition
from ..replica.follower import (
    Append,
    AskLeaderOffsets,
    Effects,
    Fetched,
    FetchPosition,
    FollowerEffect,
    Halted,
    HighWatermarkMoved,
    LogStartRaised,
    OffsetsLost,
    RestartAt,
    TruncateTo,
)
from ..replica.throttle import Throttle, names

AskLeader = Callable[[Partition], None]
"""Asks a partition's leader for the bounds of its log."""

log = logging.getLogger(__name__)


def on_fetched(
    partition: Partition,
    asked: FetchPosition,
    data: PartitionData,
    now_ms: int,
    ask_leader: AskLeader,
) -> None:
    """Process one partition of a fetch answer: check it, decide, and write to the log."""
    follower = partition.follower
    if follower is None:
        return
    answer: Fetched[BatchHeader] = Fetched(
        ErrorCode(data.error_code), data.high_watermark, data.log_start_offset
    )
    if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
        point = data.diverging_epoch
        answer.diverging = OffsetAndEpoch(point.end_offset, point.epoch)
    elif data.records:
        try:
            found = whole_batches(data.records)
        except RemoteProtocolError as error:
            leader_id = partition.metadata.leader
            log.warning("%r: damaged records from broker %d: %s", partition, leader_id, error)
            follower.on_bad_records(now_ms)
            return
        if found:
            answer.batches = found
            answer.first_offset, answer.next_offset = found[0].base_offset, found[-1].next_offset
    throttle = throttle_of(partition)
    if throttle is not None:
        throttle.spend(len(data.records or b""), now_ms)
    effects = follower.on_fetched(asked, answer, partition.log, now_ms)
    carry_out(partition, effects, answer, data.records or b"", ask_leader)


def throttle_of(partition: Partition) -> Throttle | None:
    """Return the throttle for our fetches of this partition; None if none applies."""
    host = partition.host
    throttle, me = host.throttles.follower, host.broker_id
    if not throttle.is_on or me in partition.role.metadata.isr:
        return None
    listed = partition.log.config.follower_replication_throttled_replicas
    return throttle if names(listed, partition.index, me) else None


def whole_batches(data: Buffer) -> list[BatchHeader]:
    """Return the headers of whole batches; raise RemoteProtocolError if one is damaged.

    A leader may cut the last batch of an answer short; it is fetched again.
    """
    found: list[BatchHeader] = []
    next_offset = -1
    for position, header in headers(data):
        if not crc_is_valid(data, position, header):
            raise RemoteProtocolError(f"{header!r}: the checksum does not match")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise RemoteProtocolError(f"{header!r} where {next_offset} was due")
        next_offset = header.next_offset
        found.append(header)
    return found


def carry_out(
    partition: Partition,
    effects: Effects,
    answer: Fetched[BatchHeader],
    data: Buffer,
    ask_leader: AskLeader,
) -> None:
    """Carry out the follower's effects in order; if the disk fails, end the role."""
    try:
        for effect in effects:
            _carry_out_one(partition, effect, answer, data, ask_leader)
        partition.host.group_flush.catch_up(partition)
    except StorageError as error:
        partition.on_storage_error(error)


def _carry_out_one(
    partition: Partition,
    effect: FollowerEffect,
    answer: Fetched[BatchHeader],
    data: Buffer,
    ask_leader: AskLeader,
) -> None:
    match effect:
        case Append():
            partition.log.append_run(answer.batches, data)
            if partition.traffic is not None:
                partition.traffic.replication_bytes_in += len(data)
        case HighWatermarkMoved(offset):
            partition.on_high_watermark_moved(offset)
        case LogStartRaised(offset):
            partition.log.advance_log_start(offset)
        case TruncateTo(offset):
            end = partition.log.log_end_offset
            if offset < end:
                log.info("%r: truncating %d to %d", partition, end, offset)
            partition.log.truncate_to(offset)
        case RestartAt(offset):
            log.info("%r: restarting at offset %d", partition, offset)
            partition.log.truncate_fully_and_start_at(offset)
        case OffsetsLost(from_offset, to_offset):
            log.error(
                "%r: unclean leader election lost offsets %d to %d (%d records)",
                partition,
                from_offset,
                to_offset - 1,
                to_offset - from_offset,
            )
        case Halted(why):
            log.error("%r: not following: %s", partition, why)
        case AskLeaderOffsets():
            ask_leader(partition)
        case _:
            assert_never(effect)
