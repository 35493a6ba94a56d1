"""`minikafka e2e-latency`: measure how long a record takes from a producer to a consumer."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.records.record_batch import Headers
from ...protocol.types import TopicPartition
from .common import bootstrap_server, client_settings, command_config, run, say, with_admin
from .performance import percentiles

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from ..consumer.consumer import Consumer
    from ..producer.producer import Producer
    from ..records import ConsumerRecord

COMPLAINT = "Error while executing e2e latency command"
POLL_MS = 60_000
LINE_EVERY = 1000
SEED = 0
PERCENTILES = (0.5, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of records to send, and the sizes of their parts in bytes."""

    topic: str
    count: int
    value_size: int
    key_size: int
    header_count: int
    header_key_size: int
    header_value_size: int
    """Bytes of each header's value, or -1 for a null value."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The parts of a sent record that must be read back unchanged."""

    key: bytes | None
    value: bytes
    headers: Headers


@click.command("e2e-latency")
@bootstrap_server
@click.option("--topic", required=True, help="The topic; it is created if it does not exist.")
@click.option(
    "--num-records",
    "count",
    required=True,
    type=click.IntRange(min=1),
    help="The number of records to send.",
)
@click.option(
    "--producer-acks",
    "acks",
    required=True,
    type=click.Choice(["1", "all"]),
    help="Who must have a record before it counts as sent: the leader, or all in sync.",
)
@click.option(
    "--record-size",
    "value_size",
    required=True,
    type=click.IntRange(min=0),
    help="Bytes of each record's value.",
)
@click.option(
    "--record-key-size",
    "key_size",
    default=0,
    type=click.IntRange(min=0),
    help="Bytes of each record's key; 0 for no key.",
)
@click.option(
    "--num-headers",
    "header_count",
    default=0,
    type=click.IntRange(min=0),
    help="The number of headers of each record.",
)
@click.option(
    "--record-header-key-size",
    "header_key_size",
    default=0,
    type=click.IntRange(min=0),
    help="Bytes of each header's key.",
)
@click.option(
    "--record-header-size",
    "header_value_size",
    default=0,
    type=click.IntRange(min=-1),
    help="Bytes of each header's value; -1 for null.",
)
@command_config()
def e2e_latency(bootstrap: str, acks: str, command_config: Path | None, **planned: Any) -> None:
    """Send records one by one, and measure the time until each was read again.

    Prints the latency of every 1000th record, then the average and percentiles, in ms. The exit
    code is 1 if a record does not come back unchanged within 60 s.

    \b
    minikafka e2e-latency --bootstrap-server localhost:9092 --topic t --num-records 10000 \\
        --producer-acks all --record-size 100
    """
    plan = Plan(**planned)
    settings = client_settings(bootstrap, command_config)
    settings.setdefault("client.id", "e2e-latency")

    async def act(admin: "Admin") -> int:
        from ..consumer.consumer import Consumer
        from ..producer.producer import Producer

        partitions = await _partitions(admin, plan.topic)
        beside = {"acks": acks, "linger.ms": "0"}
        reading = {"enable.auto.commit": "false"}
        async with (
            Producer.from_config({**settings, **beside}) as producer,
            Consumer.from_config({**settings, **reading}) as consumer,
        ):
            consumer.assign(partitions)
            consumer.seek_to_end(*partitions)
            for partition in partitions:
                await consumer.position(partition)
            return await _measure(plan, producer, consumer)

    run(with_admin(settings, act, COMPLAINT))


async def _partitions(admin: "Admin", topic: str) -> list[TopicPartition]:
    from ..admin.topic_types import NewTopic

    if topic not in {one.name for one in await admin.list_topics()}:
        print(
            f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and '
            "replication factor = 1",
            flush=True,
        )
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
        return [TopicPartition(topic, 0)]
    described = (await admin.describe_topics([topic]))[topic]
    return [TopicPartition(topic, one.partition) for one in described.partitions]


async def _measure(
    plan: Plan, producer: "Producer[bytes, bytes]", consumer: "Consumer[bytes, bytes]"
) -> int:
    dice = random.Random(SEED)
    latencies_ms: list[float] = []
    for number in range(plan.count):
        sent = _record(plan, dice)
        begun = time.perf_counter_ns()
        await producer.send(plan.topic, sent.value, sent.key, headers=sent.headers)
        found = await consumer.poll(timeout_ms=POLL_MS)
        latency_ms = (time.perf_counter_ns() - begun) / 1_000_000
        if (why := difference(sent, found)) is not None:
            say(f"{COMPLAINT}: {why}")
            return 1
        latencies_ms.append(latency_ms)
        if number % LINE_EVERY == 0:
            print(f"{number}\t{latency_ms}", flush=True)
    print("\n".join(summary(latencies_ms)))
    return 0


def _record(plan: Plan, dice: random.Random) -> Sent:
    def letters(size: int) -> bytes:
        return bytes(dice.choices(range(65, 91), k=size))

    headers = tuple(
        (
            letters(plan.header_key_size).decode(),
            None if plan.header_value_size < 0 else letters(plan.header_value_size),
        )
        for _ in range(plan.header_count)
    )
    key = letters(plan.key_size) if plan.key_size else None
    return Sent(key, letters(plan.value_size), headers)


def difference(sent: Sent, found: "Sequence[ConsumerRecord[bytes, bytes]]") -> str | None:
    """Return how the records read differ from the one that was sent; None if they do not."""
    if not found:
        return f"poll() timed out before finding a result (timeout:[{POLL_MS}ms])"
    if len(found) != 1:
        return f"Only one result was expected during this test. We found [{len(found)}]"
    (read,) = found
    for what, mine, theirs in (
        ("value", sent.value, read.value),
        ("key", sent.key, read.key),
        ("headers", tuple(sent.headers), tuple(read.headers)),
    ):
        if mine != theirs:
            return f"The message {what} read [{theirs!r}] did not match the one sent [{mine!r}]"
    return None


def summary(latencies_ms: Sequence[float]) -> list[str]:
    """Return the lines of results as Kafka's tool prints them; percentiles are whole ms."""
    average = sum(latencies_ms) / len(latencies_ms)
    half, most, nearly_all = (int(one) for one in percentiles(latencies_ms, PERCENTILES))
    return [
        f"Avg latency: {average:.4f} ms",
        f"Percentiles: 50th = {half}, 99th = {most}, 99.9th = {nearly_all}",
    ]
