"""`minikafka streams-application-reset`: let an application of Kafka Streams begin anew.

Owns flags, Kafka's texts and exit codes; `offset_resets` has the scenarios.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...protocol.errors import ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..errors import AdminError
from . import offset_resets
from .common import FILE, administer, bootstrap_server, command_config, refusal, say
from .offset_resets import Bounds, Scenario

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing streams reset command"
LATEST, EARLIEST = -1, -2
INTERNAL: Final = re.compile(
    r".*-(?:changelog|repartition|subscription-registration-topic|subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic",
    re.DOTALL,
)
"""The part of an internal topic's name after the application's id, as Kafka Streams makes it."""
SCENARIOS: Final = (
    Scenario.EARLIEST,
    Scenario.LATEST,
    Scenario.OFFSET,
    Scenario.SHIFT,
    Scenario.DATETIME,
    Scenario.DURATION,
    Scenario.FILE,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The position from which the input topics are to be read anew."""

    scenario: Scenario = Scenario.EARLIEST
    amount: int = 0
    """The offset for OFFSET, or the number of offsets to move by for SHIFT."""
    time_ms: int = 0
    offsets: Mapping[TopicPartition, int] | None = None
    """The offsets read from a file; None if no file was given."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The topics to reset and to delete, as the flags name them."""

    application_id: str
    input_topics: list[str]
    intermediate_topics: list[str]
    internal_topics: list[str]
    """The internal topics to delete; an empty list means all of them."""
    target: Target
    removes_members: bool
    is_dry: bool


