"""`minikafka console-consumer`: print the records of topics.

Owns the flags, the start and the end of reading; `record_formatter` makes lines of the records.
"""

import re
import sys
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..consumer.consumer import Consumer

from ..errors import CorruptRecord
from ..records import ConsumerRecord
from .common import (
    FILE,
    bootstrap_server,
    client_settings,
    command_config,
    command_property,
    read_properties_file,
    run,
    say,
    split_properties,
)
from .record_formatter import Formatter, make_formatter

POLL_MS = 1000
POLL_RECORDS = 2000
TOPIC_WAIT_MS = 60_000
"""The longest wait in ms for a topic that does not exist; it may be created during the wait."""
LEAST_TOPIC_WAIT_MS = 2_000
"""The shortest wait in ms for a topic: metadata of existing topics takes time to arrive, too."""
DEFAULT_FORMATTER = "DefaultMessageFormatter"


@dataclass(frozen=True, slots=True)
class Reading:
    """The records to read, and the limits that end the reading, as the options name them."""

    topic: str | None
    include: str | None
    partition: int | None
    offset: str | None
    from_beginning: bool
    max_messages: int | None
    timeout_ms: int | None
    skip_bad: bool

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""
        if (self.topic is None) == (self.include is None):
            raise click.UsageError("exactly one of --topic and --include is needed")
        if self.partition is not None and self.topic is None:
            raise click.UsageError("--partition needs --topic")
        if self.offset is not None and self.partition is None:
            raise click.UsageError("The partition is required when offset is specified.")
        if self.offset is not None and self.from_beginning:
            raise click.UsageError(
                "Options from-beginning and offset cannot be specified together."
            )
        if self.offset not in (None, "earliest", "latest") and not str(self.offset).isdigit():
            raise click.UsageError(
                f"The provided offset value '{self.offset}' is incorrect. Valid values are "
                "'earliest', 'latest', or a non-negative long."
            )


@click.command("console-consumer")
@bootstrap_server
@click.option("--topic", help="The topic to read.")
@click.option(
    "--include",
    "--whitelist",
    metavar="REGEX",
    help="Read the topics that match a regular expression.",
)
@click.option("--group", help="The consumer group to join; its offsets are committed.")
@click.option("--partition", type=click.IntRange(min=0), help="Read only this partition.")
@click.option("--offset", help="The offset to begin at: a number, earliest or latest.")
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Begin with the oldest record, unless the group has offsets.",
)
@click.option("--max-messages", type=click.IntRange(min=0), help="End after this many records.")
@click.option(
    "--timeout-ms", type=click.IntRange(min=0), help="End when no record came for so many ms."
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="read_committed hides records of aborted transactions.",
)
@click.option(
    "--skip-message-on-error",
    "skip_bad",
    is_flag=True,
    help="Skip a record that cannot be shown.",
)
@click.option(
    "--formatter", default=DEFAULT_FORMATTER, help="The formatter: Default, Logging or NoOp."
)
@click.option("--formatter-config", type=FILE, metavar="FILE")
@click.option(
    "--formatter-property",
    "--property",
    "formatter_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="print.timestamp, print.key, print.offset, print.partition, print.headers, print.value, "
    "key.separator, line.separator, headers.separator, null.literal, *.deserializer",
)
@click.option(
    "--key-deserializer",
    help="StringDeserializer, or that of ByteArray, Double, Integer, Long or Short.",
)
@click.option("--value-deserializer", help="The same, for values.")
@click.option("--enable-systest-events", is_flag=True, hidden=True)
@command_config("--consumer.config")
@command_property("--consumer-property")
def console_consumer(
    bootstrap: str,
    group: str | None,
    isolation_level: str | None,
    formatter: str,
    formatter_config: Path | None,
    formatter_properties: tuple[str, ...],
    key_deserializer: str | None,
    value_deserializer: str | None,
    enable_systest_events: bool,
    command_config: Path | None,
    command_properties: tuple[str, ...],
    **what: Any,
) -> None:
    """Print the records of topics, new ones as they come, until Ctrl-C.

    \b
    minikafka console-consumer --bootstrap-server localhost:9092 --topic t --from-beginning
    minikafka console-consumer --bootstrap-server localhost:9092 --topic t \\
        --partition 0 --offset 47 --max-messages 10 --formatter-property print.key=true
    minikafka console-consumer --bootstrap-server localhost:9092 --include 'logs.*' --group g \\
        --isolation-level read_committed
    """
    reading = Reading(**what)
    reading.check()
    properties = read_properties_file(formatter_config)
    properties |= split_properties(formatter_properties, "--formatter-property")
    for key, name in (
        ("key.deserializer", key_deserializer),
        ("value.deserializer", value_deserializer),
    ):
        if name is not None:
            properties[key] = name
    usual = {
        "client.id": "console-consumer",
        "isolation.level": isolation_level,
        "group.id": group,
        "auto.offset.reset": "earliest" if reading.from_beginning else None,
        "max.poll.records": POLL_RECORDS,
    }
    settings = client_settings(bootstrap, command_config, command_properties, usual)
    shown = make_formatter(formatter, properties)
    run(_consume(settings, reading, shown, systest_events=enable_systest_events))


