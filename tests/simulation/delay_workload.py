"""A delay topic, a producer that parks records in it, and what has to be in its targets in the end.

No broker of these topics may lead uncleanly, so that each acknowledged record is forwarded exactly
once (F2), whatever happens to the leaders of both: not before it is due by the clock of the broker
that planned it, and under a name that leads back to it. Records of transactions that abort are not,
nor are those that were cancelled. A cancel that came too late changes nothing. In half of the runs
one target takes no large records: each is a dead letter once, and is not in that target.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from minikafka.aio import Admin, Consumer, Delivery, NewTopic, Producer, TopicPartition
from minikafka.broker.forward.schedule import Schedule
from minikafka.broker.forward.taking import Taking
from minikafka.client.admin.delayed_types import DelayedRecord
from minikafka.client.errors import AdminError
from minikafka.protocol.delays import DELAY_MS, DUE, SOURCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.expiry import TTL_MS
from minikafka.runtime.errors import MinikafkaError

from .inside import sources_of
from .shape import TopicShape
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

LATER, NOW, ALSO, BURIED = "later", "now", "also", "buried"
COPIED = b"copied-"
"""The prefix of the keys of records that go to both targets, by rules."""
PARTITIONS = 2
SETTINGS = {
    "minikafka.delay.target": NOW,
    "minikafka.route.rules": json.dumps(
        [{"if": {"key": {"prefix": COPIED.decode()}}, "to": [NOW, ALSO]}]
    ),
    "minikafka.delay.timestamp": "now",
    "minikafka.delay.replace": "key",
    "segment.bytes": "3000",
}
LIMIT, LARGE = {"max.message.bytes": "1500"}, 1_600
"""What NOW takes at most, and the bytes of a large record; a plan of many may be too large, too."""
BURIES = {"minikafka.deadletter.topic": BURIED}
EXPIRES = {"minikafka.ttl.enable": "true", "minikafka.ttl.strict": "true"}
KEEPS = {"minikafka.delay.keep.ms": "3600000"}
REWRITES = {"minikafka.delay.keep.ms": "1000", "minikafka.delay.replace": "none"}
"""Forwarded records stay, or go: whole segments of them, or out of segments in which some wait."""
LONGEST_MS = 6_000
# So that a run has snapshots while brokers run, and records that wait for slow targets.
Schedule.save_after = 100
Taking.most_open, Taking.most_open_shared = 2, 5


def topic_shape(name: str, *, group: bool) -> TopicShape:
    """Return the shape of one of the topics; LATER has the settings in SETTINGS as well."""
    return TopicShape(name, PARTITIONS, 3, 2, group=group)


@dataclass(slots=True)
class Parked:
    """One record that was sent to the delay topic."""

    value: bytes
    partition: int
    offset: int = -1
    """Its offset once it is acknowledged, and its transaction committed; -1 before."""
    is_large: bool = False
    """True if NOW refuses it."""
    key: bytes | None = None
    """A key of its own, or that of a record which it takes the place of."""
    is_aborted: bool = False
    is_cancelled: bool = False
    may_be_missing: bool = False
    """True if it has a time to live, or a newer record of its key may have taken its place."""
    may_be_cancelled: bool = False
    """True if a cancel was not answered."""


@dataclass(slots=True)
class DelayHistory:
    """What was parked, and what is in the target in the end."""

    parked: dict[bytes, Parked] = field(default_factory=dict)
    final: list[tuple[bytes, bytes, int, int]] = field(default_factory=list)
    """Of each record its value, its source, its timestamp and when it was due."""
    also: list[tuple[bytes, bytes, int, int]] = field(default_factory=list)
    """The same of the records in the second target."""
    buried: list[tuple[bytes, bytes, int, int]] = field(default_factory=list)
    """The same of the dead letters."""

    def check(self) -> list[str]:
        """Return every contradiction as a sentence."""
        every = [*self.parked.values()]
        small = [one for one in every if not one.is_large]
        copied = [one for one in every if one.key is not None]
        large = [one for one in every if one.is_large]
        wrong = self._judge(self.final, small)
        wrong += [f"second target: {each}" for each in self._judge(self.also, copied)]
        wrong += [f"dead letters: {each}" for each in self._judge(self.buried, large)]
        return wrong

    def _judge(
        self, final: Sequence[tuple[bytes, bytes, int, int]], expected: Sequence["Parked"]
    ) -> list[str]:
        """Judge one target, in which the expected records are to be, and no others."""
        named = dict.fromkeys(one.value for one in expected)
        found: dict[bytes, list[bytes]] = {}
        wrong: list[str] = []
        for value, source, timestamp, due_ms in final:
            found.setdefault(value, []).append(source)
            if timestamp < due_ms:
                wrong.append(f"delayed: {value!r} was planned at {timestamp}, due {due_ms}")
        for value, sources in found.items():
            one = self.parked.get(value)
            if one is None or one.is_aborted:
                wrong.append(f"delayed: {value!r} of {sources} was not parked, or aborted")
            elif value not in named:
                wrong.append(f"delayed: {one} is not for it")
            elif one.is_cancelled:
                wrong.append(f"delayed: {one} was cancelled and forwarded")
            elif len(sources) > 1:
                wrong.append(f"delayed: {value!r} was forwarded more than once: {sources}")
            elif one.offset >= 0 and sources != [
                b"%s/%d/%d" % (b"later", one.partition, one.offset)
            ]:
                wrong.append(f"delayed: {value!r} of {sources} was parked at {one}")
        for one in expected:
            if one.is_cancelled or one.may_be_cancelled or one.may_be_missing:
                continue
            if one.offset >= 0 and one.value not in found:
                wrong.append(f"delayed: {one} was acknowledged and not forwarded")
        return wrong


async def make_topics(admin: Admin, *, group: bool, rewrites: bool, buries: bool) -> None:
    """Make the four topics."""
    settings = {
        BURIED: EXPIRES,
        NOW: {**EXPIRES, **(LIMIT if buries else {})},
        ALSO: EXPIRES,
        LATER: {**SETTINGS, **(REWRITES if rewrites else KEEPS), **(BURIES if buries else {})},
    }
    for name, own in settings.items():
        shape = topic_shape(name, group=group)
        configs = {**shape.configs, **own}
        await admin.create_topics([NewTopic(name, PARTITIONS, shape.replication, configs=configs)])


async def park(workload: "Workload", runtime: SimRuntime) -> None:
    """Park records until told to stop; some take the place of the one before."""
    newest: dict[int, Parked] = {}
    async with Producer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        request_timeout_ms=2000,
        delivery_timeout_ms=180_000,
    ) as producer:
        workload.started_count += 1
        while not workload.stopping:
            for _ in range(runtime.rng.choice((1, 3, 10))):
                one = _next(workload, runtime)
                if one.key is not None:
                    before = newest.get(one.partition)
                    if before is not None and runtime.rng.random() < 0.3:
                        one.key, before.may_be_missing = before.key, True
                    newest[one.partition] = one
                delivery = producer.send(
                    LATER,
                    one.value,
                    key=one.key,
                    partition=one.partition,
                    headers=_headers(one, runtime),
                )
                delivery.when_done(partial(_note, one, delivery))
            await asyncio.sleep(0.5 * runtime.rng.random())


async def park_in_transactions(workload: "Workload", runtime: SimRuntime) -> None:
    """Park records in transactions, of which every other one aborts."""
    workload.started_count += 1
    while not workload.stopping:
        try:
            async with Producer(
                bootstrap_servers=workload.cluster.bootstrap,
                runtime=runtime,
                transactional_id="parker",
                request_timeout_ms=2000,
                delivery_timeout_ms=10_000,
            ) as producer:
                while not workload.stopping:
                    await producer.begin_transaction()
                    one = _next(workload, runtime)
                    done = await producer.send(
                        LATER,
                        one.value,
                        key=one.key,
                        partition=one.partition,
                        headers=_headers(one, runtime),
                    )
                    if runtime.rng.random() < 0.5:
                        one.is_aborted = True
                        await producer.abort_transaction()
                    else:
                        await producer.commit_transaction()
                        one.offset = done.offset
                    workload.coverage.note("transition", "parked-in-transaction")
                    await asyncio.sleep(runtime.rng.random())
        except MinikafkaError:
            await asyncio.sleep(0.2)


async def change(workload: "Workload", runtime: SimRuntime) -> None:
    """Cancel records that wait, and give others another time, until told to stop."""
    partitions = [TopicPartition(LATER, index) for index in range(PARTITIONS)]
    async with Admin(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        request_timeout_ms=2000,
        default_api_timeout_ms=5000,
    ) as admin:
        workload.started_count += 1
        while not workload.stopping:
            await asyncio.sleep(2 * runtime.rng.random())
            try:
                waiting = await admin.list_delayed(partitions, limit=50)
            except MinikafkaError:
                continue
            if waiting and runtime.rng.random() < 0.5:
                await _cancel(workload, admin, runtime.rng.choice(waiting))
            elif waiting:
                _, partition, offset = runtime.rng.choice(waiting)
                due_ms = runtime.wall_ms() + runtime.rng.randrange(LONGEST_MS)
                times = {offset: runtime.rng.choice((None, due_ms))}
                with suppress(MinikafkaError):
                    await admin.reschedule_delayed({partition: times})
                    workload.coverage.note("transition", "rescheduled")


async def _cancel(workload: "Workload", admin: Admin, waiting: DelayedRecord) -> None:
    _, (_, index), offset = waiting
    parked = workload.delays.parked.values()
    one = next((each for each in parked if (each.partition, each.offset) == (index, offset)), None)
    if one is None:
        # Nobody was told yet where it is.
        return
    was_in_doubt, one.may_be_cancelled = one.may_be_cancelled, True
    try:
        await admin.cancel_delayed({TopicPartition(LATER, index): [offset]})
    except AdminError as error:
        workload.coverage.note("transition", "cancel-refused")
        (refused,) = error.errors.values()
        if refused.code is ErrorCode.INVALID_RECORD_STATE:
            one.may_be_cancelled = was_in_doubt
    except MinikafkaError:
        pass
    else:
        one.is_cancelled = True
        workload.coverage.note("transition", "cancelled")


def _next(workload: "Workload", runtime: SimRuntime) -> Parked:
    parked = workload.delays.parked
    one = Parked(b"%d" % len(parked), runtime.rng.randrange(PARTITIONS))
    if runtime.rng.random() < 0.2:
        one.key = COPIED + one.value
    if workload.buries and runtime.rng.random() < 0.05:
        one.is_large, one.value = True, one.value.ljust(LARGE)
    parked[one.value] = one
    return one


def _headers(one: Parked, runtime: SimRuntime) -> list[tuple[str, bytes]]:
    if runtime.rng.random() < 0.1:
        return []
    said = [(DELAY_MS, b"%d" % runtime.rng.randrange(LONGEST_MS))]
    if runtime.rng.random() < 0.1:
        one.may_be_missing = True
        said.append((TTL_MS, b"%d" % runtime.rng.randrange(LONGEST_MS)))
    return said


def _note(one: Parked, delivery: Delivery) -> None:
    if delivery.error() is None:
        one.offset = delivery.result().offset


def is_all_forwarded(workload: "Workload") -> bool:
    """True if the leaders of the delay topic have nothing left to forward."""
    led = [
        source
        for daemon in workload.cluster.brokers.values()
        if daemon.process is not None
        for source in sources_of(daemon.process)
        if source.leading is not None
    ]
    return len(led) == PARTITIONS and not any(
        source.pending
        or source.schedule.state.plans
        or source.schedule.state.folded < source.partition.log_end_offset
        for source in led
    )


async def read_target(workload: "Workload", runtime: SimRuntime) -> None:
    """Read all that was forwarded."""
    found = workload.delays
    topics = {NOW: found.final, ALSO: found.also, BURIED: found.buried}
    partitions = [TopicPartition(topic, index) for topic in topics for index in range(PARTITIONS)]
    async with Consumer(
        bootstrap_servers=workload.cluster.bootstrap,
        runtime=runtime,
        auto_offset_reset="earliest",
        request_timeout_ms=2000,
    ) as consumer:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while await workload.is_behind(consumer, ends):
            for record in await consumer.poll(timeout_ms=1000):
                said = dict(record.headers)
                source, due_ms = bytes(said[SOURCE] or b""), int(said[DUE] or b"0")
                final = (bytes(record.value or b""), source, record.timestamp_ms, due_ms)
                topics[record.topic].append(final)
