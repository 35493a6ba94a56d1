"""`minikafka delay`: what waits in a delay topic is listed, shown, cancelled, rescheduled."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.delays import AT_ONCE
from ...protocol.errors import ErrorCode
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.messages.list_delayed import State
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..admin.config_types import ConfigChange, ConfigResource
from ..admin.delayed_types import DelayedRecord, ForwardingStatus
from .common import F, administer, bootstrap_server, command_config, options, table
from .offset_resets import datetime_ms

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from ..consumer.delayed_records import ShownRecord

MOST_OF_A_KEY = 100_000
"""The most records that wait among which those of a key are looked for."""
STATES = {
    State.WAITS: "waits",
    State.PLANNED: "on its way",
    State.CANCELLED: "cancelled",
    State.OVER: "over: forwarded, a dead letter, expired or replaced",
}
COMPLAINT = "Error while executing delay command"
PAUSED = "minikafka.delay.paused"


@click.group("delay")
def delay() -> None:
    """List what waits in a delay topic, show it, cancel it, reschedule it, pause forwarding.

    \b
    minikafka delay list orders-later --bootstrap-server localhost:9092
    minikafka delay cancel orders-later 0 17 --bootstrap-server localhost:9092
    minikafka delay reschedule orders-later 0 17 --at 2026-12-24T18:00:00.000 \\
        --bootstrap-server localhost:9092
    """


def where(command: F) -> F:
    """Add what names the cluster, and the topic."""
    topic = click.argument("topic")
    return options(topic, bootstrap_server, command_config())(command)


as_json = click.option("--json", "is_json", is_flag=True, help="Print a line of JSON for each row.")


def record(command: F) -> F:
    """Add what names a record."""
    partition = click.argument("partition", type=click.IntRange(min=0))
    return options(partition, click.argument("offset", type=click.IntRange(min=0)))(command)


def time_ms(text: str | None, option: str) -> int | None:
    """Return a time in ms since the epoch, from such a number or an ISO time in UTC."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        return datetime_ms(text)
    except ConfigError as error:
        raise ConfigError(option, text, "needs YYYY-MM-DDTHH:mm:SS.sss, UTC, or ms") from error


