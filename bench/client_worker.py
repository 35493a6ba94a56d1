"""One client library doing one thing, in a process of its own: what `bench.clients` starts.

Prints a line of JSON: records, wall and CPU seconds of this process with all its threads. The
clock starts when the client is connected and knows the topic, and stops after the last answer.
"""

import asyncio
import faulthandler
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvloop

BATCH_BYTES = 250_000
LINGER_MS = 5
VALUES = 10_000
LOOK_EVERY = 500
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True)
class Task:
    """What to do, for how long."""

    bootstrap: str
    topic: str
    record_bytes: int
    seconds: float

    def values(self) -> list[bytes]:
        """Values to send, over and over, of the size in question; no two alike, no keys."""
        return [b"%08d" % n + bytes(self.record_bytes - 8) for n in range(VALUES)]


class Meter:
    """Time and CPU from its making on."""

    def __init__(self, task: Task) -> None:
        self.records = 0
        self.start = time.perf_counter()
        self.cpu = time.process_time()
        self.deadline = self.start + task.seconds

    @property
    def is_over(self) -> bool:
        """Has it lasted long enough?"""
        return time.perf_counter() >= self.deadline

    def report(self) -> dict[str, float]:
        """Say what was done and what it cost."""
        return {
            "records": self.records,
            "seconds": time.perf_counter() - self.start,
            "cpu": time.process_time() - self.cpu,
        }


# --- ours ---------------------------------------------------------------------------------------


@asynccontextmanager
async def our_producer(task: Task) -> AsyncIterator[Any]:
    """Open a producer that knows the topic."""
    from minikafka.aio import Producer

    async with Producer(
        task.bootstrap, batch_size=BATCH_BYTES, linger_ms=LINGER_MS, buffer_memory=BUFFER_BYTES
    ) as producer:
        await producer.partitions_for(task.topic)
        await producer.send(task.topic, b"first")
        yield producer


async def ours_send(task: Task) -> dict[str, float]:
    """Call `send` for each record; nobody looks at what it gives back."""
    async with our_producer(task) as producer:
        values, meter, topic = task.values(), Meter(task), task.topic
        send = producer.send
        while not meter.is_over:
            for start in range(0, VALUES, LOOK_EVERY):
                for value in values[start : start + LOOK_EVERY]:
                    send(topic, value)
                await producer.drain()
                await asyncio.sleep(0)
            meter.records += VALUES
        await producer.flush()
        return meter.report()


async def ours_send_batch(task: Task) -> dict[str, float]:
    """Hand over lists of values."""
    from minikafka.aio import Columns

    async with our_producer(task) as producer:
        values, meter = task.values(), Meter(task)
        some = max(1, 1_000_000 // task.record_bytes)
        while not meter.is_over:
            for start in range(0, VALUES, some):
                lot = values[start : start + some]
                producer.send_batch(task.topic, Columns(lot))
                meter.records += len(lot)
                await producer.drain()
                await asyncio.sleep(0)
        await producer.flush()
        return meter.report()


async def ours_send_arrow(task: Task) -> dict[str, float]:
    """Hand over Arrow arrays."""
    import pyarrow

    from minikafka.aio import Columns

    async with our_producer(task) as producer:
        some = max(1, 1_000_000 // task.record_bytes)
        values: Any = pyarrow.array(task.values()[:some], pyarrow.binary())
        meter = Meter(task)
        while not meter.is_over:
            producer.send_batch(task.topic, Columns(values))
            meter.records += len(values)
            await producer.drain()
            await asyncio.sleep(0)
        await producer.flush()
        return meter.report()


@asynccontextmanager
async def our_consumer(task: Task) -> AsyncIterator[Any]:
    """Open a consumer at the topic's beginning."""
    from minikafka.aio import Consumer

    async with Consumer(task.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(task.topic, 0)])
        yield consumer


async def ours_poll(task: Task) -> dict[str, float]:
    """Poll lists of records, look at each value."""
    size = 0
    async with our_consumer(task) as consumer:
        await consumer.poll(10_000, max_records=1)
        meter = Meter(task)
        while not meter.is_over:
            polled = await consumer.poll(1_000, max_records=10_000)
            if not polled:
                consumer.seek((task.topic, 0), 0)
            for record in polled:
                size += len(record.value)
            meter.records += len(polled)
        return meter.report()


async def ours_poll_columns(task: Task) -> dict[str, float]:
    """Poll columns, look at each value."""
    size = 0
    async with our_consumer(task) as consumer:
        await consumer.poll_columns(10_000, max_records=1)
        meter = Meter(task)
        while not meter.is_over:
            polled = await consumer.poll_columns(1_000)
            if not polled:
                consumer.seek((task.topic, 0), 0)
            for columns in polled:
                for value in columns.values:
                    size += len(value)
                meter.records += len(columns.values)
        return meter.report()


async def ours_iterate(task: Task) -> dict[str, float]:
    """Take record by record out of the consumer."""
    size = 0
    async with our_consumer(task) as consumer:
        await consumer.poll(10_000, max_records=1)
        end = consumer.high_watermark((task.topic, 0)) - 1
        meter = Meter(task)
        async for record in consumer:
            size += len(record.value)
            meter.records += 1
            if record.offset >= end or (meter.records % LOOK_EVERY == 0 and meter.is_over):
                break
        return meter.report()


# --- confluent-kafka ----------------------------------------------------------------------------


@contextmanager
def confluent_producer(task: Task) -> Iterator[tuple[Any, Meter]]:
    """Open a producer that knows the topic; flush it at the end."""
    import confluent_kafka

    failed: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": BUFFER_BYTES >> 10,
            "error_cb": failed.append,
        }
    )
    producer.produce(task.topic, b"first", on_delivery=on_delivery)
    producer.flush()
    meter = Meter(task)
    yield producer, meter
    producer.flush()
    if failed:
        raise RuntimeError(f"{len(failed)} records failed, the first: {failed[0]}")


