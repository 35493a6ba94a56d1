"""`minikafka consumer-groups`: list, describe, delete and reset groups of consumers.

Owns flags, Kafka's texts and exit codes; `group_table` makes the lines, `offset_resets` computes
new offsets. Unlike Kafka's tool, it exits with 1 whenever a part of the request was not done.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from ..errors import AdminError
from ..group_types import OffsetAndMetadata
from .common import FILE, administer, bootstrap_server, command_config, refusal, say

if TYPE_CHECKING:
    from ..admin.admin import Admin
    from ..admin.group_types import GroupDescription
from . import offset_resets
from .offset_resets import Scenario

COMPLAINT = "Error: Executing consumer group command failed due to"
STATES = (
    *("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"),
    *("Assigning", "Reconciling"),
)
TYPES = ("classic", "consumer")
NO_EXECUTE = (
    "WARN: No action will be performed as the --execute option is missing. In a future major "
    "release, the default behavior of this command will be to prompt the user before executing "
    "the reset rather than doing a dry run. You should add the --dry-run option explicitly if you "
    "are scripting this command and want to keep the current default behavior without prompting."
)
EARLIEST, LATEST = -2, -1
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The groups and partitions that the flags select, and the form in which to print them."""

    groups: tuple[str, ...]
    all_groups: bool
    topics: tuple[str, ...]
    all_topics: bool
    members: bool
    state: str | None
    types: str | None
    verbose: bool
    lag: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The target of a reset, and whether to execute, print or export the result."""

    scenario: Scenario
    amount: int = 0
    time_ms: int = 0
    file: Path | None = None
    execute: bool = False
    export: bool = False


@click.command("consumer-groups")
@bootstrap_server
@click.option("--list", "list_groups", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Describe groups: offsets and lag.")
@click.option("--delete", is_flag=True, help="Delete groups without members, and their offsets.")
@click.option("--reset-offsets", is_flag=True, help="Reset the offsets of a group without members.")
@click.option("--delete-offsets", is_flag=True, help="Delete a group's offsets in topics.")
@click.option(
    "--validate-regex", metavar="REGEX", help="Print whether a regular expression is valid."
)
@click.option("--group", "groups", multiple=True, help="A group; may be repeated.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--topic", "topics", multiple=True, help="A topic, or topic:0,1 for partitions.")
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets in.")
@click.option("--offsets", is_flag=True, help="--describe: offsets and lag (the default).")
@click.option("--members", is_flag=True, help="--describe: the members.")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="--describe: state and coordinator; --list: print states, or only groups in these states.",
)
@click.option(
    "--type",
    "types",
    is_flag=False,
    flag_value="",
    metavar="[TYPE,...]",
    help="--list: print types, or only groups of these types: classic, consumer.",
)
@click.option("--verbose", is_flag=True, help="--describe: more columns.")
@click.option(
    "--lag", is_flag=True, help="--describe: lag in records, bytes, seconds (minikafka's own)."
)
@click.option("--to-earliest", is_flag=True, help="Reset to the beginning.")
@click.option("--to-latest", is_flag=True, help="Reset to the end.")
@click.option("--to-current", is_flag=True, help="Reset to the committed offset.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Reset to an offset.")
@click.option("--shift-by", type=int, metavar="N", help="Shift the offset by N, or back by -N.")
@click.option(
    "--to-datetime", metavar="TIME", help="Reset to a time: YYYY-MM-DDTHH:mm:SS.sss, UTC."
)
@click.option(
    "--by-duration", metavar="DURATION", help="Reset to a time this long ago: PnDTnHnMnS."
)
@click.option(
    "--from-file",
    type=FILE,
    metavar="FILE",
    help="Reset to the offsets in a CSV file of --export.",
)
@click.option("--dry-run", is_flag=True, help="Only print what a reset would do (the default).")
@click.option("--execute", is_flag=True, help="Carry out the reset.")
@click.option("--export", is_flag=True, help="Print the result as CSV.")
@click.option(
    "--timeout", type=int, default=5000, metavar="MS", help="How long each call may take, in ms."
)
@command_config()
def consumer_groups(
    bootstrap: str,
    list_groups: bool,
    describe: bool,
    delete: bool,
    reset_offsets: bool,
    delete_offsets: bool,
    validate_regex: str | None,
    offsets: bool,
    timeout: int,
    command_config: Path | None,
    **flags: Any,
) -> None:
    """List, describe, delete and reset groups of consumers.

    \b
    minikafka consumer-groups --bootstrap-server localhost:9092 --list
    minikafka consumer-groups --bootstrap-server localhost:9092 --describe --group g
    minikafka consumer-groups --bootstrap-server localhost:9092 --describe --group g \\
        --members --verbose
    minikafka consumer-groups --bootstrap-server localhost:9092 --describe --group g --lag
    minikafka consumer-groups --bootstrap-server localhost:9092 --group g --topic t:0,1 \\
        --reset-offsets --to-datetime 2026-01-31T10:00:00.000 --execute
    minikafka consumer-groups --bootstrap-server localhost:9092 --group g --all-topics \\
        --reset-offsets --to-current --export > offsets.csv
    """
    chosen = (list_groups, describe, delete, reset_offsets, delete_offsets, validate_regex)
    if sum(bool(one) for one in chosen) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise click.UsageError(f"Command must include exactly one action: {actions}")
    if validate_regex:
        raise click.exceptions.Exit(_validate(validate_regex))
    wanted = Wanted(**{one.name: flags[one.name] for one in fields(Wanted)})
    _check(wanted, list_groups=list_groups, about_topics=reset_offsets or delete_offsets)
    if sum((offsets, wanted.members, wanted.state is not None)) > 1 and describe:
        raise click.UsageError("only one of --offsets, --members and --state can be described")
    if wanted.lag and (not describe or wanted.members or wanted.state is not None):
        raise click.UsageError("--lag needs --describe, and goes with --offsets alone")
    reset = _reset_of(flags) if reset_offsets else None

    async def act(admin: "Admin") -> int:
        if list_groups:
            return await _list(admin, wanted)
        if describe:
            return await _describe(admin, wanted)
        if delete:
            return await _delete(admin, await _groups(admin, wanted))
        if reset is not None:
            return await _reset(admin, wanted, reset)
        return await _delete_offsets(admin, wanted)

    administer(act, COMPLAINT, bootstrap, command_config, default_api_timeout_ms=timeout)


def _check(wanted: Wanted, *, list_groups: bool, about_topics: bool) -> None:
    if list_groups:
        return
    if not wanted.groups and not wanted.all_groups:
        raise click.UsageError("--group or --all-groups is needed")
    if wanted.groups and wanted.all_groups:
        raise click.UsageError("--group and --all-groups exclude each other")
    if about_topics and wanted.topics and wanted.all_topics:
        raise click.UsageError("--topic and --all-topics exclude each other")


def _reset_of(flags: Mapping[str, object]) -> Reset:
    import time

    given = [
        scenario
        for scenario in Scenario
        if flags[scenario.value[2:].replace("-", "_")] not in (None, False)
    ]
    if len(given) != 1:
        names = ", ".join(scenario.value for scenario in Scenario)
        raise click.UsageError(f"--reset-offsets needs exactly one of {names}")
    if flags["dry_run"] and flags["execute"]:
        raise click.UsageError("--dry-run and --execute exclude each other")
    (scenario,) = given
    if not flags["dry_run"] and not flags["execute"]:
        say(NO_EXECUTE)
    value = flags[scenario.value[2:].replace("-", "_")]
    time_ms = 0
    if scenario is Scenario.DATETIME:
        time_ms = offset_resets.datetime_ms(str(value))
    elif scenario is Scenario.DURATION:
        time_ms = time.time_ns() // 1_000_000 - offset_resets.duration_ms(str(value))
    return Reset(
        scenario,
        value if isinstance(value, int) else 0,
        time_ms,
        value if isinstance(value, Path) else None,
        bool(flags["execute"]),
        bool(flags["export"]),
    )


def _validate(regex: str) -> int:
    try:
        re.compile(regex)
    except re.error as error:
        print(f"The regular expression `{regex}` is invalid: {error}.")
        return 1
    print(f"The regular expression `{regex}` is valid.")
    return 0


def _filter(text: str | None, known: Sequence[str], what: str) -> list[str]:
    by_name = {one.lower(): one for one in known}
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if any(name.lower() not in by_name for name in names):
        valid = ", ".join(known)
        raise click.UsageError(f"Invalid {what} list '{text}'. Valid {what}s are: {valid}")
    return [by_name[name.lower()] for name in names]


async def _list(admin: "Admin", wanted: Wanted) -> int:
    from .group_table import listing_lines

    states = _filter(wanted.state, STATES, "state")
    types = _filter(wanted.types, TYPES, "type")
    found = await admin.list_groups(states=states, types=types)
    consumers = [group for group in found if group.protocol_type in ("consumer", "")]
    with_type, with_state = wanted.types is not None, wanted.state is not None
    for line in listing_lines(consumers, with_type=with_type, with_state=with_state):
        print(line)
    return 0


async def _groups(admin: "Admin", wanted: Wanted) -> list[str]:
    if not wanted.all_groups:
        return list(dict.fromkeys(wanted.groups))
    found = await admin.list_groups()
    return [group.group_id for group in found if group.protocol_type in ("consumer", "")]


async def _described(
    admin: "Admin", names: Sequence[str]
) -> tuple[list["GroupDescription"], list[str]]:
    """Return the groups that exist, and an error message for each of the others."""
    found: list[GroupDescription] = []
    missing: list[str] = []
    for name in names:
        try:
            group = (await admin.describe_groups([name]))[name]
        except AdminError as error:
            if error.errors[name].code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            group = None
        if group is None or group.state == "Dead":
            missing.append(f"Error: Consumer group '{name}' does not exist.")
        else:
            found.append(group)
    return found, missing


async def _describe(admin: "Admin", wanted: Wanted) -> int:
    from .group_table import Progress, member_lines, notice, offset_lines, state_lines

    groups, missing = await _described(admin, await _groups(admin, wanted))
    for complaint in missing:
        say(f"\n{complaint}")
    brokers = {}
    if wanted.state is not None:
        described = await admin.describe_cluster()
        brokers = {one.node_id: f"{one.host}:{one.port}" for one in described.brokers}
    for group in sorted(groups):
        if (said := notice(group)) is not None:
            say(f"\n{said}")
        if wanted.members:
            lines = member_lines(group, verbose=wanted.verbose)
        elif wanted.state is not None:
            coordinator = brokers.get(group.coordinator_id, "")
            lines = state_lines(group, coordinator, verbose=wanted.verbose)
        else:
            committed = await admin.list_group_offsets(group.group_id)
            partitions = {one for member in group.members for one in member.assignment}
            ends = await _offsets_at(admin, {*partitions, *committed}, LATEST)
            lags = await admin.describe_lag(_offsets(committed)) if wanted.lag else None
            progress = Progress(committed, ends, lags)
            lines = offset_lines(group, progress, verbose=wanted.verbose)
        if lines:
            print("\n" + "\n".join(lines))
    return 1 if missing else 0


def _offsets(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    return {partition: each.offset for partition, each in committed.items()}


async def _offsets_at(
    admin: "Admin", partitions: "set[TopicPartition]", timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offsets of the partitions that exist; commits may be of deleted topics."""
    known = {topic.name for topic in await admin.list_topics(include_internal=True)}
    asked = {one: timestamp for one in sorted(partitions) if one.topic in known}
    found = await admin.list_offsets(asked)
    return {partition: answer.offset for partition, answer in found.items() if answer.offset >= 0}