async def _consume(
    settings: dict[str, str], reading: Reading, formatter: Formatter, *, systest_events: bool
) -> int:
    from ..consumer.consumer import Consumer

    async with Consumer.from_config(settings) as consumer:
        await _begin(consumer, settings, reading)
        count = 0
        try:
            async for records in _until_the_end(consumer, reading):
                count += len(records)
                _print(records, formatter, skip_bad=reading.skip_bad)
        finally:
            sys.stdout.flush()
            if systest_events:
                print("shutdown_complete", flush=True)
            say(f"Processed a total of {count} messages")
    return 0


async def _until_the_end(
    consumer: "Consumer", reading: Reading
) -> AsyncIterator[list[ConsumerRecord]]:
    """Yield each poll's records until --max-messages are read, or none comes for --timeout-ms."""
    left = reading.max_messages
    idle_since = time.monotonic()
    while left is None or left > 0:
        wait_ms = POLL_MS
        if reading.timeout_ms is not None:
            idle_ms = int((time.monotonic() - idle_since) * 1000)
            if idle_ms >= reading.timeout_ms:
                return
            wait_ms = min(POLL_MS, reading.timeout_ms - idle_ms)
        most = POLL_RECORDS if left is None else min(left, POLL_RECORDS)
        try:
            records = await consumer.poll(timeout_ms=wait_ms, max_records=most)
        except CorruptRecord as error:
            if not reading.skip_bad or error.next_offset is None:
                raise
            say(
                f"{error.partition.topic}-{error.partition.partition}: skipped offsets"
                f" {error.offset} to {error.next_offset - 1}: {error.why}"
            )
            consumer.seek(error.partition, error.next_offset)
            continue
        if records:
            idle_since = time.monotonic()
            left = None if left is None else left - len(records)
            yield records


async def _begin(consumer: "Consumer", settings: dict[str, str], reading: Reading) -> None:
    from ...protocol.types import TopicPartition

    if reading.topic is None or reading.partition is None:
        topics = topics_to_read(reading.topic, reading.include)
        await consumer.subscribe(topics, timeout_ms=topic_wait_ms(reading.timeout_ms))
        return
    partition = TopicPartition(reading.topic, reading.partition)
    consumer.assign([partition])
    if reading.offset == "earliest" or (reading.offset is None and reading.from_beginning):
        consumer.seek_to_beginning(partition)
    elif reading.offset in (None, "latest"):
        consumer.seek_to_end(partition)
    else:
        consumer.seek(partition, int(str(reading.offset)))


def topics_to_read(topic: str | None, include: str | None) -> list[str] | re.Pattern[str]:
    """Return the topic, or the pattern of --include, which also matches topics created later."""
    from .topic_table import included

    if topic is not None:
        return [topic]
    assert include is not None
    return included(include, "--include")


def topic_wait_ms(timeout_ms: int | None) -> int:
    """Return the ms to wait for a missing topic, given the command's --timeout-ms."""
    if timeout_ms is None:
        return TOPIC_WAIT_MS
    return min(max(timeout_ms, LEAST_TOPIC_WAIT_MS), TOPIC_WAIT_MS)


def _print(records: Iterable[ConsumerRecord], formatter: Formatter, *, skip_bad: bool) -> None:
    output = sys.stdout.buffer
    for record in records:
        try:
            output.write(formatter.format(record))
        except ValueError as error:
            if not skip_bad:
                output.flush()
                where = f"{record.topic}-{record.partition} at offset {record.offset}"
                raise click.ClickException(f"{where}: {error}") from None
    output.flush()
