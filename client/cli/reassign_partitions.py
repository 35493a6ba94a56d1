"""`minikafka reassign-partitions`: move replicas to other brokers, or to other directories.

Owns flags, the order of requests and exit codes; `reassignment` computes the placements and makes
Kafka's texts, `directory_moves` does so for moves between the directories of one broker.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError, MinikafkaError
from ..admin.cluster_types import BrokerDescription
from ..admin.config_types import ConfigChange, ConfigResource
from ..admin.log_types import TopicPartitionReplica
from ..errors import AdminError
from ..partitions import name_of
from . import directory_moves as d
from . import reassignment as r
from .common import FILE, administer, bootstrap_option, command_config, refusal
from .json_files import entries, read_json, text_of

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error"
RETRY_SECONDS = 0.1
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
    "execute": (
        "throttle",
        "replica_alter_log_dirs_throttle",
        "additional",
        "disallow_replication_factor_change",
    ),
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
    directory_throttle: int | None
    timeout_ms: int
    """Milliseconds to wait until brokers have the new replicas that are to move to a directory."""
    is_additional: bool
    keeps_throttles: bool
    may_change_factor: bool

    def target(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the placement in the file of --execute, read and checked."""
        assert self.target_file is not None
        return r.from_json(read_json(self.target_file, r.OPTION))

    def paths(self) -> dict[TopicPartitionReplica, str]:
        """The directories in the file of --execute, by replica.

        Raise ConfigError if an entry is wrong.
        """
        assert self.target_file is not None
        return d.paths_in(read_json(self.target_file, r.OPTION), r.OPTION)


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
    "--replica-alter-log-dirs-throttle",
    type=click.IntRange(min=1),
    metavar="B/s",
    help="The most bytes per second that a broker copies from one of its directories to another.",
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
@click.option(
    "--timeout",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="How long to wait for replicas whose directory is given and that are yet to be made.",
)
def reassign_partitions(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Move replicas of partitions between brokers, or between the directories of a broker.

    Exit code 1 if the cluster refused. In the file, "log_dirs" gives a directory for each replica,
    written as in the broker's log.dirs; "any" leaves the choice to the broker.

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
    """Read the flags; raise UsageError unless they name one action with the flags that it needs."""
    chosen = [action for action in ACTIONS if flags[f"action_{action}"]]
    if len(chosen) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, "
            "--list"
        )
    (action,) = chosen
    for name, given in flags.items():
        if name.startswith("action_") or name == "timeout":
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
        directory_throttle=flags["replica_alter_log_dirs_throttle"],
        timeout_ms=flags["timeout"],
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
    now = r.to_json(current, await _paths_of(admin, current))
    print(f"Current partition replica assignment\n{now}\n")
    print(f"Proposed partition reassignment configuration\n{r.to_json(proposed)}")
    return 0


