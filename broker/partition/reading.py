"""Answers the readers of a partition: consumers, followers, and clients that ask for offsets.

A fetch is checked in Kafka's order (epoch, role, assignment, history, range), the progress of a
follower is recorded, and the records are read. All this happens without an `await`, so that no
change of role comes in between (scenarios B-27, B-29). A read changes no other state.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.expiry import TtlRule
from ...protocol.messages.fetch import READ_COMMITTED
from ...protocol.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from ...protocol.types import NO_EPOCH, Buffer
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...storage.aborted import aborted_between
from ...storage.expiry import READ_BYTES
from ...storage.log import Cold, Log
from ...storage.reading import end_of
from ...storage.record_reading import read_records, read_records_cold
from ..replica.history import check_leader_epoch, find_divergence
from ..replica.throttle import Throttle, names
from .leading import carry_out
from .log_starts import note_follower
from .requests import CONSUMER, FetchAnswer, FetchSpec, OffsetAnswer

if TYPE_CHECKING:
    from .partition import Partition


def fetch(partition: "Partition", spec: FetchSpec, now_ms: int) -> FetchAnswer:
    """Answer the part of a fetch that asks for one partition."""
    is_follower = spec.replica_id >= 0
    error = refuse(partition, spec.current_leader_epoch, leader_only=spec.leader_only)
    if not error and is_follower:
        error = _refuse_follower(partition, spec)
    elif not error and partition.leader is not None and partition.host.lacks_lease():
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error:
        return refused(partition, error)
    log_end = partition.log.log_end_offset
    if is_follower or spec.last_fetched_epoch != NO_EPOCH:
        diverging = find_divergence(partition.log, spec.fetch_offset, spec.last_fetched_epoch)
        if isinstance(diverging, ErrorCode):
            return refused(partition, diverging)
        if diverging is not None:
            answer = _answer(partition)
            answer.diverging = diverging
            return answer
    elif not partition.log.log_start_offset <= spec.fetch_offset <= log_end:
        return refused(partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    if is_follower:
        leader = partition.leader
        assert leader is not None
        traced = partition.traced
        if traced is not None and spec.fetch_offset > traced.awaited:
            traced.on_follower(spec.replica_id, spec.fetch_offset)
        effects = leader.on_follower_fetched(
            spec.replica_id, spec.fetch_offset, now_ms, spec.broker_epoch, spec.flushed_offset
        )
        if effects:
            carry_out(partition, effects)
        note_follower(partition, spec)
    answer = _answer(partition)
    if is_follower:
        up_to = log_end
    else:
        is_committed = spec.isolation == READ_COMMITTED
        up_to = answer.last_stable_offset if is_committed else answer.high_watermark
    if spec.fetch_offset < up_to:
        throttle = _throttle_of(partition, spec.replica_id) if is_follower else None
        if throttle is None:
            _read(partition, spec, up_to, answer)
        elif not throttle.is_exceeded(now_ms):
            _read(partition, spec, up_to, answer)
            # A read from disk counts with the bytes asked for, as its size is not known yet.
            count = len(answer.records) if answer.cold is None else spec.max_bytes
            throttle.spend(count, now_ms)
    return answer


def refuse(
    partition: "Partition", current_leader_epoch: int, *, leader_only: bool = True
) -> ErrorCode:
    """Return the error for a reader with this leader epoch; NONE if it may read.

    The epoch is checked before the role (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH). A reader
    without an epoch states -1, which skips that check.
    """
    if partition.offline_because:
        return partition.offline_because
    error = check_leader_epoch(current_leader_epoch, partition.role.metadata.leader_epoch)
    if error:
        return error
    if partition.leader is None and (leader_only or partition.follower is None):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def refused(partition: "Partition", error: ErrorCode) -> FetchAnswer:
    """Return an answer with this error and the leader that this broker knows."""
    metadata = partition.role.metadata
    return FetchAnswer(error, leader_id=metadata.leader, leader_epoch=metadata.leader_epoch)


def last_stable_offset(log: Log, high_watermark: int) -> int:
    """Return the offset below which all transactions are decided, where read_committed ends.

    It is the first offset of the oldest transaction that is open, or whose marker is not below the
    high watermark. Without such a transaction it is the high watermark.
    """
    producers = log.producers
    if not producers.has_undecided:
        return high_watermark
    return max(producers.first_undecided(high_watermark), log.log_start_offset)


def _answer(partition: "Partition") -> FetchAnswer:
    role = partition.role
    high_watermark, metadata = role.high_watermark, role.metadata
    return FetchAnswer(
        ErrorCode.NONE,
        high_watermark,
        last_stable_offset(partition.log, high_watermark),
        partition.log.log_start_offset,
        leader_id=metadata.leader,
        leader_epoch=metadata.leader_epoch,
    )


def _refuse_follower(partition: "Partition", spec: FetchSpec) -> ErrorCode:
    leader = partition.leader
    if leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if spec.replica_id not in leader.followers:
        # A follower that states an epoch may know an assignment that has not arrived here yet.
        if spec.replica_id not in leader.known_brokers:
            _note_refusal(partition, spec, "no such broker registered")
        knows_epoch = spec.current_leader_epoch != NO_EPOCH
        unknown = ErrorCode.UNKNOWN_LEADER_EPOCH
        return unknown if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader.is_stale_incarnation(spec.replica_id, spec.broker_epoch):
        _note_refusal(partition, spec, "it has started anew since")
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def _note_refusal(partition: "Partition", spec: FetchSpec, why: str) -> None:
    """Log that a follower's fetches are refused, once a minute: ids and epochs are as it says."""
    host, text = partition.host, "broker %d, epoch %d: its fetches are refused: " + why
    host.refusals.seldom(host.monotonic_ms(), text, spec.replica_id, spec.broker_epoch)