def shown(due_ms: int | None) -> str:
    """Return a time as ISO text in UTC; `-` if there is none, and `at once` for 0."""
    if due_ms is None:
        return "-"
    if due_ms == AT_ONCE:
        return "at once"
    try:
        moment = datetime.fromtimestamp(due_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(due_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def partitions_of(admin: "Admin", topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic; raise AdminError if it is not there."""
    found = (await admin.describe_topics([topic]))[topic]
    return [TopicPartition(topic, each.partition) for each in found.partitions]


@delay.command("list")
@where
@click.option("--partition", type=click.IntRange(min=0), help="List only this partition.")
@click.option("--due-before", metavar="TIME", help="List only what is due before a time.")
@click.option("--key", help="List only records of this key; reads the topic.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@as_json
def list_command(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    partition: int | None,
    due_before: str | None,
    key: str | None,
    limit: int,
    is_json: bool,
) -> None:
    """List the records that wait, in the order in which they are due.

    With --key it looks through the first 100,000 that wait. Times are YYYY-MM-DDTHH:mm:SS.sss in
    UTC, or ms since the epoch.
    """
    before_ms = time_ms(due_before, "--due-before")

    async def act(admin: "Admin") -> int:
        asked = (
            await partitions_of(admin, topic)
            if partition is None
            else [TopicPartition(topic, partition)]
        )
        most = limit if key is None else MOST_OF_A_KEY
        found = await admin.list_delayed(asked, before_ms=before_ms, limit=most)
        if key is not None:
            from ..consumer.delayed_records import with_key

            found = (await with_key(admin, found, key.encode()))[:limit]
        print("\n".join(list_lines(found, is_json=is_json)))
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


def list_lines(found: list[DelayedRecord], *, is_json: bool) -> list[str]:
    """Return the lines of `list`."""
    if is_json:
        return [
            json.dumps(
                {
                    "partition": each.partition.partition,
                    "offset": each.offset,
                    "due_ms": each.due_ms,
                    "due": shown(each.due_ms),
                }
            )
            for each in found
        ]
    rows = [[shown(each.due_ms), str(each.partition.partition), str(each.offset)] for each in found]
    return table(["Due", "Partition", "Offset"], rows)


@delay.command("show")
@where
@record
@as_json
def show_command(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    partition: int,
    offset: int,
    is_json: bool,
) -> None:
    """Show a record: its state, when it is due, where it goes, its key and headers."""

    async def act(admin: "Admin") -> int:
        from ..consumer.delayed_records import show

        found = await show(admin, TopicPartition(topic, partition), offset)
        print("\n".join(show_lines(found, is_json=is_json)))
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


def show_lines(found: "ShownRecord", *, is_json: bool) -> list[str]:
    """Return the lines of `show`."""
    one = found.record
    told: dict[str, object] = {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "state": found.state.name.lower(),
        "due_ms": found.due_ms,
        "targets": [*found.targets],
        "key": _text(one.key),
        "value_bytes": None if one.value is None else len(one.value),
        "headers": [[name, _text(value)] for name, value in one.headers],
    }
    if is_json:
        return [json.dumps(told)]
    value = "none" if one.value is None else f"{len(one.value):,} bytes"
    headers = [("Header", f"{name}: {_text(value)}") for name, value in one.headers]
    rows = [
        ("State", STATES[found.state]),
        ("Due", shown(found.due_ms)),
        ("Target", ", ".join(found.targets) or "none"),
        ("Key", str(_text(one.key))),
        ("Value", value),
        *headers,
    ]
    title = f"{one.topic}-{one.partition}@{one.offset}"
    return [title, *(f"  {name:<6}  {text}" for name, text in rows)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


@delay.command("cancel")
@where
@record
def cancel(
    topic: str, bootstrap: str, command_config: Path | None, partition: int, offset: int
) -> None:
    """Cancel a record that waits: it is never forwarded."""
    there = TopicPartition(topic, partition)
    _change(
        lambda admin: admin.cancel_delayed({there: [offset]}),
        f"{topic}-{partition}@{offset} is cancelled.",
        bootstrap,
        command_config,
    )


@delay.command("fire-now")
@where
@record
def fire_now(
    topic: str, bootstrap: str, command_config: Path | None, partition: int, offset: int
) -> None:
    """Forward a record that waits at once."""
    there = TopicPartition(topic, partition)
    _change(
        lambda admin: admin.reschedule_delayed({there: {offset: None}}),
        f"{topic}-{partition}@{offset} is due now.",
        bootstrap,
        command_config,
    )


@delay.command("reschedule")
@where
@record
@click.option("--at", required=True, metavar="TIME", help="When the record is due.")
def reschedule(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    partition: int,
    offset: int,
    at: str,
) -> None:
    """Change when a record that waits is due.

    A time is YYYY-MM-DDTHH:mm:SS.sss in UTC, or ms since the epoch.
    """
    due_ms = time_ms(at, "--at")
    there = TopicPartition(topic, partition)
    _change(
        lambda admin: admin.reschedule_delayed({there: {offset: due_ms}}),
        f"{topic}-{partition}@{offset} is due at {shown(due_ms)}.",
        bootstrap,
        command_config,
    )


@delay.command("pause")
@where
def pause(topic: str, bootstrap: str, command_config: Path | None) -> None:
    """Forward nothing more until `resume`; what is on its way arrives yet."""
    change = {ConfigResource.topic(topic): [ConfigChange(PAUSED, "true")]}
    _change(
        lambda admin: admin.incremental_alter_configs(change),
        f"{topic} is paused.",
        bootstrap,
        command_config,
    )


@delay.command("resume")
@where
def resume(topic: str, bootstrap: str, command_config: Path | None) -> None:
    """Forward again what is due."""
    change = {ConfigResource.topic(topic): [ConfigChange(PAUSED, None, ConfigOperation.DELETE)]}
    _change(
        lambda admin: admin.incremental_alter_configs(change),
        f"{topic} is forwarded again.",
        bootstrap,
        command_config,
    )


def _change(
    do: "Callable[[Admin], Awaitable[object]]", said: str, bootstrap: str, file: Path | None
) -> None:
    async def act(admin: "Admin") -> int:
        await do(admin)
        print(said)
        return 0

    administer(act, COMPLAINT, bootstrap, file)


@delay.command("stats")
@where
@as_json
def stats(topic: str, bootstrap: str, command_config: Path | None, is_json: bool) -> None:
    """Tell what waits in each partition, what is over, and which targets do not take records.

    What is over counts from the start of the partition's leader.
    """

    async def act(admin: "Admin") -> int:
        found = await admin.describe_forwarding(await partitions_of(admin, topic))
        print("\n".join(stats_lines(found, is_json=is_json)))
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


def stats_lines(found: dict[TopicPartition, ForwardingStatus], *, is_json: bool) -> list[str]:
    """Return the lines of `stats`."""
    ordered = sorted(found.items())
    if is_json:
        return [
            json.dumps(
                {
                    "partition": where.partition,
                    **each._asdict(),
                    "targets": [
                        {**target._asdict(), "error": target.error.name} for target in each.targets
                    ],
                }
            )
            for where, each in ordered
        ]
    names = ["Partition", "Pending", "Planned", "Next due", "Forwarded", "Dead letters", "Dropped"]
    rows = [
        [
            str(where.partition),
            str(each.pending),
            str(each.planned),
            shown(each.next_due_ms),
            str(each.forwarded),
            str(each.dead_letters),
            str(each.dropped),
            str(each.cancelled),
        ]
        for where, each in ordered
    ]
    held = [
        f"{where.topic}-{where.partition}: {target.records} records wait for partition "
        f"{target.partition} of topic {target.topic_id}: {target.error.name}"
        for where, each in ordered
        for target in each.targets
        if target.error is not ErrorCode.NONE
    ]
    return [*table([*names, "Cancelled"], rows), *held]