async def _delete(admin: "Admin", names: Sequence[str]) -> int:
    try:
        await admin.delete_groups(names)
    except AdminError as error:
        say("\nError: Deletion of some consumer groups failed:")
        for name, why in error.errors.items():
            say(f"* Group '{name}' could not be deleted due to: {refusal(why)}")
        done = [name for name in names if name not in error.errors]
        if done:
            quoted = ", ".join(f"'{name}'" for name in done)
            print(f"\nThese consumer groups were deleted successfully: {quoted}")
        return 1
    quoted = ", ".join(f"'{name}'" for name in names)
    print(f"Deletion of requested consumer groups ({quoted}) was successful.")
    return 0


async def _partitions(
    admin: "Admin", wanted: Wanted, committed: Mapping[TopicPartition, object]
) -> list[TopicPartition]:
    if wanted.all_topics:
        return sorted(committed)
    asked = [offset_resets.partitions_of(text) for text in wanted.topics]
    if not asked:
        raise click.UsageError("--topic or --all-topics is needed")
    described = await admin.describe_topics([topic for topic, _ in asked])
    return sorted(
        TopicPartition(topic, index)
        for topic, indexes in asked
        for index in (
            [one.partition for one in described[topic].partitions] if indexes is None else indexes
        )
    )


async def _reset(admin: "Admin", wanted: Wanted, reset: Reset) -> int:
    from .group_table import reset_lines

    names = await _groups(admin, wanted)
    from_file: offset_resets.Offsets = {}
    if reset.file is not None:
        from_file = offset_resets.read_csv(reset.file.read_text(), names)
    results: offset_resets.Offsets = {}
    failed = False
    for name in names:
        groups, _ = await _described(admin, [name])
        # A group that does not exist yet can be reset, too: the commit creates it.
        if groups and groups[0].state != "Empty":
            say(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but "
                f"the current state is {groups[0].state}."
            )
            failed = True
            continue
        if reset.file is not None:
            results[name] = await _from_file(admin, from_file.get(name, {}))
        else:
            results[name] = await _by_scenario(admin, name, wanted, reset)
        if reset.execute and results[name]:
            await admin.alter_group_offsets(name, results[name])
    if reset.export:
        sys.stdout.write(offset_resets.csv_text(results, with_group=len(names) != 1))
    else:
        print("\n" + "\n".join(reset_lines(results)))
    return 1 if failed else 0


