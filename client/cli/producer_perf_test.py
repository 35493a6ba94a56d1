"""`minikafka producer-perf-test`: send records at a given rate, report as Kafka's tool does.

Owns flags, payloads and the rate; `performance` computes and formats the results.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..producer.producer import Producer

from .common import (
    FILE,
    bootstrap_option,
    client_settings,
    command_config,
    command_property,
    run,
    say,
)
from .performance import ProducerStats, metric_lines

UNTHROTTLED_CHUNK = 256
DEFAULT_TRANSACTION_MS = 3000
DEFAULT_TRANSACTIONAL_ID = "performance-producer"
SEED = 0
Payload = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the test: the records to send, their rate, the reporting interval."""

    topic: str
    count: int
    throughput: float
    warmup: int
    interval_ms: int
    transaction_ms: int | None = None
    """The ms after which a transaction is committed; None means no transactions."""
    prints_metrics: bool = False

    def due_seconds(self, number: int) -> float:
        """Return when to send record `number`, in seconds from the start; 0 without a rate."""
        return number / self.throughput if self.throughput > 0 else 0.0


@click.command("producer-perf-test")
@bootstrap_option(required=False)
@click.option("--topic", required=True, help="The topic to write to.")
@click.option(
    "--num-records",
    required=True,
    type=click.IntRange(min=0),
    help="The number of records to send.",
)
@click.option("--record-size", type=click.IntRange(min=1), help="Bytes of each record's value.")
@click.option(
    "--payload-file",
    type=FILE,
    help="Values are lines of this file, chosen at random.",
)
@click.option("--payload-delimiter", default="\\n", help="The separator of values in the file.")
@click.option("--payload-monotonic", is_flag=True, help="Values are 0, 1, 2, ...")
@click.option(
    "--throughput", type=float, default=-1.0, help="Records per second; -1 for as fast as possible."
)
@click.option(
    "--warmup-records",
    type=click.IntRange(min=0),
    default=0,
    help="The number of first records that are left out of the results.",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=1),
    default=5000,
    help="Time between two lines of results, in ms.",
)
@click.option("--print-metrics", is_flag=True, help="Print the producer's metrics at the end.")
@click.option("--transactional-id", help="Send in transactions with this transactional id.")
@click.option(
    "--transaction-duration-ms",
    type=click.IntRange(min=1),
    help="Send in transactions, each committed after so many ms. [default: 3000]",
)
@command_config("--producer.config")
@command_property("--producer-props", "--producer-property")
@click.argument("more_properties", nargs=-1, metavar="[KEY=VALUE]...")
def producer_perf_test(
    bootstrap: str | None,
    topic: str,
    num_records: int,
    record_size: int | None,
    payload_file: Path | None,
    payload_delimiter: str,
    payload_monotonic: bool,
    throughput: float,
    warmup_records: int,
    reporting_interval: int,
    print_metrics: bool,
    transactional_id: str | None,
    transaction_duration_ms: int | None,
    command_config: Path | None,
    command_properties: tuple[str, ...],
    more_properties: tuple[str, ...],
) -> None:
    """Send records and report rate and latency.

    \b
    minikafka producer-perf-test --topic t --num-records 100000 --record-size 1000 \\
        --throughput -1 --producer-props bootstrap.servers=localhost:9092 acks=all
    minikafka producer-perf-test --bootstrap-server localhost:9092 --topic t \\
        --num-records 100000 --record-size 1000 --transaction-duration-ms 100
    """
    chosen = [record_size is not None, payload_file is not None, payload_monotonic]
    if sum(chosen) != 1:
        raise click.UsageError(
            "exactly one of --record-size, --payload-file and --payload-monotonic is needed"
        )
    if warmup_records >= num_records > 0:
        raise click.UsageError("--warmup-records must be below --num-records")
    properties = (*command_properties, *more_properties)
    usual = {"client.id": "perf-producer-client", "transactional.id": transactional_id}
    settings = client_settings(bootstrap, command_config, properties, usual)
    if "bootstrap.servers" not in settings:
        raise click.UsageError("--bootstrap-server (or bootstrap.servers) is needed")
    payload = _payload(record_size, payload_file, payload_delimiter)
    transaction_ms = transaction_duration_ms
    if "transactional.id" in settings:
        transaction_ms = transaction_ms or DEFAULT_TRANSACTION_MS
    elif transaction_ms is not None:
        dice = random.SystemRandom()
        settings["transactional.id"] = f"{DEFAULT_TRANSACTIONAL_ID}-{dice.getrandbits(64):016x}"
    plan = Plan(
        topic,
        num_records,
        throughput,
        warmup_records,
        reporting_interval,
        transaction_ms,
        print_metrics,
    )
    run(_measure(settings, plan, payload))