def _throttle_of(partition: "Partition", follower: int) -> Throttle | None:
    """Return the throttle for this follower's fetches; None if the follower is not throttled.

    A member of the ISR never is.
    """
    host = partition.host
    throttle = host.throttles.leader
    if not throttle.is_on or follower in partition.role.metadata.isr:
        return None
    listed = partition.log.config.leader_replication_throttled_replicas
    return throttle if names(listed, partition.index, host.broker_id) else None


def _read(partition: "Partition", spec: FetchSpec, up_to: int, answer: FetchAnswer) -> None:
    reader, offset, max_bytes = partition.log.reader, spec.fetch_offset, spec.max_bytes
    if max_bytes <= 0:
        return
    rule = partition.rules.ttl if spec.replica_id == CONSUMER else None
    if rule is not None and rule.looks_inside:
        max_bytes = min(max_bytes, READ_BYTES)
    try:
        if spec.replica_id == CONSUMER and reader.segments.has_gaps:
            found = read_records(reader, offset, max_bytes=max_bytes, up_to=up_to)
        else:
            found = reader.read(offset, max_bytes=max_bytes, up_to=up_to)
        answer.records = found.data
        if rule is not None:
            _hide_expired(partition, found.data, rule, answer)
        if spec.isolation == READ_COMMITTED:
            _note_aborted(partition, spec, answer)
    except CorruptLog:
        # The log has reported the damage, so that it is repaired.
        answer.error = ErrorCode.KAFKA_STORAGE_ERROR
    except LogDirectoryFailed as error:
        partition.on_storage_error(error)
        answer.error = ErrorCode.KAFKA_STORAGE_ERROR
    except Cold:

        async def read_cold() -> Buffer:
            if spec.replica_id == CONSUMER:
                found = await read_records_cold(reader, offset, max_bytes=max_bytes, up_to=up_to)
            else:
                found = await reader.read_cold(offset, max_bytes=max_bytes, up_to=up_to)
            answer.records = found.data
            if rule is not None:
                _hide_expired(partition, found.data, rule, answer)
            if spec.isolation == READ_COMMITTED:
                _note_aborted(partition, spec, answer)
            return answer.records

        def cold() -> Awaitable[Buffer]:
            return read_cold()

        answer.cold = cold


