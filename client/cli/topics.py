"""`minikafka topics`: create, list, describe, alter and delete topics.

Owns flags, Kafka's texts and exit codes; `topic_table` prints, the admin client does the work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from ...protocol.errors import ErrorCode
from ...protocol.forwarding_keys import RULES, TARGET
from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ..admin.config_types import ConfigChange, ConfigEntry, ConfigResource
from ..admin.topic_types import NewTopic, TopicDescription
from ..errors import AdminError
from .common import administer, bootstrap_server, command_config, refusal, split_properties
from .delay import partitions_of
from .topic_table import (
    COLLISION_WARNING,
    DEFAULT_MIN_ISR,
    Filter,
    States,
    TopicRow,
    description,
    matching,
    parse_assignment,
)

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing topic command "
DELETE = ConfigOperation.DELETE
TOPIC_EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS
REPLICA_TIMEOUT_MS = 5_000
"""The ms that --replicas waits for each broker's answer."""
ACTIONS = ("list", "create", "delete", "alter", "describe")


@dataclass(frozen=True, slots=True)
class Request:
    """The request that the flags make."""

    action: str
    topic: str | None
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None
    assignment: list[list[int]] | None
    configs: Mapping[str, str]
    deleted_configs: Sequence[str]
    if_exists: bool
    if_not_exists: bool
    exclude_internal: bool
    replicas: bool
    force_pending: bool
    wanted: Filter

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """Read the flags; raise UsageError unless they name exactly one action."""
        chosen = [action for action in ACTIONS if flags[f"action_{action}"]]
        if len(chosen) != 1:
            raise click.UsageError(
                "Command must include exactly one action: --list, --describe, --create, --alter "
                "or --delete"
            )
        assignment = flags["replica_assignment"]
        return cls(
            action=chosen[0],
            topic=flags["topic"],
            topic_id=flags["topic_id"],
            partitions=flags["partitions"],
            replication_factor=flags["replication_factor"],
            assignment=None if assignment is None else parse_assignment(assignment),
            configs=split_properties(flags["configs"], "--config"),
            deleted_configs=[key for keys in flags["delete_config"] for key in keys.split(",")],
            if_exists=flags["if_exists"],
            if_not_exists=flags["if_not_exists"],
            exclude_internal=flags["exclude_internal"],
            replicas=flags["replicas"],
            force_pending=flags["force_pending"],
            wanted=Filter(
                under_replicated=flags["under_replicated_partitions"],
                unavailable=flags["unavailable_partitions"],
                under_min_isr=flags["under_min_isr_partitions"],
                at_min_isr=flags["at_min_isr_partitions"],
                with_overrides=flags["topics_with_overrides"],
            ),
        )

    def check(self) -> None:
        """Raise UsageError if flags are missing or contradict each other."""
        if self.action in ("create", "delete", "alter") and self.topic is None:
            raise click.UsageError(f"--{self.action} needs --topic")
        if self.assignment is not None and self.replication_factor is not None:
            raise click.UsageError(
                "--replica-assignment and --replication-factor exclude each other"
            )
        if self.action == "create" and self.assignment is not None and self.partitions is not None:
            raise click.UsageError("--replica-assignment and --partitions exclude each other")
        if self.action == "alter":
            if self.partitions is None and not self.configs and not self.deleted_configs:
                raise click.UsageError("--alter needs --partitions, --config or --delete-config")
            if self.replication_factor is not None:
                raise click.UsageError("--alter cannot change --replication-factor")
        elif self.deleted_configs:
            raise click.UsageError("--delete-config needs --alter")
        if self.force_pending and self.action != "delete":
            raise click.UsageError("--force-pending needs --delete")
        if self.replicas and self.action != "describe":
            raise click.UsageError("--replicas needs --describe")