@click.command("streams-application-reset")
@bootstrap_server
@click.option("--application-id", required=True, help="The application.id, which is its group.")
@click.option("--input-topics", default="", metavar="TOPIC,...", help="Topics to read anew.")
@click.option("--intermediate-topics", default="", metavar="TOPIC,...", help="Topics to skip.")
@click.option(
    "--internal-topics",
    default="",
    metavar="TOPIC,...",
    help="The internal topics to delete. [default: all of the application]",
)
@click.option("--to-earliest", is_flag=True, help="Read from the beginning, as without a flag.")
@click.option("--to-latest", is_flag=True, help="Read from the end.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Read from an offset.")
@click.option("--shift-by", type=int, metavar="N", help="Go on by N records, or back by -N.")
@click.option("--to-datetime", metavar="TIME", help="Read from a time: YYYY-MM-DDTHH:mm:SS.sss.")
@click.option("--by-duration", metavar="DURATION", help="Read from so long ago: PnDTnHnMnS.")
@click.option("--from-file", type=FILE, metavar="FILE", help="CSV lines topic,partition,offset.")
@click.option("--force", is_flag=True, help="Remove members of the group that are left over.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@command_config("--config-file")
def streams_application_reset(
    bootstrap: str,
    application_id: str,
    input_topics: str,
    intermediate_topics: str,
    internal_topics: str,
    force: bool,
    dry_run: bool,
    command_config: Path | None,
    **flags: object,
) -> None:
    """Reset the offsets of an application's input topics, and delete its internal topics.

    Stop the application first, and delete its local state afterwards. Internal topics are those
    whose names begin with the application's id and end with a suffix of Kafka Streams. The exit
    code is 1 if a topic does not exist, or the application runs.

    \b
    minikafka streams-application-reset --bootstrap-server localhost:9092 \\
        --application-id app --input-topics orders --dry-run
    """
    plan = Plan(
        application_id,
        _names(input_topics),
        _names(intermediate_topics),
        _names(internal_topics),
        _target(application_id, flags),
        removes_members=force,
        is_dry=dry_run,
    )

    async def act(admin: "Admin") -> int:
        if plan.is_dry:
            print(
                "----Dry run displays the actions which will be performed when running Streams "
                "Reset Tool----"
            )
        if not await _is_stopped(admin, plan):
            return 1
        known = [one.name for one in await admin.list_topics(include_internal=True)]
        if (foreign := _foreign(plan, known)) is not None:
            say(
                f"ERROR: Invalid topic specified in the --internal-topics option: {foreign}. "
                "Ensure that the topics specified are all internal topics. Do a dry run without "
                "the --internal-topics option to see the list of all internal topics that can be "
                "deleted."
            )
            return 1
        is_whole = await _reset(admin, plan, known)
        is_clean = await _delete(admin, plan, known)
        return 0 if is_whole and is_clean else 1

    administer(act, COMPLAINT, bootstrap, command_config)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _target(application_id: str, flags: Mapping[str, object]) -> Target:
    given = [
        (scenario, value)
        for scenario in SCENARIOS
        if (value := flags[scenario.value[2:].replace("-", "_")]) not in (None, False)
    ]
    if len(given) > 1:
        (one, _), (other, _), *_ = given
        raise click.UsageError(f"{one.value} can't be used with {other.value}")
    if not given:
        return Target()
    ((scenario, value),) = given
    if scenario is Scenario.DATETIME:
        return Target(scenario, time_ms=offset_resets.datetime_ms(str(value)))
    if scenario is Scenario.DURATION:
        ago_ms = offset_resets.duration_ms(str(value))
        return Target(scenario, time_ms=time.time_ns() // 1_000_000 - ago_ms)
    if isinstance(value, Path):
        found = offset_resets.read_csv(value.read_text(), [application_id])
        return Target(scenario, offsets=found.get(application_id, {}))
    return Target(scenario, amount=value if isinstance(value, int) else 0)


async def _is_stopped(admin: "Admin", plan: Plan) -> bool:
    """Return True if the group has no members; with --force, first remove its members."""
    group_id = plan.application_id
    try:
        members = (await admin.describe_groups([group_id]))[group_id].members
    except AdminError as error:
        if error.errors[group_id].code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return True
    if not members:
        return True
    if not plan.removes_members:
        names = ", ".join(member.member_id for member in members)
        say(
            f"ERROR: Consumer group '{group_id}' is still active and has following members: "
            f"{names}. Make sure to stop all running application instances before running the "
            "reset tool. You can use option '--force' to remove active members from the group."
        )
        return False
    print(f"Force deleting all active members in the group: {group_id}")
    if not plan.is_dry:
        await admin.remove_members(group_id)
    return True


# -- offsets


async def _reset(admin: "Admin", plan: Plan, known: Sequence[str]) -> bool:
    """Reset the offsets; return False if some of the topics do not exist."""
    if not plan.input_topics and not plan.intermediate_topics:
        print("No input or intermediate topics specified. Skipping seek.")
        return True
    if plan.input_topics:
        print(f"Reset-offsets for input topics {_java_list(plan.input_topics)}")
    if plan.intermediate_topics:
        print(f"Seek-to-end for intermediate topics {_java_list(plan.intermediate_topics)}")
    wanted: list[list[str]] = []
    is_whole = True
    for kind, names in (("input", plan.input_topics), ("intermediate", plan.intermediate_topics)):
        missing = [name for name in names if name not in known]
        if missing:
            is_whole = False
            print(f"Following {kind} topics are not found, skipping them")
            print("\n".join(f"Topic: {name}" for name in missing))
        wanted.append([name for name in names if name in known])
    inputs, intermediates = wanted
    read = await _partitions(admin, inputs)
    skipped = await _partitions(admin, [name for name in intermediates if name not in inputs])
    offsets = await _ends(admin, skipped, plan) | await _begins(admin, read, plan)
    if offsets and not plan.is_dry:
        await admin.alter_group_offsets(plan.application_id, offsets)
    print("Done.")
    return is_whole


async def _partitions(admin: "Admin", topics: Sequence[str]) -> list[TopicPartition]:
    described = await admin.describe_topics(topics)
    return sorted(
        TopicPartition(topic, one.partition)
        for topic in topics
        for one in described[topic].partitions
    )


async def _ends(
    admin: "Admin", partitions: list[TopicPartition], plan: Plan
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    group = plan.application_id
    print(
        f"Following intermediate topics offsets will be reset to end (for consumer group {group})"
    )
    found = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    print("\n".join(f"Topic: {partition.topic}" for partition in partitions))
    return {partition: found[partition].offset for partition in partitions}


async def _begins(
    admin: "Admin", partitions: list[TopicPartition], plan: Plan
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    group, target = plan.application_id, plan.target
    print(f"Following input topics offsets will be reset to (for consumer group {group})")
    asked = partitions
    if target.offsets is not None:
        _check_file(target.offsets, partitions)
        asked = [partition for partition in partitions if partition in target.offsets]
    begins = await admin.list_offsets(dict.fromkeys(asked, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(asked, LATEST))
    committed = await admin.list_group_offsets(group) if target.scenario is Scenario.SHIFT else {}
    at_time: dict[TopicPartition, int] = {}
    if target.scenario in (Scenario.DATETIME, Scenario.DURATION):
        found = await admin.list_offsets(dict.fromkeys(asked, max(target.time_ms, 0)))
        at_time = {one: each.offset for one, each in found.items() if each.offset >= 0}
    offsets: dict[TopicPartition, int] = {}
    for partition in asked:
        begin, end = begins[partition].offset, ends[partition].offset
        here = committed.get(partition)
        now = begin if here is None else here.offset
        bounds = Bounds(begin, end, now, at_time.get(partition))
        offsets[partition] = _offset(target, partition, bounds)
        print(f"Topic: {partition.topic} Partition: {partition.partition} Offset: ", end="")
        print(offsets[partition])
    return offsets


def _offset(target: Target, partition: TopicPartition, bounds: Bounds) -> int:
    scenario, amount = target.scenario, target.amount
    if target.offsets is not None:
        amount = target.offsets[partition]
    offset, warning = offset_resets.new_offset(scenario, amount, partition, bounds)
    if warning is not None:
        say(f"WARN: {warning}")
    if scenario in (Scenario.DATETIME, Scenario.DURATION) and bounds.at_time is None:
        say(
            f"Partition {partition.partition} from topic {partition.topic} has no record that is "
            "as new. Falling back to latest known offset."
        )
    return offset


def _check_file(
    offsets: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> None:
    for partition in sorted(offsets):
        if partition not in partitions:
            where = f"{partition.topic}-{partition.partition}"
            raise ConfigError("--from-file", where, "is no partition of --input-topics")


# -- internal topics


def _foreign(plan: Plan, known: Sequence[str]) -> str | None:
    """Return the first of --internal-topics that does not belong to the application, or None."""
    return next(
        (
            name
            for name in plan.internal_topics
            if name not in known or not is_internal(name, plan.application_id)
        ),
        None,
    )


async def _delete(admin: "Admin", plan: Plan, known: Sequence[str]) -> bool:
    """Delete internal topics; return False if that failed for some."""
    inferred = sorted(name for name in known if is_internal(name, plan.application_id))
    chosen = plan.internal_topics or inferred
    how = "specified" if plan.internal_topics else "inferred"
    print(f"Deleting {how} internal topics {_java_list(chosen)}")
    if chosen and not plan.is_dry:
        try:
            await admin.delete_topics(chosen)
        except AdminError as error:
            for name, why in error.errors.items():
                say(f"ERROR: deleting topic {name}: {refusal(why)}")
            return False
    print("Done.")
    return True


def is_internal(topic: str, application_id: str) -> bool:
    """True if the name is that of an internal topic of this application of Kafka Streams."""
    return topic.startswith(f"{application_id}-") and INTERNAL.fullmatch(topic) is not None


def _java_list(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"
