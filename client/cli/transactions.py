"""`minikafka transactions`: list and describe transactions, find and abort hanging ones (KIP-664).

Owns flags, Kafka's tables and exit codes. A transaction hangs if it has been open on a partition
for longer than the longest timeout, and its coordinator does not know it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.types import TopicPartition
from ..admin.transaction_types import ActiveProducer, OpenTransaction, TransactionDescription
from ..errors import AdminError
from .common import bootstrap_option, client_settings, command_config, run, say, table, with_admin

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing transactions command"
NONE = "None"
MINUTE_MS = 60_000


@click.group("transactions")
@bootstrap_option("--broker-list", required=False)
@command_config()
@click.pass_context
def transactions(
    context: click.Context, bootstrap: str | None, command_config: Path | None
) -> None:
    """List, describe and abort transactions.

    \b
    minikafka transactions --bootstrap-server localhost:9092 list
    minikafka transactions --bootstrap-server localhost:9092 describe --transactional-id t1
    minikafka transactions --bootstrap-server localhost:9092 find-hanging --broker-id 1
    minikafka transactions --bootstrap-server localhost:9092 abort --topic t --partition 0 \\
        --start-offset 17
    """
    usual = {"client.id": "transactions"}
    context.obj = client_settings(bootstrap, command_config, usual=usual)


def pass_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the command group's settings to a subcommand; raise UsageError if they name no cluster.

    The group itself does not require --bootstrap-server, so that a subcommand's --help works
    without it.
    """

    def call(**flags: Any) -> None:
        context = click.get_current_context()
        if "bootstrap.servers" not in context.obj:
            raise click.UsageError("Missing option '--bootstrap-server'", context.parent)
        command(context.obj, **flags)

    return update_wrapper(call, command)


@transactions.command("list")
@click.option(
    "--duration-filter",
    type=int,
    default=-1,
    help="List only transactions that have been open for more than so many ms.",
)
@click.option(
    "--transactional-id-pattern",
    metavar="REGEX",
    help="List only ids that match a regular expression.",
)
@pass_settings
def list_command(
    settings: dict[str, str], duration_filter: int, transactional_id_pattern: str | None
) -> None:
    """List transactional ids and their states."""

    async def act(admin: "Admin") -> int:
        found = await admin.list_transactions(
            longer_than_ms=duration_filter, pattern=transactional_id_pattern
        )
        headers = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
        rows = [
            [one.transactional_id, str(one.coordinator_id), str(one.producer_id), one.state]
            for one in found
        ]
        print("\n".join(table(headers, rows)))
        return 0

    run(with_admin(settings, act, "Failed to list transactions"))