def _payload(record_size: int | None, file: Path | None, delimiter: str) -> Payload:
    dice = random.Random(SEED)
    if record_size is not None:
        value = bytes(dice.choices(range(65, 91), k=record_size))
        return lambda number: value
    if file is None:
        return lambda number: b"%d" % number
    separator = delimiter.encode().decode("unicode_escape").encode()
    values = [value for value in file.read_bytes().split(separator) if value]
    if not values:
        raise click.ClickException(f"{file}: holds no values")
    return lambda number: dice.choice(values)


class Measurement:
    """Counts acknowledged records and prints a line per interval."""

    def __init__(self, plan: Plan) -> None:
        now_ms = _now_ms()
        self._plan = plan
        self._next_ms = now_ms + plan.interval_ms
        self._acknowledged = 0
        self.all = ProducerStats.begin(plan.count, now_ms)
        self.steady: ProducerStats | None = None
        self.failed = 0

    def on_delivery(
        self, sent_ms: float, size: int, error: Exception | None, metadata: object
    ) -> None:
        """Count one delivered or failed record."""
        if error is not None:
            self.failed += 1
            if self.failed == 1:
                say(f"minikafka producer-perf-test: {error}")
            return
        now_ms = _now_ms()
        self._acknowledged += 1
        self.all.add(now_ms - sent_ms, size)
        if self._acknowledged > self._plan.warmup > 0:
            if self.steady is None:
                count = self._plan.count - self._plan.warmup
                self.steady = ProducerStats.begin(count, now_ms, " steady state")
            self.steady.add(now_ms - sent_ms, size)
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + self._plan.interval_ms
            print((self.steady or self.all).end_window(now_ms), flush=True)

    def print_summary(self) -> None:
        """Print the totals; with a warm-up, first the totals without the warm-up."""
        now_ms = _now_ms()
        if self.steady is not None:
            print(self.steady.summary(now_ms))
        print(self.all.summary(now_ms), flush=True)


class Commits:
    """Begins and commits transactions, one after the other, each of about the same length."""

    def __init__(self, producer: "Producer[bytes, bytes]", length_ms: int | None) -> None:
        """Commit a transaction every `length_ms`; if it is None, use no transactions."""
        self._producer = producer
        self._length_ms = length_ms
        self._begun_ms: float | None = None

    async def before_send(self) -> None:
        """Begin a transaction if none is open, and replace one that is `length_ms` old."""
        if self._length_ms is None:
            return
        if self._begun_ms is not None and _now_ms() - self._begun_ms >= self._length_ms:
            await self.end()
        if self._begun_ms is None:
            await self._producer.begin_transaction()
            self._begun_ms = _now_ms()

    async def end(self) -> None:
        """Commit the open transaction, if there is one."""
        if self._begun_ms is not None:
            await self._producer.commit_transaction()
            self._begun_ms = None


async def _measure(settings: dict[str, str], plan: Plan, payload: Payload) -> int:
    from ..producer.producer import Producer

    async with Producer.from_config(settings) as producer:
        measurement = Measurement(plan)
        started = time.monotonic()
        commits = Commits(producer, plan.transaction_ms)
        for number in range(plan.count):
            if plan.throughput > 0:
                ahead = plan.due_seconds(number) - (time.monotonic() - started)
                if ahead > 0:
                    await asyncio.sleep(ahead)
            elif number % UNTHROTTLED_CHUNK == 0:
                await asyncio.sleep(0)  # `send` does not yield, so let the loop take answers.
            await producer.drain()
            if plan.transaction_ms is not None:
                await commits.before_send()
            value = payload(number)
            done = partial(measurement.on_delivery, _now_ms(), len(value))
            producer.send(plan.topic, value, on_delivery=done)
        await producer.flush()
        await commits.end()
        await asyncio.sleep(0)  # Callbacks of the last batch run through the loop.
        metrics, client_id = producer.metrics(), producer.config.client_id
    measurement.print_summary()
    if plan.prints_metrics:
        print("\n".join(metric_lines("producer", client_id, metrics)))
    if measurement.failed:
        say(f"minikafka producer-perf-test: {measurement.failed} records were not delivered")
    return 1 if measurement.failed else 0


def _now_ms() -> float:
    return time.monotonic() * 1000.0
