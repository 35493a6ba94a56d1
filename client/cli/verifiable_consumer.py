"""`minikafka verifiable-consumer`: read a topic in a group, and print what happens as JSON.

Kafka's system tests compare these lines with those of `verifiable-producer`.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from .common import bootstrap_server, by_java_name, client_settings, command_config, run
from .json_events import listed, tell, text_of

if TYPE_CHECKING:
    from ..consumer.consumer import Consumer
    from ..records import ConsumerRecord

ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""The assignors of this client, by the names of Java's classes."""
POLL_MS = 1000
POLL_RECORDS = 500


@click.command("verifiable-consumer")
@bootstrap_server
@click.option("--topic", required=True, help="The topic to read.")
@click.option("--group-id", required=True, help="The consumer group to join.")
@click.option("--group-instance-id", help="A lasting name of this member.")
@click.option(
    "--group-protocol",
    default="classic",
    type=click.Choice(["classic"], case_sensitive=False),
    help="The protocol of the group.",
)
@click.option(
    "--max-messages", type=int, default=-1, help="End after this many records. [default: never]"
)
@click.option(
    "--session-timeout",
    type=int,
    metavar="MS",
    help="How long the group waits for a member that is silent, in ms.",
)
@click.option("--verbose", is_flag=True, help="Print an event for each record.")
@click.option("--enable-autocommit", is_flag=True, help="Commit now and then, not after each poll.")
@click.option(
    "--reset-policy",
    default="earliest",
    type=click.Choice(["earliest", "latest", "none"]),
    help="Where to begin if the group has no offset.",
)
@click.option(
    "--assignment-strategy",
    default="RangeAssignor",
    metavar="CLASS,...",
    help=f"How members share partitions: {', '.join(ASSIGNORS)}.",
)
@command_config("--consumer.config")
def verifiable_consumer(
    bootstrap: str,
    topic: str,
    max_messages: int,
    verbose: bool,
    enable_autocommit: bool,
    assignment_strategy: str,
    command_config: Path | None,
    **flags: str | int | None,
) -> None:
    """Read a topic in a group, and print rebalances, what was read and what was committed.

    Each line of output is a JSON object.

    \b
    minikafka verifiable-consumer --bootstrap-server localhost:9092 --topic t --group-id g \\
        --max-messages 10 --verbose
    """
    strategies = [
        by_java_name(ASSIGNORS, name.strip(), "--assignment-strategy")
        for name in assignment_strategy.split(",")
    ]
    fixed = {
        "group.id": flags["group_id"],
        "group.instance.id": flags["group_instance_id"],
        "group.protocol": flags["group_protocol"],
        "session.timeout.ms": flags["session_timeout"],
        "auto.offset.reset": flags["reset_policy"],
        "enable.auto.commit": str(enable_autocommit).lower(),
        "partition.assignment.strategy": ",".join(strategies),
    }
    given = [f"{key}={value}" for key, value in fixed.items() if value is not None]
    settings = client_settings(bootstrap, command_config, given)
    settings.setdefault("client.id", "verifiable-consumer")
    limit = None if max_messages < 0 else max_messages
    reader = Reader(limit, is_verbose=verbose, commits=not enable_autocommit)
    run(_consume(settings, topic, reader))


async def _consume(settings: dict[str, str], topic: str, reader: "Reader") -> int:
    from ..consumer.consumer import Consumer
    from ..group_types import RebalanceListener

    listener = RebalanceListener(
        on_assigned=lambda them: tell("partitions_assigned", partitions=listed(sorted(them))),
        on_revoked=lambda them: tell("partitions_revoked", partitions=listed(sorted(them))),
    )
    async with Consumer.from_config(settings) as consumer:
        tell("startup_complete")
        try:
            await consumer.subscribe([topic], listener=listener)
            await reader.read(consumer)
        except asyncio.CancelledError:
            tell("shutdown_requested")
            raise
        finally:
            await consumer.close()
            tell("shutdown_complete")
    tell("shutdown_requested")
    return 0


class Reader:
    """Reads up to a number of records, commits them, and prints an event for each step."""

    def __init__(self, limit: int | None, *, is_verbose: bool, commits: bool) -> None:
        """Read `limit` records, or without end if None; commit after each poll if `commits`."""
        self._left = limit
        self._is_verbose = is_verbose
        self._commits = commits

    async def read(self, consumer: "Consumer[bytes, bytes]") -> None:
        """Poll until the last record was read."""
        while self._left is None or self._left > 0:
            most = POLL_RECORDS if self._left is None else min(self._left, POLL_RECORDS)
            records = await consumer.poll(timeout_ms=POLL_MS, max_records=most)
            if not records:
                continue
            if self._left is not None:
                self._left -= len(records)
            offsets = self._tell(records)
            if self._commits:
                await _commit(consumer, offsets)

    def _tell(self, records: "list[ConsumerRecord[bytes, bytes]]") -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        firsts: dict[TopicPartition, int] = {}
        counts: dict[TopicPartition, int] = {}
        for record in records:
            partition = record.topic_partition
            firsts.setdefault(partition, record.offset)
            ends[partition] = record.offset + 1
            counts[partition] = counts.get(partition, 0) + 1
            if self._is_verbose:
                pair = {"key": text_of(record.key), "value": text_of(record.value)}
                tell("record_data", **pair, **listed([partition])[0], offset=record.offset)
        tell(
            "records_consumed",
            count=len(records),
            partitions=[
                {
                    **listed([partition])[0],
                    "count": counts[partition],
                    "minOffset": firsts[partition],
                    "maxOffset": end - 1,
                }
                for partition, end in ends.items()
            ],
        )
        return ends


async def _commit(consumer: "Consumer[bytes, bytes]", offsets: dict[TopicPartition, int]) -> None:
    outcome: dict[str, object] = {"success": True}
    try:
        await consumer.commit(offsets)
    except MinikafkaError as error:
        outcome = {"error": str(error), "success": False}
    shown = [{**listed([partition])[0], "offset": offset} for partition, offset in offsets.items()]
    tell("offsets_committed", offsets=shown, **outcome)
