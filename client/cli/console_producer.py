"""`minikafka console-producer`: send each line of standard input as a record.

Owns flags, the prompt and the report of failures; `line_reader` parses the lines.
"""

import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import click

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
from .line_reader import BadLine, LineReader

FAILURES_SHOWN = 10


@click.command("console-producer")
@bootstrap_server
@click.option("--topic", required=True, help="The topic to write to.")
@click.option("--sync", is_flag=True, help="Wait for each record before the next is sent.")
@click.option(
    "--compression-codec",
    "compression_type",
    is_flag=False,
    flag_value="gzip",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Compress batches; gzip if no codec is named.",
)
@click.option("--batch-size", type=int, help="The size in bytes at which a batch is sent.")
@click.option("--max-partition-memory-bytes", "batch_size", type=int, hidden=True)
@click.option(
    "--max-memory-bytes",
    "buffer_memory",
    type=int,
    help="The most bytes of records that are not acknowledged yet.",
)
@click.option(
    "--max-block-ms", type=int, help="How long sending may wait for memory or metadata, in ms."
)
@click.option(
    "--metadata-expiry-ms",
    "metadata_max_age_ms",
    type=int,
    help="Age at which metadata is read again, in ms.",
)
@click.option(
    "--request-required-acks",
    "acks",
    help="Acknowledgements to wait for: 0, 1, -1 or all. [default: -1]",
)
@click.option("--request-timeout-ms", type=int, help="How long a request may take, in ms.")
@click.option("--retry-backoff-ms", type=int, help="Wait before a retry, in ms.")
@click.option(
    "--timeout", "linger_ms", type=int, help="How long a batch waits for more records, in ms."
)
@click.option(
    "--line-reader", default="LineMessageReader", help="The reader of lines: LineMessageReader."
)
@click.option("--reader-config", type=FILE, metavar="FILE")
@click.option(
    "--reader-property",
    "--property",
    "reader_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
    "headers.key.separator, null.marker, ignore.error",
)
@click.option("--message-send-max-retries", type=int, expose_value=False, hidden=True)
@click.option("--socket-buffer-size", type=int, expose_value=False, hidden=True)
@command_config("--producer.config")
@command_property("--producer-property")
def console_producer(
    bootstrap: str,
    topic: str,
    sync: bool,
    line_reader: str,
    reader_config: Path | None,
    reader_properties: tuple[str, ...],
    command_config: Path | None,
    command_properties: tuple[str, ...],
    **settings_given: str | int | None,
) -> None:
    """Write each line of standard input as a record.

    Exit code 1 if a record could not be delivered or a line could not be read.

    \b
    minikafka console-producer --bootstrap-server localhost:9092 --topic t < lines.txt
    minikafka console-producer --bootstrap-server localhost:9092 --topic t \\
        --reader-property parse.key=true --reader-property key.separator=:
    """
    if line_reader.rpartition(".")[2] != "LineMessageReader":
        raise click.UsageError(f"--line-reader {line_reader}: only LineMessageReader is known")
    given = {name.replace("_", "."): value for name, value in settings_given.items()}
    usual = {"client.id": "console-producer", **given}
    settings = client_settings(bootstrap, command_config, command_properties, usual)
    reader = LineReader(
        read_properties_file(reader_config)
        | split_properties(reader_properties, "--reader-property")
    )
    run(_produce(settings, topic, reader, sync=sync))


async def _produce(settings: dict[str, str], topic: str, reader: LineReader, *, sync: bool) -> int:
    from ..producer import sender

    level = sender.log.level
    sender.log.setLevel(logging.ERROR)  # this module reports each record that was not delivered
    try:
        return await _send_lines(settings, topic, reader, sync=sync)
    finally:
        sender.log.setLevel(level)


async def _send_lines(
    settings: dict[str, str], topic: str, reader: LineReader, *, sync: bool
) -> int:
    from ..errors import ClientError
    from ..producer.producer import Producer

    failures = 0

    def on_failed(error: ClientError) -> None:
        nonlocal failures
        failures += 1
        if failures <= FAILURES_SHOWN:
            say(f"minikafka console-producer: {error}")

    bad_line: BadLine | None = None
    async with (
        Producer.from_config(
            settings, on_delivery=lambda error, _: on_failed(error) if error is not None else None
        ) as producer,
        aclosing(_numbered_lines(sys.stdin.fileno())) as lines,
    ):
        async for number, line in lines:
            try:
                record = reader.read(line, number)
            except BadLine as bad:
                bad_line = bad
                break
            try:
                delivery = producer.send(topic, record.value, record.key, headers=record.headers)
                if sync:
                    await delivery
                else:
                    await producer.drain()
            except ClientError as error:
                if not sync:
                    on_failed(error)
    if bad_line is not None:
        raise bad_line
    if failures > FAILURES_SHOWN:
        say(f"minikafka console-producer: {failures} records were not delivered")
    return 1 if failures else 0


async def _numbered_lines(fd: int) -> AsyncGenerator[tuple[int, bytes], None]:
    from .lines import read_lines

    number = 0
    prompting = sys.stdin.isatty()
    if prompting:
        print(">", end="", flush=True)
    async for lines in read_lines(fd):
        for line in lines:
            number += 1
            yield number, line
        if prompting:
            print(">", end="", flush=True)
