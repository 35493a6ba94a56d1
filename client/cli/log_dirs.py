"""`minikafka log-dirs --describe`: print directories and their replicas as one line of JSON."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...runtime.errors import ConfigError
from ..admin.log_types import LogDirectory
from .common import administer, bootstrap_option, command_config, say

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing log dirs command"


@click.command("log-dirs")
@bootstrap_option()
@click.option("--describe", is_flag=True, help="Describe directories.")
@click.option("--broker-list", metavar="ID,...", help="Describe only these brokers.")
@click.option("--topic-list", metavar="TOPIC,...", help="Describe only replicas of these topics.")
@command_config()
def log_dirs(
    bootstrap: str,
    describe: bool,
    broker_list: str | None,
    topic_list: str | None,
    command_config: Path | None,
) -> None:
    """Describe the directories of brokers: replicas, their sizes, and how far behind they are.

    \b
    minikafka log-dirs --bootstrap-server localhost:9092 --describe --topic-list t | tail -1
    """
    import json

    if not describe:
        raise click.UsageError("--describe is needed")
    wanted: list[int] | None = None
    if broker_list:
        try:
            wanted = [int(one) for one in broker_list.split(",")]
        except ValueError:
            raise ConfigError("--broker-list", broker_list, "must be ids, as 1,2") from None
    topics = None if not topic_list else topic_list.split(",")

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

    administer(act, COMPLAINT, bootstrap, command_config)


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