@click.command()
@bootstrap_server
@click.option("--list", "action_list", is_flag=True, help="Print the names of topics.")
@click.option("--create", "action_create", is_flag=True, help="Create a topic.")
@click.option("--delete", "action_delete", is_flag=True, help="Delete topics.")
@click.option("--alter", "action_alter", is_flag=True, help="Add partitions, or change settings.")
@click.option("--describe", "action_describe", is_flag=True, help="Print topics and partitions.")
@click.option("--topic", help="The topic; a list of regular expressions unless with --create.")
@click.option("--topic-id", help="Describe the topic with this id.")
@click.option("--partitions", type=click.IntRange(1, 2**31 - 1), help="Number of partitions.")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 2**15 - 1),
    help="Number of replicas of each partition.",
)
@click.option(
    "--replica-assignment", metavar="1:2,2:3", help="The brokers of each partition: 0:1,1:2."
)
@click.option(
    "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic."
)
@click.option(
    "--delete-config",
    multiple=True,
    metavar="KEY",
    help="A setting to remove, so that its default applies.",
)
@click.option("--if-exists", is_flag=True, help="Do nothing if the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option(
    "--under-replicated-partitions",
    is_flag=True,
    help="Print only partitions with a replica out of sync.",
)
@click.option(
    "--unavailable-partitions", is_flag=True, help="Print only partitions without a leader."
)
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="Print only partitions with fewer replicas in sync than min.insync.replicas.",
)
@click.option(
    "--at-min-isr-partitions",
    is_flag=True,
    help="Print only partitions with exactly min.insync.replicas replicas in sync.",
)
@click.option(
    "--topics-with-overrides",
    is_flag=True,
    help="Print only topics that have settings of their own.",
)
@click.option(
    "--replicas",
    is_flag=True,
    help="--describe: each replica's log end and lag too (minikafka's own).",
)
@click.option(
    "--force-pending",
    is_flag=True,
    help="--delete: also delay topics in which records wait (minikafka's own).",
)
@click.option("--partition-size-limit-per-response", type=int, expose_value=False, hidden=True)
@command_config("--admin.config")
def topics(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Create, list, describe, alter and delete topics.

    Exit code 1 if the cluster refused.

    \b
    minikafka topics --bootstrap-server localhost:9092 --create --topic t --partitions 6
    minikafka topics --bootstrap-server localhost:9092 --describe --topic t
    minikafka topics --bootstrap-server localhost:9092 --describe --topic t --replicas
    minikafka topics --bootstrap-server localhost:9092 --alter --topic t \\
        --config unclean.leader.election.enable=true
    """
    request = Request.from_flags(flags)
    request.check()

    async def carry_out(admin: "Admin") -> int:
        try:
            await DO[request.action](admin, request)
        except AdminError as error:
            # Kafka's tool does not name the topic in this message.
            why = "; ".join(refusal(one) for one in error.errors.values())
            raise TopicCommandError(why) from error
        return 0

    administer(carry_out, COMPLAINT, bootstrap, command_config)


class TopicCommandError(MinikafkaError):
    """Raised for a request that Kafka's TopicCommand would refuse."""


async def _names(admin: "Admin", request: Request) -> list[str]:
    """Return the topics that the flags select.

    Raise TopicCommandError if the flags name a topic that does not exist, except with --if-exists.
    """
    listed = await admin.list_topics(include_internal=not request.exclude_internal)
    names = matching(
        (topic.name for topic in listed if request.topic_id in (None, topic.topic_id)),
        request.topic,
    )
    if not names and not request.if_exists:
        if request.topic_id is not None:
            raise TopicCommandError(f"TopicId '{request.topic_id}' does not exist as expected")
        if request.topic is not None:
            raise TopicCommandError(f"Topic '{request.topic}' does not exist as expected")
    return names


async def _list(admin: "Admin", request: Request) -> None:
    for name in await _names(admin, replace(request, if_exists=True)):
        print(name)


async def _create(admin: "Admin", request: Request) -> None:
    name = str(request.topic)
    if "." in name or "_" in name:
        print(COLLISION_WARNING)
    assignments = None if request.assignment is None else dict(enumerate(request.assignment))
    topic = NewTopic(
        name,
        BROKER_DEFAULT if request.partitions is None else request.partitions,
        BROKER_DEFAULT if request.replication_factor is None else request.replication_factor,
        assignments=assignments,
        configs=request.configs,
    )
    try:
        await admin.create_topics([topic])
    except AdminError as error:
        if not request.if_not_exists or error.errors[name].code is not TOPIC_EXISTS:
            raise
    else:
        print(f"Created topic {name}.")


async def _delete(admin: "Admin", request: Request) -> None:
    if names := await _names(admin, request):
        if not request.force_pending:
            await _check_pending(admin, names)
        await admin.delete_topics(names)


async def _check_pending(admin: "Admin", names: Sequence[str]) -> None:
    """Raise TopicCommandError if records wait in these topics that are yet to be forwarded."""
    try:
        found = await admin.describe_configs([ConfigResource.topic(name) for name in names])
    except AdminError:
        return  # Whoever may delete topics need not be allowed to see their settings.
    for resource, entries in found.items():
        if any((entry := entries.get(key)) and entry.value for key in (TARGET, RULES)):
            states = await admin.describe_forwarding(await partitions_of(admin, resource.name))
            count = sum(each.pending + each.planned for each in states.values())
            if count:
                why = f"{count} records of {resource.name!r} are yet to be forwarded"
                raise TopicCommandError(f"{why}: --force-pending deletes it with them")


async def _alter(admin: "Admin", request: Request) -> None:
    names = await _names(admin, request)
    if request.partitions is not None and names:
        await _add_partitions(admin, names, request.partitions, request.assignment)
    changes = [ConfigChange(key, value) for key, value in request.configs.items()]
    changes += [ConfigChange(key, None, DELETE) for key in request.deleted_configs]
    if changes and names:
        await admin.incremental_alter_configs(
            {ConfigResource.topic(name): changes for name in names}
        )
        for name in names:
            print(f"Updated config for topic {name}.")


async def _add_partitions(
    admin: "Admin", names: list[str], count: int, assignment: list[list[int]] | None
) -> None:
    assignments = None
    if assignment is not None:
        # As in Kafka's tool, the assignment names all partitions; that of the new ones is used.
        found = await admin.describe_topics(names)
        assignments = {name: assignment[len(found[name].partitions) :] for name in names}
    await admin.create_partitions(dict.fromkeys(names, count), assignments=assignments)


async def _describe(admin: "Admin", request: Request) -> None:
    names = await _names(admin, request)
    found = await admin.describe_topics(names)
    configs = await admin.describe_configs([ConfigResource.topic(name) for name in names])
    states: Mapping[TopicPartition, States] = {}
    if request.replicas:
        states = await admin.describe_replicas(
            {
                TopicPartition(name, each.partition): each.replicas
                for name in names
                for each in found[name].partitions
            },
            timeout_ms=REPLICA_TIMEOUT_MS,
        )
    rows = [_row(found[name], configs[ConfigResource.topic(name)], states) for name in names]
    for line in description(rows, request.wanted):
        print(line)


def _row(
    topic: TopicDescription,
    configs: Mapping[str, ConfigEntry],
    states: Mapping[TopicPartition, States],
) -> TopicRow:
    min_isr = configs.get("min.insync.replicas")
    return TopicRow(
        topic,
        {entry.name: entry.value or "" for entry in configs.values() if not entry.is_default},
        DEFAULT_MIN_ISR if min_isr is None or min_isr.value is None else int(min_isr.value),
        states,
    )


DO = {
    "list": _list,
    "create": _create,
    "delete": _delete,
    "alter": _alter,
    "describe": _describe,
}