def _hide_expired(
    partition: "Partition", data: memoryview, rule: TtlRule, answer: FetchAnswer
) -> None:
    """Take what has expired out of an answer to a consumer."""
    left = partition.log.reader.without_expired(data, rule, partition.host.wall_ms())
    answer.records, answer.hidden_bytes = left, max(0, len(data) - len(left))


def _note_aborted(partition: "Partition", spec: FetchSpec, answer: FetchAnswer) -> None:
    """Add to the answer the aborted transactions that have records in it."""
    if not len(answer.records):
        return
    segments, end = partition.log.segments, end_of(answer.records)
    answer.aborted = aborted_between(segments, spec.fetch_offset, end)


def list_offset(
    partition: "Partition", timestamp: int, isolation: int, *, is_replica: bool
) -> OffsetAnswer:
    """Return the offset of the log's start, of its end, or of a timestamp; only leaders call it.

    The end is the log end for a replica, the last stable offset for a read_committed consumer
    (`isolation`), and the high watermark for any other.
    """
    leader = partition.leader
    assert leader is not None
    if not is_replica and partition.host.lacks_lease():
        return OffsetAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = partition.log
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return _found(partition, log.log_start_offset, -1)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        # There is no such offset, because this broker has no tiered storage.
        return OffsetAnswer()
    if is_replica and timestamp == LATEST_TIMESTAMP:
        return OffsetAnswer(offset=log.log_end_offset, leader_epoch=partition.leader_epoch)
    if not leader.is_high_watermark_settled and not is_replica:
        # Just after an election the high watermark may be lower than one that clients have seen.
        return OffsetAnswer(ErrorCode.OFFSET_NOT_AVAILABLE)

    def end() -> int:
        if is_replica:
            return log.log_end_offset
        if isolation == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark

    if timestamp == LATEST_TIMESTAMP:
        return _found(partition, end(), -1)
    epoch = partition.leader_epoch

    async def search() -> OffsetAnswer:
        return await _search(partition, timestamp, epoch, end)

    return OffsetAnswer(later=search)


def end_offset_for_epoch(
    partition: "Partition", epoch: int, current_leader_epoch: int
) -> OffsetAnswer:
    """Return the end of the newest epoch in the log that is at most `epoch`; -1 if unknown.

    The high watermark does not bound the answer, because a new leader's may be lower than what a
    consumer has read. A bounded answer would look like a truncation to that consumer.
    """
    error = refuse(partition, current_leader_epoch)
    if error:
        return OffsetAnswer(error)
    found = partition.log.end_offset_for(epoch)
    if found is None:
        return OffsetAnswer()
    return OffsetAnswer(offset=found.offset, leader_epoch=found.epoch)


async def _search(
    partition: "Partition", timestamp: int, epoch: int, end: Callable[[], int]
) -> OffsetAnswer:
    """Search the log; refuse the result if this broker does not lead in `epoch` any more."""
    reader = partition.log.reader
    try:
        if timestamp == MAX_TIMESTAMP:
            found = await reader.max_timestamp()
        else:
            found = await reader.offset_for_timestamp(timestamp)
    except CorruptLog:
        return OffsetAnswer(ErrorCode.KAFKA_STORAGE_ERROR)
    except LogDirectoryFailed as error:
        partition.on_storage_error(error)
        return OffsetAnswer(ErrorCode.KAFKA_STORAGE_ERROR)
    if partition.leader is None or partition.leader_epoch != epoch:
        return OffsetAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if found is None or found.offset >= end():
        return OffsetAnswer()
    return OffsetAnswer(
        offset=found.offset, timestamp_ms=found.timestamp, leader_epoch=found.leader_epoch
    )


def _found(partition: "Partition", offset: int, timestamp_ms: int) -> OffsetAnswer:
    epoch = partition.log.leader_epochs.epoch_for(offset)
    return OffsetAnswer(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=epoch)
