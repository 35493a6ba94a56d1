"""Tells the life of one record from what the cluster knows now: written, replicated, read, moved.

The facts are read by the APIs that any client may call, so that nothing has to be recorded
beforehand. Times are told as far as brokers have recorded them (`trace_points`).
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...protocol.delays import DUE, SOURCE, DelayRule
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.expiry import EXPIRED_KEY
from ...protocol.header_targets import BY_HEADER, read_partition, target_of
from ...protocol.partitioning import partition_for_key
from ...protocol.records.batch_header import BatchHeader, headers
from ...protocol.records.records import records
from ...protocol.trace_context import TraceContext, trace_context_of
from ...protocol.types import TopicIdPartition, TopicPartition, uuid_from_text
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..admin.config_types import ConfigResource
from ..admin.replica_types import ReplicaState
from ..config import settings_like
from .consumer import Consumer
from .retry_batch import Raw
from .trace_points import Times, times_near

POLL_MS: Final = 500
SEARCH_RECORDS: Final = 100_000
"""The most records of a partition that are looked through for a forwarded one."""
GROUP_TYPES: Final = ("consumer", "")
LEFT_OUT: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED)
"""Errors of groups that have ended meanwhile, or that the caller may not see."""


class NoSuchRecord(MinikafkaError):
    """Raised if there is no record at an offset; the text says why, as far as it is known."""


class Outcome(StrEnum):
    """The state of a record's transaction."""

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDED = "undecided"


class Forwarded(StrEnum):
    """The state of a record of a delay topic."""

    WAITS = "waits"
    DONE = "forwarded"
    UNKNOWN = "unknown"
    """It waits no more for the time it was parked with, and is not found in the target: it was
    cancelled, has another time, is on its way, or was deleted from the target."""


@dataclass(frozen=True, slots=True)
class ReplicaOf:
    """A replica, and whether it has the record."""

    broker_id: int
    has_it: bool | None
    """None if the broker did not answer."""
    is_leader: bool
    is_in_sync: bool
    log_end_offset: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupAt:
    """A group that has committed an offset in the record's partition."""

    group_id: str
    committed_offset: int
    is_past: bool
    """True if the committed offset is behind the record."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The fate of a record of a delay topic."""

    state: Forwarded
    due_ms: int
    """The time with which it was parked, in ms since the epoch; 0 for at once."""
    target: str
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    """The timestamp that it has in the target."""


@dataclass(frozen=True, slots=True)
class RecordTrace:
    """The life of one record."""

    record: Raw
    batch: BatchHeader
    leader_id: int
    leader_epoch: int
    """The leader epoch now; that in which the record was written is the batch's."""
    epoch_start: int | None
    """The offset at which the record's leader epoch began; None if no replica knows it any more."""
    high_watermark: int
    replicas: Sequence[ReplicaOf]
    outcome: Outcome
    groups: Sequence[GroupAt]
    forwarding: Forwarding | None
    """None if the topic forwards nothing."""
    source: str
    """`<topic>/<partition>/<offset>` from which the record was forwarded; empty if it was not."""
    source_due_ms: int | None
    trace_context: TraceContext | None
    times: Times
    """The times that brokers have recorded near it."""