def confluent_produce(task: Task) -> dict[str, float]:
    """Call `produce` for each record, without a callback each."""
    values = task.values()
    with confluent_producer(task) as (producer, meter):
        produce, topic = producer.produce, task.topic
        while not meter.is_over:
            for value in values:
                while True:
                    try:
                        produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.01)
            producer.poll(0)
            meter.records += VALUES
    return meter.report()


def confluent_produce_batch(task: Task) -> dict[str, float]:
    """Hand over lists of messages."""
    messages = [{"value": value} for value in task.values()]
    with confluent_producer(task) as (producer, meter):
        while not meter.is_over:
            taken = producer.produce_batch(task.topic, messages)
            meter.records += taken
            producer.poll(0 if taken == len(messages) else 0.01)
            for message in messages:
                message.pop("_error", None)
    return meter.report()


@contextmanager
def confluent_consumer(task: Task) -> Iterator[Any]:
    """Open a consumer at the topic's beginning."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": task.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(task.topic, 0, 0)])
    yield consumer
    consumer.close()


def confluent_consume(task: Task) -> dict[str, float]:
    """Consume lists of messages, look at each value."""
    import confluent_kafka

    size = 0
    with confluent_consumer(task) as consumer:
        consumer.consume(1, 10)
        meter = Meter(task)
        while not meter.is_over:
            messages = consumer.consume(10_000, 1)
            if not messages:
                consumer.seek(confluent_kafka.TopicPartition(task.topic, 0, 0))
            for message in messages:
                size += len(message.value())
            meter.records += len(messages)
        return meter.report()


def confluent_poll(task: Task) -> dict[str, float]:
    """Poll message by message."""
    import confluent_kafka

    size = 0
    with confluent_consumer(task) as consumer:
        end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(task.topic, 0))[1] - 1
        consumer.poll(10)
        meter = Meter(task)
        while True:
            message = consumer.poll(5)
            size += len(message.value())
            meter.records += 1
            if message.offset() >= end or (meter.records % LOOK_EVERY == 0 and meter.is_over):
                break
        return meter.report()


# --- aiokafka -----------------------------------------------------------------------------------


async def aiokafka_send(task: Task) -> dict[str, float]:
    """Await `send` for each record, which makes a future each."""
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
    )
    await producer.start()
    await producer.send_and_wait(task.topic, b"first")
    values, meter, topic = task.values(), Meter(task), task.topic
    send = producer.send
    while not meter.is_over:
        for value in values:
            await send(topic, value)
        meter.records += VALUES
    await producer.flush()
    report = meter.report()
    await producer.stop()
    return report


@asynccontextmanager
async def aiokafka_consumer(task: Task) -> AsyncIterator[Any]:
    """Open a consumer at the topic's beginning."""
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(task.topic, 0)])
    yield consumer
    await consumer.stop()


async def aiokafka_getmany(task: Task) -> dict[str, float]:
    """Get lists of records, look at each value."""
    import aiokafka

    size = 0
    partition = aiokafka.TopicPartition(task.topic, 0)
    async with aiokafka_consumer(task) as consumer:
        await consumer.getmany(timeout_ms=10_000, max_records=1)
        meter = Meter(task)
        while not meter.is_over:
            found = await consumer.getmany(timeout_ms=1_000, max_records=10_000)
            records = found.get(partition, ())
            if not records:
                consumer.seek(partition, 0)
            for record in records:
                size += len(record.value)
            meter.records += len(records)
        return meter.report()


async def aiokafka_iterate(task: Task) -> dict[str, float]:
    """Take record by record out of the consumer."""
    import aiokafka

    size = 0
    partition = aiokafka.TopicPartition(task.topic, 0)
    async with aiokafka_consumer(task) as consumer:
        await consumer.getone()
        end = (await consumer.end_offsets([partition]))[partition] - 1
        meter = Meter(task)
        async for record in consumer:
            size += len(record.value)
            meter.records += 1
            if record.offset >= end or (meter.records % LOOK_EVERY == 0 and meter.is_over):
                break
        return meter.report()


PATIENCE_SECONDS = 60.0
Way = Callable[[Task], Awaitable[dict[str, float]] | dict[str, float]]
WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        ours_send,
        ours_send_batch,
        ours_send_arrow,
        ours_poll,
        ours_poll_columns,
        ours_iterate,
        confluent_produce,
        confluent_produce_batch,
        confluent_consume,
        confluent_poll,
        aiokafka_send,
        aiokafka_getmany,
        aiokafka_iterate,
    )
}


def main() -> None:
    """Do what the command line says: way, bootstrap, topic, bytes of a record, seconds."""
    name, bootstrap, topic, record_bytes, seconds = sys.argv[1:]
    faulthandler.dump_traceback_later(float(seconds) + 1.5 * PATIENCE_SECONDS, exit=True)
    done: Any = WAYS[name](Task(bootstrap, topic, int(record_bytes), float(seconds)))
    if asyncio.iscoroutine(done):
        done = uvloop.run(_within(done, float(seconds) + PATIENCE_SECONDS))
    print(json.dumps(done))


async def _within(work: Any, seconds: float) -> Any:
    """One that hangs fails, and its traceback tells where."""
    async with asyncio.timeout(seconds):
        return await work


if __name__ == "__main__":
    main()
