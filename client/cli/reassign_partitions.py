"""`minikafka reassign-partitions`: move replicas of partitions to other brokers.

Owns flags, the order of requests and exit codes; `reassignment` computes the placements and makes
Kafka's texts.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError, MinikafkaError
from ..admin.cluster_types import BrokerDescription
from ..admin.config_types import ConfigChange, ConfigResource
from ..errors import AdminError
from ..partitions import name_of
from . import reassignment as r
from .common import FILE, administer, bootstrap_option, command_config, refusal
from .json_files import entries, read_json, text_of

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error"
ACTIONS = ("generate", "execute", "verify", "cancel", "list")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
MAY_HAVE: Mapping[str, tuple[str, ...]] = {
    "generate": ("disable_rack_aware",),
    "execute": ("throttle", "additional", "disallow_replication_factor_change"),
    "verify": ("preserve_throttles",),
    "cancel": ("preserve_throttles",),
    "list": (),
}
UNDER_WAY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class ReassignmentFailed(MinikafkaError):
    """Raised for a request that Kafka's ReassignPartitionsCommand would refuse."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request that the flags make."""

    action: str
    topics_file: Path | None
    target_file: Path | None
    brokers: tuple[int, ...]
    is_rack_aware: bool
    throttle: int | None
    is_additional: bool
    keeps_throttles: bool
    may_change_factor: bool

    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Read the placement in the file of --execute."""
        assert self.target_file is not None
        return r.from_json(read_json(self.target_file, r.OPTION))


@click.command()
@bootstrap_option()
@command_config()
@click.option("--generate", "action_generate", is_flag=True, help="Print a proposed assignment.")
@click.option("--execute", "action_execute", is_flag=True, help="Begin to move partitions.")
@click.option(
    "--verify", "action_verify", is_flag=True, help="Print whether the move has completed."
)
@click.option(
    "--cancel",
    "action_cancel",
    is_flag=True,
    help="Cancel the move, and restore the former replicas.",
)
@click.option("--list", "action_list", is_flag=True, help="Print the partitions that are moving.")
@click.option(
    "--topics-to-move-json-file",
    type=FILE,
    metavar="FILE",
    help='The topics of --generate: {"topics": [{"topic": "foo"}], "version": 1}',
)
@click.option(
    "--reassignment-json-file",
    type=FILE,
    metavar="FILE",
    help="The assignment, as --generate prints it.",
)
@click.option("--broker-list", metavar="1,2,3", help="The brokers that --generate may use.")
@click.option("--disable-rack-aware", is_flag=True, help="Ignore racks.")
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="B/s",
    help="The most bytes per second that each broker copies.",
)
@click.option(
    "--additional", is_flag=True, help="Move more while others move; also changes their throttle."
)
@click.option("--preserve-throttles", is_flag=True, help="Do not remove throttles.")
@click.option(
    "--disallow-replication-factor-change",
    is_flag=True,
    help="Refuse a change of the number of replicas.",
)
@click.option("--timeout", type=int, expose_value=False, hidden=True)
def reassign_partitions(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Move replicas of partitions between brokers. Exit code 1 if the cluster refused.

    \b
    minikafka reassign-partitions --bootstrap-server localhost:9092 --generate \\
        --topics-to-move-json-file topics.json --broker-list 1,2,3,4
    minikafka reassign-partitions --bootstrap-server localhost:9092 --execute \\
        --reassignment-json-file plan.json --throttle 50000000
    minikafka reassign-partitions --bootstrap-server localhost:9092 --verify \\
        --reassignment-json-file plan.json
    """
    request = _request(flags)

    async def carry_out(admin: "Admin") -> int:
        return await DO[request.action](admin, request)

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _request(flags: Mapping[str, Any]) -> Request:
    """Read the flags; raise UsageError unless they name exactly one action with what it needs."""
    chosen = [action for action in ACTIONS if flags[f"action_{action}"]]
    if len(chosen) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    (action,) = chosen
    for name, given in flags.items():
        if name.startswith("action_"):
            continue
        option = "--" + name.replace("_", "-")
        if name in NEEDS[action]:
            if given is None:
                raise click.UsageError(f"--{action} needs {option}")
        elif given not in (None, False) and name not in MAY_HAVE[action]:
            raise click.UsageError(f"{option} does not belong to --{action}")
    return Request(
        action=action,
        topics_file=flags["topics_to_move_json_file"],
        target_file=flags["reassignment_json_file"],
        brokers=_broker_ids(flags["broker_list"] or ""),
        is_rack_aware=not flags["disable_rack_aware"],
        throttle=flags["throttle"],
        is_additional=flags["additional"],
        keeps_throttles=flags["preserve_throttles"],
        may_change_factor=not flags["disallow_replication_factor_change"],
    )