class RecordTracer:
    """Traces records by an admin, and by consumers with the same settings."""

    def __init__(self, admin: Admin, runtime: Runtime | None = None) -> None:
        self._admin = admin
        self._settings = settings_like(admin.config) | {"auto_offset_reset": "none"}
        self._runtime = runtime

    async def trace(self, topic: str, partition: int, offset: int) -> RecordTrace:
        """Return what is known of a record.

        Raise NoSuchRecord if there is none, and AdminError for a topic that does not exist.
        """
        there = TopicPartition(topic, partition)
        described = (await self._admin.describe_topics([topic]))[topic]
        placed = next((each for each in described.partitions if each.partition == partition), None)
        if placed is None:
            raise NoSuchRecord(f"{topic} has {len(described.partitions)} partitions")
        states = (await self._admin.describe_replicas({there: placed.replicas}))[there]
        known = [each for each in states.values() if isinstance(each, ReplicaState)]
        leader = states.get(placed.leader_id)
        if not isinstance(leader, ReplicaState):
            raise NoSuchRecord(f"{topic}-{partition} has no leader that answers")
        _check_range(there, offset, leader)
        record, batch = await self.read(there, offset)
        told = dict(record.headers)
        return RecordTrace(
            record=record,
            batch=batch,
            leader_id=placed.leader_id,
            leader_epoch=placed.leader_epoch,
            epoch_start=_epoch_start(known, batch.leader_epoch),
            high_watermark=leader.high_watermark,
            replicas=[
                _replica_of(broker_id, states[broker_id], offset, placed.leader_id, placed.isr)
                for broker_id in placed.replicas
            ],
            outcome=await self._outcome(there, offset, batch, leader),
            groups=await self._groups(there, offset),
            forwarding=await self._forwarding(record),
            source=_text(told.get(SOURCE)),
            source_due_ms=int(due) if (due := _text(told.get(DUE))).isdecimal() else None,
            trace_context=trace_context_of(record.headers),
            times=await times_near(
                self._admin,
                self._consumer,
                TopicIdPartition(uuid_from_text(described.topic_id), partition),
                offset,
                record.timestamp_ms,
            ),
        )

    def _consumer(self, **settings: str) -> Consumer[bytes, bytes]:
        return Consumer.from_config(self._settings | settings, runtime=self._runtime)

    async def read(self, there: TopicPartition, offset: int) -> tuple[Raw, BatchHeader]:
        """Read a record and the header of its batch; raise NoSuchRecord if there is none."""
        async with self._consumer() as consumer:
            consumer.assign([there])
            consumer.seek(there, offset)
            while not (raw := await consumer.poll_raw(POLL_MS)):
                pass
            batch = _batch_at(raw[0].data, offset)
            consumer.seek(there, offset)
            while not batch.is_control and batch.base_offset <= offset:
                for record in await consumer.poll(POLL_MS):
                    if record.offset == offset:
                        return record, batch
                if await consumer.position(there) > offset:
                    break
        if not batch.is_control:
            what = "it was compacted away"
        elif _has_expired(raw[0].data, offset):
            what = "it has expired"
        else:
            what = "a control record of the log"
        raise NoSuchRecord(f"{there.topic}-{there.partition}@{offset}: no record: {what}")

    async def _outcome(
        self, there: TopicPartition, offset: int, batch: BatchHeader, leader: ReplicaState
    ) -> Outcome:
        if not batch.is_transactional:
            return Outcome.NONE
        if leader.last_stable_offset <= offset:
            return Outcome.UNDECIDED
        async with self._consumer(isolation_level="read_committed") as consumer:
            consumer.assign([there])
            consumer.seek(there, offset)
            while await consumer.position(there) <= offset:
                if any(one.offset == offset for one in await consumer.poll(POLL_MS)):
                    return Outcome.COMMITTED
        return Outcome.ABORTED

    async def _groups(self, there: TopicPartition, offset: int) -> list[GroupAt]:
        found: list[GroupAt] = []
        for group in await self._admin.list_groups():
            if group.protocol_type not in GROUP_TYPES:
                continue
            try:
                offsets = await self._admin.list_group_offsets(group.group_id, [there])
            except ApiError as error:
                if error.code not in LEFT_OUT:
                    raise
                continue
            if (at := offsets.get(there)) is not None and at.offset >= 0:
                found.append(GroupAt(group.group_id, at.offset, at.offset > offset))
        return found

    async def _forwarding(self, record: Raw) -> Forwarding | None:
        resource = ConfigResource.topic(record.topic)
        entries = (await self._admin.describe_configs([resource]))[resource]
        config = {name: entry.value or "" for name, entry in entries.items()}
        target = config.get("minikafka.delay.target", "")
        if target == BY_HEADER:
            target = target_of(record.headers) or ""
        if not target:
            return None
        rule = DelayRule(config["minikafka.delay.by"], int(config["minikafka.delay.ms"]))
        due_ms = rule.due_or_at_once(record.timestamp_ms, record.headers)
        waiting = await self._admin.list_delayed(
            [record.topic_partition], after=(due_ms, record.offset - 1), limit=1
        )
        if waiting and (waiting[0].due_ms, waiting[0].offset) == (due_ms, record.offset):
            return Forwarding(Forwarded.WAITS, due_ms, target)
        is_original = config["minikafka.delay.timestamp"] == "original"
        since_ms = due_ms if due_ms and not is_original else record.timestamp_ms
        by = config["minikafka.delay.partition"]
        async with aclosing(self._copies(record, target, since_ms, by)) as copies:
            async for copy in copies:
                place = (copy.partition, copy.offset, copy.timestamp_ms)
                return Forwarding(Forwarded.DONE, due_ms, target, *place)
        return Forwarding(Forwarded.UNKNOWN, due_ms, target)

    async def _copies(
        self, record: Raw, target: str, since_ms: int, by: str
    ) -> AsyncGenerator[Raw, None]:
        """Look through the target for what was forwarded from this record."""
        name = f"{record.topic}/{record.partition}/{record.offset}"
        source = dict(record.headers).get(SOURCE) or name.encode()
        async with self._consumer(isolation_level="read_committed") as consumer:
            count = len(await consumer.partitions_for(target))
            chosen = range(count)
            named = read_partition(record.headers) if by == "header" else None
            if by == "same" or named is not None:
                index = (record.partition if named is None else named) % count
                chosen = range(index, index + 1)
            elif record.key is not None:
                index = partition_for_key(record.key, count)
                chosen = range(index, index + 1)
            for index in chosen:
                there = TopicPartition(target, index)
                start = (await consumer.offsets_for_times({there: since_ms}))[there]
                end = (await consumer.end_offsets([there]))[there]
                if start is None:
                    continue
                consumer.assign([there])
                consumer.seek(there, start.offset)
                end = min(end, start.offset + SEARCH_RECORDS)
                while await consumer.position(there) < end:
                    for copy in await consumer.poll(POLL_MS):
                        if dict(copy.headers).get(SOURCE) == source:
                            yield copy


