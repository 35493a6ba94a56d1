"""Reads the trace points near a record from their topic, as any consumer with the right to may."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.trace_points import decode, place_of
from ...protocol.types import TRACE_TOPIC, TopicIdPartition, TopicPartition
from ...runtime.errors import MinikafkaError
from ..admin.admin import Admin
from ..admin.config_types import ConfigResource
from ..errors import AdminError
from .consumer import Consumer
from .time_lines import TimeLine, Told, time_lines

POLL_MS: Final = 500
LOOKED_AT_MAX: Final = 100_000
"""The most records of the topic of trace points that are read for one question."""
BEFORE_MS: Final = 60_000
"""How much earlier than the record's timestamp the search begins, because clocks differ."""
EVERY: Final = "minikafka.trace.every"


@dataclass(frozen=True, slots=True)
class Times:
    """The recorded times near a record."""

    lines: tuple[TimeLine, ...] = ()
    """In the order of offsets: the nearest one before the record, its own, the nearest behind."""
    why: str = ""
    """The reason if there are none."""
    looked_at: int = 0
    """The trace points of any partition that were read."""
    is_cut: bool = False
    """True if there are more, which were not read."""


async def times_near(
    admin: Admin,
    consumer_of: Callable[[], Consumer[bytes, bytes]],
    there: TopicIdPartition,
    offset: int,
    since_ms: int,
) -> Times:
    """Return the recorded times nearest to a record, whose timestamp is `since_ms`."""
    try:
        kept = await admin.describe_topics([TRACE_TOPIC])
    except AdminError as error:
        if error.errors[TRACE_TOPIC].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return Times(why=await _why_not(admin))
        return Times(why=f"not told: {error}")
    place = place_of(*there, len(kept[TRACE_TOPIC].partitions))
    kept_in = TopicPartition(TRACE_TOPIC, place)
    found: list[Told] = []
    looked_at = 0
    async with consumer_of() as consumer:
        try:
            start = await _start(consumer, kept_in, since_ms)
            end = (await consumer.end_offsets([kept_in]))[kept_in]
            consumer.assign([kept_in])
            consumer.seek(kept_in, start)
            while await consumer.position(kept_in) < end and looked_at < LOOKED_AT_MAX:
                for record in await consumer.poll(POLL_MS):
                    looked_at += 1
                    try:
                        told = decode(record.key, record.value)
                    except RemoteProtocolError:
                        continue  # Of a broker that writes what this version cannot read.
                    if told is not None and told[0][:2] == there:
                        found.append(told)
            is_cut = await consumer.position(kept_in) < end
        except MinikafkaError as error:
            return Times(why=f"not told: {error}")
    lines = tuple(time_lines(found, offset))
    why = "" if lines else await _why_not(admin)
    return Times(lines, why, looked_at, is_cut)


async def _start(consumer: Consumer[bytes, bytes], kept_in: TopicPartition, since_ms: int) -> int:
    """Return where points of the time begin, or the newest ones if there are none so late."""
    start = (await consumer.offsets_for_times({kept_in: max(0, since_ms - BEFORE_MS)}))[kept_in]
    if start is not None:
        return start.offset
    begin = (await consumer.beginning_offsets([kept_in]))[kept_in]
    return max(begin, (await consumer.end_offsets([kept_in]))[kept_in] - LOOKED_AT_MAX)


async def _why_not(admin: Admin) -> str:
    """Return why nothing is recorded, as far as the caller may know the setting."""
    try:
        brokers = (await admin.describe_cluster()).brokers
        resource = ConfigResource.broker(brokers[0].node_id)
        entries = (await admin.describe_configs([resource], keys=[EVERY]))[resource]
        every = entries[EVERY].value
    except (MinikafkaError, KeyError, IndexError):
        return "no trace point of this partition is kept"
    if every == "0":
        return f"not recorded: {EVERY} is 0 (docs/trace.md)"
    return f"no trace point of this partition is kept: {EVERY} is {every}"
