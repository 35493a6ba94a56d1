"""`minikafka log-dirs`: print directories and their replicas as JSON, or move replicas."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...runtime.errors import ConfigError
from ..admin.log_types import LogDirectory, TopicPartitionReplica
from . import directory_moves as d
from .common import administer, bootstrap_option, command_config, say

if TYPE_CHECKING:
    from ..admin.admin import Admin

Act = Callable[["Admin"], Awaitable[int]]
COMPLAINT = "Error while executing log dirs command"


@click.command("log-dirs")
@bootstrap_option()
@click.option("--describe", is_flag=True, help="Describe directories.")
@click.option("--alter", is_flag=True, help="Move replicas of one broker to --to-dir.")
@click.option("--broker-list", metavar="ID,...", help="Only these brokers; --alter needs one.")
@click.option("--topic-list", metavar="TOPIC,...", help="Only replicas of these topics.")
@click.option("--from-dir", metavar="PATH", help="Move only replicas in this directory.")
@click.option("--to-dir", metavar="PATH", help="The directory, as the broker's log.dirs has it.")
@command_config()
def log_dirs(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Describe the directories of brokers: replicas, their sizes, and how far behind they are.

    With --alter, move replicas of one broker, selected by directory or topic, to another of its
    directories. Moves continue after the command; --describe shows each as a replica that
    "isFuture".

    \b
    minikafka log-dirs --bootstrap-server localhost:9092 --describe --topic-list t | tail -1
    minikafka log-dirs --bootstrap-server localhost:9092 --alter --broker-list 1 \\
        --from-dir /disk1 --to-dir /disk2
    """
    brokers = _broker_ids(flags["broker_list"])
    topics = flags["topic_list"].split(",") if flags["topic_list"] else None
    if flags["describe"] == flags["alter"]:
        raise click.UsageError("exactly one of --describe and --alter is needed")
    if flags["describe"]:
        if flags["from_dir"] or flags["to_dir"]:
            raise click.UsageError("--from-dir and --to-dir belong to --alter")
        act = _describing(brokers, topics)
    else:
        if brokers is None or len(brokers) != 1 or not flags["to_dir"]:
            raise click.UsageError("--alter needs one broker in --broker-list, and --to-dir")
        if topics is None and not flags["from_dir"]:
            raise click.UsageError("--alter needs --from-dir or --topic-list")
        act = _altering(brokers[0], topics, flags["from_dir"], flags["to_dir"])
    administer(act, COMPLAINT, bootstrap, command_config)


def _broker_ids(text: str | None) -> list[int] | None:
    if not text:
        return None
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ConfigError("--broker-list", text, "must be ids, as 1,2") from None


def _altering(broker: int, topics: list[str] | None, source: str | None, target: str) -> Act:
    """Return the action that moves the broker's replicas to the directory `target`."""

    async def act(admin: "Admin") -> int:
        directories = (await admin.describe_log_dirs([broker]))[broker]
        for path in (source, target):
            if path is not None and path not in directories:
                known = ", ".join(sorted(directories))
                say(f"ERROR: broker {broker} has no directory {path}; it has {known}")
                return 1
        found = d.chosen(directories, topics=topics, source=source, target=target)
        if not found:
            print(f"No replica of broker {broker} is to be moved to {target}")
            return 0
        moves = {TopicPartitionReplica(*partition, broker): target for partition in found}
        await admin.alter_replica_log_dirs(moves)
        for replica, path in moves.items():
            print(d.started_line(replica, path))
        return 0

    return act


def _describing(wanted: list[int] | None, topics: list[str] | None) -> Act:
    """Return the action that prints the directories of brokers as JSON."""
    import json

    async def act(admin: "Admin") -> int:
        alive = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
        brokers = sorted(alive if wanted is None else wanted)
        missing = [one for one in brokers if one not in alive]
        if missing:
            unknown, known = ",".join(map(str, missing)), ",".join(map(str, sorted(alive)))
            say(
                f"ERROR: The given brokers do not exist from --broker-list: {unknown}. "
                f"Current existent brokers: {known}"
            )
            return 1
        print("Querying brokers for log directories information")
        found = await admin.describe_log_dirs(brokers)
        print(f"Received log directory information from brokers {','.join(map(str, brokers))}")
        print(json.dumps(document(found, topics), separators=(",", ":")))
        return 0

    return act


def document(
    brokers: Mapping[int, Mapping[str, LogDirectory]], topics: list[str] | None
) -> dict[str, Any]:
    """Return the JSON document that Kafka's tool prints."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "logDir": path,
                        "error": None if found.error is None else found.error.code.name,
                        "partitions": [
                            {
                                "partition": f"{topic}-{index}",
                                "size": replica.size,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for (topic, index), replica in sorted(found.replicas.items())
                            if topics is None or topic in topics
                        ],
                    }
                    for path, found in sorted(directories.items())
                ],
            }
            for broker, directories in sorted(brokers.items())
        ],
    }