@transactions.command("describe")
@click.option("--transactional-id", required=True, help="The transactional id.")
@pass_settings
def describe(settings: dict[str, str], transactional_id: str) -> None:
    """Describe a transactional id, as its coordinator knows it."""
    import time

    async def act(admin: "Admin") -> int:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        print("\n".join(description_lines(found, time.time_ns() // 1_000_000)))
        return 0

    complaint = f"Failed to describe transaction state of transactional-id `{transactional_id}`"
    run(with_admin(settings, act, complaint))


def description_lines(found: TransactionDescription, now_ms: int) -> list[str]:
    """Return the table of `describe`."""
    rows = {
        "CoordinatorId": str(found.coordinator_id),
        "TransactionalId": found.transactional_id,
        "ProducerId": str(found.producer_id),
        "ProducerEpoch": str(found.producer_epoch),
        "TransactionState": found.state,
        "TransactionTimeoutMs": str(found.timeout_ms),
        "CurrentTransactionStartTimeMs": NONE if found.start_ms is None else str(found.start_ms),
        "TransactionDurationMs": NONE if found.start_ms is None else str(now_ms - found.start_ms),
        "TopicPartitions": ",".join(f"{topic}-{index}" for topic, index in found.partitions),
    }
    return table(list(rows), [list(rows.values())])


@transactions.command("describe-producers")
@click.option("--broker-id", type=int, help="The broker to ask. [default: the leader]")
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(min=0), required=True)
@pass_settings
def describe_producers(
    settings: dict[str, str], broker_id: int | None, topic: str, partition: int
) -> None:
    """Describe the producers that write to a partition."""
    where = TopicPartition(topic, partition)

    async def act(admin: "Admin") -> int:
        found = (await admin.describe_producers([where], broker_id=broker_id))[where]
        headers = [
            *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"),
            *("LastTimestamp", "CurrentTransactionStartOffset"),
        ]
        print("\n".join(table(headers, [_producer_row(one) for one in found])))
        return 0

    whom = "leader" if broker_id is None else f"broker {broker_id}"
    complaint = f"Failed to describe producers for partition {topic}-{partition} on {whom}"
    run(with_admin(settings, act, complaint))


def _producer_row(one: ActiveProducer) -> list[str]:
    start = one.transaction_start_offset
    return [
        str(one.producer_id),
        str(one.producer_epoch),
        str(-1 if one.coordinator_epoch is None else one.coordinator_epoch),
        str(one.last_sequence),
        str(one.last_timestamp_ms),
        NONE if start is None else str(start),
    ]


@transactions.command("abort")
@click.option("--topic", required=True)
@click.option("--partition", type=click.IntRange(min=0), required=True)
@click.option(
    "--start-offset", type=int, help="First offset of the transaction, as find-hanging prints it."
)
@click.option("--producer-id", type=int, help="For brokers that do not support DescribeProducers.")
@click.option("--producer-epoch", type=int)
@click.option("--coordinator-epoch", type=int)
@pass_settings
def abort(
    settings: dict[str, str],
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a hanging transaction on one partition, so that read_committed consumers continue."""
    where = TopicPartition(topic, partition)
    if start_offset is None and None in (producer_id, producer_epoch, coordinator_epoch):
        raise click.UsageError(
            "The transaction to abort must be identified either with --start-offset or with "
            "--producer-id, --producer-epoch, and --coordinator-epoch"
        )

    async def act(admin: "Admin") -> int:
        if start_offset is None:
            assert producer_id is not None
            assert producer_epoch is not None
            found = OpenTransaction(
                where, producer_id, producer_epoch, max(coordinator_epoch or 0, 0)
            )
        else:
            producers = (await admin.describe_producers([where]))[where]
            open_ones = [p for p in producers if p.transaction_start_offset == start_offset]
            if not open_ones:
                say(
                    "Could not find any open transactions starting at offset "
                    f"{start_offset} on partition {topic}-{partition}"
                )
                return 1
            # -1 means that no marker was ever written; 0 is not above any coordinator's epoch.
            epoch = open_ones[0].coordinator_epoch or 0
            one = open_ones[0]
            found = OpenTransaction(where, one.producer_id, one.producer_epoch, epoch)
        await admin.abort_transaction(found)
        return 0

    run(with_admin(settings, act, f"Failed to abort transaction on {topic}-{partition}"))


@transactions.command("find-hanging")
@click.option("--broker-id", type=int, help="Only partitions with a replica on this broker.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=int,
    default=15,
    help="The longest transaction that is allowed, in minutes (transaction.max.timeout.ms).",
)
@click.option("--topic", help="Only partitions of this topic.")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of --topic.")
@pass_settings
def find_hanging(
    settings: dict[str, str],
    broker_id: int | None,
    minutes: int,
    topic: str | None,
    partition: int | None,
) -> None:
    """Find transactions that no coordinator will ever end."""
    import time

    if topic is None and broker_id is None:
        raise click.UsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the "
            "scope of the search"
        )
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")

    async def act(admin: "Admin") -> int:
        where = await _partitions(admin, topic, partition, broker_id)
        producers = await admin.describe_producers(where, broker_id=broker_id) if where else {}
        now_ms = time.time_ns() // 1_000_000
        suspects = open_too_long(producers, now_ms - minutes * MINUTE_MS)
        known = await _known(admin, [one.producer_id for _, one in suspects])
        hanging = [(at, one) for at, one in suspects if at not in known.get(one.producer_id, ())]
        print("\n".join(hanging_lines(hanging, now_ms)))
        return 0

    run(with_admin(settings, act, "Failed to find hanging transactions"))


async def _partitions(
    admin: "Admin", topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    names = [one.name for one in await admin.list_topics(include_internal=True)]
    described = await admin.describe_topics(names if topic is None else [topic])
    return sorted(
        TopicPartition(name, one.partition)
        for name, found in described.items()
        for one in found.partitions
        if partition in (None, one.partition) and (broker_id is None or broker_id in one.replicas)
    )


async def _known(
    admin: "Admin", producer_ids: Iterable[int]
) -> Mapping[int, Sequence[TopicPartition]]:
    """Return the partitions in each producer's open transaction, as its coordinator knows it."""
    wanted = sorted(dict.fromkeys(producer_ids))
    if not wanted:
        return {}
    listed = await admin.list_transactions(producer_ids=wanted)
    found: dict[int, Sequence[TopicPartition]] = {}
    for one in listed:
        try:
            described = await admin.describe_transactions([one.transactional_id])
        except AdminError:
            continue  # the id has expired since it was listed
        found[one.producer_id] = described[one.transactional_id].partitions
    return found


def open_too_long(
    producers: Mapping[TopicPartition, Sequence[ActiveProducer]], before_ms: int
) -> list[tuple[TopicPartition, ActiveProducer]]:
    """Return the open transactions whose newest record is older than `before_ms`."""
    return [
        (partition, one)
        for partition, found in producers.items()
        for one in found
        if one.transaction_start_offset is not None and one.last_timestamp_ms < before_ms
    ]


def hanging_lines(
    hanging: Iterable[tuple[TopicPartition, ActiveProducer]], now_ms: int
) -> list[str]:
    """Return the table of `find-hanging`."""
    headers = [
        *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"),
        *("StartOffset", "LastTimestamp", "Duration(min)"),
    ]
    rows = [
        [
            partition.topic,
            str(partition.partition),
            str(one.producer_id),
            str(one.producer_epoch),
            str(-1 if one.coordinator_epoch is None else one.coordinator_epoch),
            str(one.transaction_start_offset),
            str(one.last_timestamp_ms),
            str((now_ms - one.last_timestamp_ms) // MINUTE_MS),
        ]
        for partition, one in hanging
    ]
    return table(headers, rows)