async def _racks(admin: "Admin", request: Request) -> dict[int, str | None]:
    """Return the rack of each broker to move to, by broker id.

    Every rack is None if racks are ignored. Raise ReassignmentFailed if a broker is unknown, or if
    racks count and only some of the brokers have one.
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
    """Return the brokers with these ids; raise ReassignmentFailed if one is unknown."""
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


async def _paths_of(admin: "Admin", placement: r.Placement) -> dict[TopicPartitionReplica, str]:
    """Return the directories of these replicas, as far as the brokers are up and report them."""
    alive = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
    wanted = dict.fromkeys(broker for replicas in placement.values() for broker in replicas)
    brokers = [broker for broker in alive if broker in wanted]
    described = await admin.describe_log_dirs(brokers, list(placement)) if brokers else {}
    return {
        replica: path
        for partition, replicas in placement.items()
        for broker in replicas
        if (path := d.standing_of(replica := _on(partition, broker), described).current) is not None
    }


def _on(partition: TopicPartition, broker: int) -> TopicPartitionReplica:
    return TopicPartitionReplica(partition.topic, partition.partition, broker)


async def _execute(admin: "Admin", request: Request) -> int:
    target, paths = request.target(), request.paths()
    moving = await admin.list_partition_reassignments()
    if moving and not request.is_additional:
        raise ReassignmentFailed(UNDER_WAY)
    every = dict.fromkeys(broker for replicas in target.values() for broker in replicas)
    await _brokers(admin, sorted(every))
    current = await _placement_of(admin, target)
    now = r.to_json(current, await _paths_of(admin, current))
    print(f"Current partition replica assignment\n\n{now}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if request.throttle is not None or request.directory_throttle is not None:
        print(VERIFY_LATER)
    if request.throttle is not None:
        moves = r.moves_of(moving, current, target)
        await set_throttles(admin, moves, request.throttle)
        print(f"The inter-broker throttle limit was set to {request.throttle} B/s")
    if request.directory_throttle is not None:
        await _set_directory_throttle(admin, paths, request.directory_throttle)
        print(f"The replica-alter-dir throttle limit was set to {request.directory_throttle} B/s")
    # A replica that is new on its broker is made where it shall be, instead of being moved there.
    arriving = {
        one: path
        for one, path in paths.items()
        if one.broker_id not in current[TopicPartition(one.topic, one.partition)]
    }
    await _ask_for(admin, arriving)
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
    await _start_moves(admin, paths, request.timeout_ms)
    return 0


async def _ask_for(admin: "Admin", paths: d.Paths) -> list[TopicPartitionReplica]:
    """Ask brokers to move replicas to directories; return the replicas that they do not have yet.

    Raise ReassignmentFailed if a broker refuses a directory.
    """
    if not paths:
        return []
    try:
        await admin.alter_replica_log_dirs(paths)
    except AdminError as error:
        refused = error.errors
    else:
        return []
    awaited = [one for one in paths if _is_awaited(refused.get(str(one)))]
    for one, path in paths.items():
        if str(one) in refused and one not in awaited:
            why = refusal(refused[str(one)])
            raise ReassignmentFailed(f"Failed to alter dir for {one} to {path}: {why}")
    return awaited


def _is_awaited(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.REPLICA_NOT_AVAILABLE


async def _start_moves(admin: "Admin", paths: d.Paths, timeout_ms: int) -> None:
    """Begin to move replicas to directories; wait for replicas that have yet to be made.

    Raise ReassignmentFailed if that takes more than `timeout_ms`, or if a broker refuses.
    """
    pending, deadline = dict(paths), time.monotonic() + timeout_ms / 1000
    while pending:
        awaited = await _ask_for(admin, pending)
        for one, path in sorted(pending.items()):
            if one not in awaited:
                print(d.started_line(one, path))
        pending = {one: pending[one] for one in awaited}
        if pending and time.monotonic() >= deadline:
            noun = r.plural("move", pending)
            raise ReassignmentFailed(
                f"Timed out before log directory {noun} could be started for: {d.names_of(pending)}"
            )
        if pending:
            await asyncio.sleep(RETRY_SECONDS)


async def _set_directory_throttle(admin: "Admin", paths: d.Paths, rate: int) -> None:
    brokers = sorted(dict.fromkeys(one.broker_id for one in paths))
    change = [ConfigChange(d.RATE, str(rate))]
    if brokers:
        await admin.incremental_alter_configs(
            {ConfigResource.broker(broker): change for broker in brokers}
        )


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
    paths = request.paths()
    described = await _described(admin, paths)
    print("\n".join(d.status_line(one, path, described) for one, path in sorted(paths.items())))
    if not moving and not d.moving(paths, described) and not request.keeps_throttles:
        await _clear_throttles(admin, list(target))
    return 0


async def _described(admin: "Admin", paths: d.Paths) -> d.Described:
    """Describe the directories of all brokers for which the plan names directories."""
    brokers = sorted(dict.fromkeys(one.broker_id for one in paths))
    return await admin.describe_log_dirs(brokers) if brokers else {}


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

    rates = (*r.THROTTLE_RATES, d.RATE)
    changes = {ConfigResource.broker(broker): deletions(rates) for broker in brokers}
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
    paths = request.paths()
    back = d.moving(paths, await _described(admin, paths))
    if not back:
        print("None of the specified partition moves are active.")
    await _start_moves(admin, back, request.timeout_ms)
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