def _broker_ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError("--broker-list", text, "must be numbers with commas between them")
    brokers = tuple(int(part) for part in parts)
    if len(dict.fromkeys(brokers)) < len(brokers):
        raise ConfigError("--broker-list", text, "names a broker twice")
    return brokers


async def _generate(admin: "Admin", request: Request) -> int:
    assert request.topics_file is not None
    option = "--topics-to-move-json-file"
    found = read_json(request.topics_file, option)
    topics = [text_of(one, "topic", option) for one in entries(found, "topics", option)]
    current = await _placement(admin, list(dict.fromkeys(topics)))
    racks = await _racks(admin, request)
    proposed = r.propose(current, racks)
    print(f"Current partition replica assignment\n{r.to_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{r.to_json(proposed)}")
    return 0


async def _racks(admin: "Admin", request: Request) -> dict[int, str | None]:
    """Return the brokers to move to, with their racks, or None if racks are ignored.

    Raise ReassignmentFailed if only some of them have a rack.
    """
    brokers = await _brokers(admin, request.brokers)
    racks = {one.node_id: one.rack if request.is_rack_aware else None for one in brokers}
    without = [node_id for node_id, rack in racks.items() if rack is None]
    if without and len(without) < len(racks):
        raise ReassignmentFailed(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    return racks


async def _brokers(admin: "Admin", wanted: Iterable[int]) -> list[BrokerDescription]:
    """Return the brokers of these ids; raise ReassignmentFailed if one is unknown."""
    cluster = await admin.describe_cluster(include_fenced=True)
    known = {broker.node_id: broker for broker in cluster.brokers}
    for node_id in wanted:
        if node_id not in known:
            raise ReassignmentFailed(f"Unknown broker id {node_id}")
    return [known[node_id] for node_id in wanted]


async def _placement(admin: "Admin", topics: list[str]) -> dict[TopicPartition, tuple[int, ...]]:
    described = await admin.describe_topics(topics)
    return {
        TopicPartition(topic, one.partition): one.replicas
        for topic in topics
        for one in described[topic].partitions
    }


async def _placement_of(
    admin: "Admin", partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of these partitions; raise ReassignmentFailed if one is missing."""
    wanted = list(partitions)
    found = await _placement(admin, sorted({one.topic: None for one in wanted}))
    for partition in wanted:
        if partition not in found:
            raise ReassignmentFailed(f"Unable to find partition {name_of(partition)}")
    return {partition: found[partition] for partition in wanted}


async def _execute(admin: "Admin", request: Request) -> int:
    target = request.target()
    moving = await admin.list_partition_reassignments()
    if moving and not request.is_additional:
        raise ReassignmentFailed(UNDER_WAY)
    every = dict.fromkeys(broker for replicas in target.values() for broker in replicas)
    await _brokers(admin, sorted(every))
    current = await _placement_of(admin, target)
    print(f"Current partition replica assignment\n\n{r.to_json(current)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if request.throttle is not None:
        print(VERIFY_LATER)
        moves = r.moves_of(moving, current, target)
        await set_throttles(admin, moves, request.throttle)
        print(f"The inter-broker throttle limit was set to {request.throttle} B/s")
    failed: dict[str, str] = {}
    try:
        await admin.alter_partition_reassignments(
            target, allow_replication_factor_change=request.may_change_factor
        )
    except AdminError as error:
        failed = {name: refusal(one) for name, one in error.errors.items()}
    started = [one for one in target if name_of(one) not in failed]
    if started:
        noun = r.plural("reassignment", started)
        print(f"Successfully started partition {noun} for {r.names_of(started)}")
    if failed:
        lines = [f"{name}: {why}" for name, why in sorted(failed.items())]
        raise ReassignmentFailed("\n".join(["Error reassigning partition(s):", *lines]))
    return 0


async def set_throttles(admin: "Admin", moves: Mapping[TopicPartition, r.Move], rate: int) -> None:
    """Set the throttled replicas of topics, and then the rates that apply to these replicas."""
    changes: dict[ConfigResource, list[ConfigChange]] = {
        ConfigResource.topic(topic): [ConfigChange(key, value) for key, value in keys.items()]
        for topic, keys in r.throttled_replicas(moves).items()
    }
    for broker in r.brokers_of(moves):
        rates = [ConfigChange(key, str(rate)) for key in r.THROTTLE_RATES]
        changes[ConfigResource.broker(broker)] = rates
    await admin.incremental_alter_configs(changes)


async def _verify(admin: "Admin", request: Request) -> int:
    target = request.target()
    moving = await admin.list_partition_reassignments()
    current = await _placement_of(admin, target)
    print("Status of partition reassignment:")
    for partition, replicas in sorted(target.items()):
        print(r.status_line(partition, replicas, current[partition], moving))
    print()
    if not moving and not request.keeps_throttles:
        await _clear_throttles(admin, list(target))
    return 0


async def _clear_throttles(admin: "Admin", partitions: Sequence[TopicPartition]) -> None:
    brokers, topics = await clear_throttles(admin, partitions)
    shown = ",".join(map(str, brokers))
    print(f"Clearing broker-level throttles on {r.plural('broker', brokers)} {shown}")
    print(f"Clearing topic-level throttles on {r.plural('topic', topics)} {','.join(topics)}")


async def clear_throttles(
    admin: "Admin", partitions: Iterable[TopicPartition]
) -> tuple[list[int], list[str]]:
    """Remove the throttle rates of all brokers, and the throttled replicas of the moved topics.

    All brokers are included, because any may have a rate from this command or an earlier one.
    Return the brokers and the topics.
    """
    brokers = [one.node_id for one in (await admin.describe_cluster(include_fenced=True)).brokers]
    topics = sorted({one.topic: None for one in partitions})

    def deletions(keys: Iterable[str]) -> list[ConfigChange]:
        return [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys]

    changes = {ConfigResource.broker(broker): deletions(r.THROTTLE_RATES) for broker in brokers}
    replicas = (r.LEADER_REPLICAS, r.FOLLOWER_REPLICAS)
    changes |= {ConfigResource.topic(topic): deletions(replicas) for topic in topics}
    await admin.incremental_alter_configs(changes)
    return brokers, topics


async def _cancel(admin: "Admin", request: Request) -> int:
    target = request.target()
    moving = await admin.list_partition_reassignments(target)
    if moving:
        await admin.alter_partition_reassignments(dict.fromkeys(moving))
        noun = r.plural("reassignment", moving)
        print(f"Successfully cancelled partition {noun} for: {r.names_of(moving)}")
    else:
        print("None of the specified partition reassignments are active.")
    if not request.keeps_throttles:
        await _clear_throttles(admin, list(target))
    return 0


async def _list(admin: "Admin", request: Request) -> int:
    moving = await admin.list_partition_reassignments()
    if not moving:
        print("No partition reassignments found.")
        return 0
    print("Current partition reassignments:")
    for partition, one in sorted(moving.items()):
        print(r.moving_line(partition, one))
    return 0


DO: Mapping[str, Callable[["Admin", Request], Awaitable[int]]] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
}
