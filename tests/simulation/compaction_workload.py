"""A compacted topic with two producers: one keeps a value per key, one aborts all it writes.

Compaction may leave any records, provided that the newest acknowledged value of each key is among
them, that each has its acknowledged offset, and that none was aborted.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from minikafka.aio import Consumer, Delivery, Producer, TopicPartition
from minikafka.runtime.errors import MinikafkaError

from .shape import TopicShape
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

TOPIC = "state"
KEYS = 8
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "2000",
}
ABORTED = b"aborted"


def topic_shape(*, group: bool) -> TopicShape:
    """Draw the shape of the topic, which has the settings in SETTINGS."""
    return TopicShape(TOPIC, 1, 3, 2, group=group, segment_bytes=1000)


@dataclass(slots=True)
class Write:
    """One value that was written for a key; None if it was deleted."""

    key: bytes
    number: int
    is_tombstone: bool
    offset: int | None = None
    """The record's offset once it is acknowledged; None before."""

    @property
    def value(self) -> bytes | None:
        return None if self.is_tombstone else b"%s:%d" % (self.key, self.number)


@dataclass(slots=True)
class StateHistory:
    """The writes of one producer in order, and the records that can be read in the end."""

    writes: list[Write] = field(default_factory=list)
    final: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    """The offset, the key and the value of each record."""

    def check(self) -> list[str]:
        """Return every contradiction as a sentence."""
        return [*self._check_places(), *self._check_newest()]

    def _check_places(self) -> Iterator[str]:
        known = {(each.key, each.value): each for each in self.writes if not each.is_tombstone}
        before = -1
        for offset, key, value in self.final:
            if offset <= before:
                yield f"compacted: offset {offset} comes after {before}"
            before = offset
            write = known.get((key, value))
            if value is not None and write is None:
                yield f"compacted: {value!r} of {key!r} at offset {offset} is no value of it"
            elif write is not None and write.offset not in (None, -1, offset):
                yield f"compacted: {value!r} is at offset {offset}, not at {write.offset}"

    def _check_newest(self) -> Iterator[str]:
        left = {key: (offset, value) for offset, key, value in self.final}
        for key in dict.fromkeys(each.key for each in self.writes):
            writes = [each for each in self.writes if each.key == key]
            acknowledged = [place for place, each in enumerate(writes) if each.offset is not None]
            if not acknowledged:
                continue
            may_be_last = writes[acknowledged[-1] :]
            offset, value = left.get(key, (-1, None))
            if value not in [each.value for each in may_be_last]:
                yield (
                    f"compacted: {key!r} has {value!r} (offset {offset}), where"
                    f" {may_be_last[0].value!r} was acknowledged at {may_be_last[0].offset}"
                )


async def keep(workload: "Workload", runtime: SimRuntime) -> None:
    """Write values of keys until told to stop."""
    history = workload.state
    async with Producer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        request_timeout_ms=2000,
        delivery_timeout_ms=180_000,
    ) as producer:
        workload.started_count += 1
        while not workload.stopping:
            for _ in range(runtime.rng.choice((1, 3, 10))):
                key = b"key-%d" % runtime.rng.randrange(KEYS)
                write = Write(key, len(history.writes), runtime.rng.random() < 0.1)
                history.writes.append(write)
                await producer.drain()
                delivery = producer.send(TOPIC, write.value, key=key, partition=0)
                delivery.when_done(partial(_note, write, delivery))
            await asyncio.sleep(0.5 * runtime.rng.random())


def _note(write: Write, delivery: Delivery) -> None:
    if delivery.error() is None:
        write.offset = delivery.result().offset


async def abort_all(workload: "Workload", runtime: SimRuntime) -> None:
    """Write to the same keys in transactions, and abort each."""
    workload.started_count += 1
    while not workload.stopping:
        try:
            async with Producer(
                bootstrap_servers=workload.cluster.bootstrap,
                runtime=runtime,
                transactional_id="aborter",
                request_timeout_ms=2000,
                delivery_timeout_ms=10_000,
            ) as producer:
                while not workload.stopping:
                    await producer.begin_transaction()
                    key = b"key-%d" % runtime.rng.randrange(KEYS)
                    await producer.send(TOPIC, ABORTED, key=key, partition=0)
                    await producer.abort_transaction()
                    workload.coverage.note("transition", "aborted-in-compacted")
                    await asyncio.sleep(runtime.rng.random())
        except MinikafkaError:
            await asyncio.sleep(0.2)


async def read_state(workload: "Workload", runtime: SimRuntime) -> None:
    """Read all that is committed, from the beginning to the end."""
    partition = TopicPartition(TOPIC, 0)
    async with Consumer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        request_timeout_ms=2000,
    ) as consumer:
        ends = await consumer.end_offsets([partition])
        consumer.assign([partition])
        consumer.seek_to_beginning()
        while await workload.is_behind(consumer, ends):
            for record in await consumer.poll(timeout_ms=1000):
                value = bytes(record.value) if record.value is not None else None
                workload.state.final.append((record.offset, bytes(record.key or b""), value))