def _check_range(there: TopicPartition, offset: int, leader: ReplicaState) -> None:
    where = f"{there.topic}-{there.partition}@{offset}"
    if offset < leader.log_start_offset:
        begins = leader.log_start_offset
        raise NoSuchRecord(f"{where}: deleted: the log begins at {begins} now")
    if offset >= leader.log_end_offset:
        raise NoSuchRecord(f"{where}: not written yet: the log ends at {leader.log_end_offset}")
    if offset >= leader.high_watermark:
        raise NoSuchRecord(
            f"{where}: written and not committed: the high watermark is {leader.high_watermark}"
        )


def _has_expired(data: memoryview, offset: int) -> bool:
    """True if a control batch stands here for records that have expired."""
    for position, header in headers(data):
        if header.base_offset <= offset < header.next_offset and header.is_control:
            return any(record.key == EXPIRED_KEY for record in records(data, position))
    return False


def _batch_at(data: memoryview, offset: int) -> BatchHeader:
    """Return the header of the batch with this offset, or of the first one behind it."""
    position = 0
    while (batch := BatchHeader(data, position)).next_offset <= offset:
        position += batch.size
    return batch


def _epoch_start(known: Sequence[ReplicaState], epoch: int) -> int | None:
    epochs = [one for each in known for one in each.epochs]
    return min((one.start_offset for one in epochs if one.leader_epoch == epoch), default=None)


def _replica_of(
    broker_id: int,
    state: ReplicaState | ApiError,
    offset: int,
    leader_id: int,
    isr: Sequence[int],
) -> ReplicaOf:
    is_leader, is_in_sync = broker_id == leader_id, broker_id in isr
    if isinstance(state, ApiError):
        return ReplicaOf(broker_id, None, is_leader, is_in_sync, None, state.code.name)
    end = state.log_end_offset
    has_it = state.log_start_offset <= offset < end
    return ReplicaOf(broker_id, has_it, is_leader, is_in_sync, end)


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
