"""`minikafka verifiable-producer`: write numbers, and print the outcome of each as JSON.

Kafka's system tests compare these lines with those of `verifiable-consumer`.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import bootstrap_server, client_settings, command_config, run
from .json_events import tell

if TYPE_CHECKING:
    from ..producer.producer import Producer
    from ..records import RecordMetadata

UNTHROTTLED_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Plan:
    """The records to send, and their rate."""

    topic: str
    max_messages: int
    """The number of records; below 0 there is no end."""
    throughput: int
    """The most records per second; below 0 there is no limit."""
    create_time_ms: int
    """The timestamp of the first record in ms since the epoch; below 0 each has the time now."""
    value_prefix: int | None
    repeating_keys: int | None

    def value(self, number: int) -> str:
        """Return the value of record number `number`, counted from 0."""
        return str(number) if self.value_prefix is None else f"{self.value_prefix}.{number}"

    def key(self, number: int) -> str | None:
        """Return the key of record `number`: numbers that repeat from 0 on.

        Return None without --repeating-keys.
        """
        return None if self.repeating_keys is None else str(number % self.repeating_keys)


@click.command("verifiable-producer")
@bootstrap_server
@click.option("--topic", required=True, help="The topic to write to.")
@click.option(
    "--max-messages", type=int, default=-1, help="End after this many records. [default: never]"
)
@click.option(
    "--throughput", type=int, default=-1, help="Records per second; -1 for as fast as possible."
)
@click.option("--acks", default="-1", help="Who must have a record before it counts: 0, 1 or -1.")
@click.option(
    "--message-create-time",
    "create_time_ms",
    type=int,
    default=-1,
    help="The timestamp of the first record, in ms since 1970. [default: now]",
)
@click.option("--value-prefix", type=int, help="A number, and a dot, before each value.")
@click.option(
    "--repeating-keys",
    type=click.IntRange(min=1),
    help="Keys are 0, 1, ... up to below this number, again and again. [default: no keys]",
)
@command_config("--producer.config")
def verifiable_producer(
    bootstrap: str, acks: str, command_config: Path | None, **planned: Any
) -> None:
    """Write 0, 1, 2, ... to a topic, and print for each whether and where it was acknowledged.

    Each line of output is a JSON object. The last one, tool_data, counts what was sent and what
    was acknowledged. The exit code is 0 even if records failed, as with Kafka's tool.

    \b
    minikafka verifiable-producer --bootstrap-server localhost:9092 --topic t --max-messages 10
    """
    settings = client_settings(bootstrap, command_config, [f"acks={acks}"])
    settings.setdefault("client.id", "verifiable-producer")
    run(_produce(settings, Plan(**planned)))


class Tally:
    """Counts the records, and prints an event for each that is settled."""

    def __init__(self, plan: Plan) -> None:
        """Begin to count; the rate counts from now."""
        self._plan = plan
        self._started = time.monotonic()
        self._sent_count = self._acked_count = 0

    def on_sent(self) -> None:
        """Count a record that is handed to the producer."""
        self._sent_count += 1

    def on_delivery(
        self, number: int, error: Exception | None, metadata: "RecordMetadata | None"
    ) -> None:
        """Print the outcome of record `number`."""
        pair = {"key": self._plan.key(number), "value": self._plan.value(number)}
        if metadata is None:
            name = f"class {type(error).__module__}.{type(error).__qualname__}"
            why = {"exception": name, "message": str(error)}
            tell("producer_send_error", topic=self._plan.topic, **pair, **why)
            return
        self._acked_count += 1
        place = {"topic": metadata.topic, "partition": metadata.partition}
        tell("producer_send_success", **pair, offset=metadata.offset, **place)

    def tell_totals(self) -> None:
        """Print the event with the counts and the rate of acknowledged records per second."""
        seconds = max(time.monotonic() - self._started, 0.001)
        tell(
            "tool_data",
            sent=self._sent_count,
            acked=self._acked_count,
            target_throughput=self._plan.throughput,
            avg_throughput=self._acked_count / seconds,
        )


async def _produce(settings: dict[str, str], plan: Plan) -> int:
    from ..producer.producer import Producer

    async with Producer.from_config(settings) as producer:
        tell("startup_complete")
        tally = Tally(plan)
        try:
            await _send(producer, plan, tally)
        finally:
            await producer.close()
            await asyncio.sleep(0)  # Callbacks of the last batch run through the loop.
            tell("shutdown_complete")
            tally.tell_totals()
    return 0


async def _send(producer: "Producer[bytes, bytes]", plan: Plan, tally: Tally) -> None:
    from ..errors import ClientError

    started = time.monotonic()
    number = 0
    while plan.max_messages < 0 or number < plan.max_messages:
        if plan.throughput > 0:
            ahead = number / plan.throughput - (time.monotonic() - started)
            if ahead > 0:
                await asyncio.sleep(ahead)
        elif number % UNTHROTTLED_CHUNK == 0:
            await asyncio.sleep(0)  # `send` does not yield, so let the loop take answers.
        key = plan.key(number)
        at_ms = None
        if plan.create_time_ms >= 0:
            at_ms = plan.create_time_ms + int((time.monotonic() - started) * 1000)
        done = partial(tally.on_delivery, number)
        tally.on_sent()
        try:
            await producer.drain()
            producer.send(
                plan.topic,
                plan.value(number).encode(),
                None if key is None else key.encode(),
                timestamp_ms=at_ms,
                on_delivery=done,
            )
        except ClientError as error:
            done(error, None)
        number += 1