async def _from_file(
    admin: "Admin", asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    begins = await _offsets_at(admin, set(asked), EARLIEST)
    ends = await _offsets_at(admin, set(asked), LATEST)
    found: dict[TopicPartition, int] = {}
    for partition, offset in asked.items():
        bounds = offset_resets.Bounds(begins.get(partition, 0), ends.get(partition, 0), None)
        found[partition] = _warned(Scenario.FILE, offset, partition, bounds)
    return found


async def _by_scenario(
    admin: "Admin", name: str, wanted: Wanted, reset: Reset
) -> dict[TopicPartition, int]:
    committed = await admin.list_group_offsets(name)
    partitions = await _partitions(admin, wanted, committed)
    begins = await _offsets_at(admin, set(partitions), EARLIEST)
    ends = await _offsets_at(admin, set(partitions), LATEST)
    at_time: dict[TopicPartition, int] = {}
    if reset.scenario in (Scenario.DATETIME, Scenario.DURATION):
        at_time = await _offsets_at(admin, set(partitions), max(reset.time_ms, 0))
    found: dict[TopicPartition, int] = {}
    for partition in partitions:
        here = committed.get(partition)
        bounds = offset_resets.Bounds(
            begins.get(partition, 0),
            ends.get(partition, 0),
            None if here is None else here.offset,
            at_time.get(partition),
        )
        found[partition] = _warned(reset.scenario, reset.amount, partition, bounds)
    return found


def _warned(
    scenario: Scenario, amount: int, partition: TopicPartition, bounds: offset_resets.Bounds
) -> int:
    offset, warning = offset_resets.new_offset(scenario, amount, partition, bounds)
    if warning is not None:
        say(f"WARN: {warning}")
    return offset


async def _delete_offsets(admin: "Admin", wanted: Wanted) -> int:
    from .group_table import deleted_lines

    (name, *more) = await _groups(admin, wanted)
    if more:
        raise click.UsageError("--delete-offsets takes one --group")
    committed = await admin.list_group_offsets(name)
    partitions = await _partitions(admin, wanted, committed)
    refused: dict[str, ApiError] = {}
    try:
        await admin.delete_group_offsets(name, partitions)
    except AdminError as error:
        refused = error.errors
    if refused:
        say("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        topics = ", ".join(dict.fromkeys(one.topic for one in partitions))
        print(f"Request succeed for deleting offsets from group {name} in topics {topics}.")
    outcomes = {}
    for partition in partitions:
        why = refused.get(f"{partition.topic}-{partition.partition}")
        outcomes[partition] = "Successful" if why is None else f"Error: {refusal(why)}"
    print("\n" + "\n".join(deleted_lines(outcomes)))
    return 1 if refused else 0
