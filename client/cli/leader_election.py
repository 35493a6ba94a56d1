"""`minikafka leader-election`: elect preferred leaders, or unclean ones of leaderless partitions.

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..admin.topic_types import ElectionType
from .common import FILE, administer, bootstrap_server, command_config, say
from .json_files import read_json, topic_partitions

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while electing leaders"


@click.command()
@bootstrap_server
@command_config("--admin.config")
@click.option(
    "--election-type",
    required=True,
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: elect the first replica. unclean: elect one out of sync, which may "
    "lose acknowledged records.",
)
@click.option("--all-topic-partitions", is_flag=True, help="All partitions that need an election.")
@click.option("--topic", help="The topic of --partition.")
@click.option("--partition", type=click.IntRange(min=0), help="The partition of --topic.")
@click.option(
    "--path-to-json-file",
    type=FILE,
    metavar="FILE",
    help='A file of partitions: {"partitions": [{"topic": "foo", "partition": 1}]}',
)
def leader_election(
    bootstrap: str, command_config: Path | None, election_type: str, **flags: object
) -> None:
    """Elect leaders of partitions. Exit code 1 if some could not be elected.

    \b
    minikafka leader-election --bootstrap-server localhost:9092 --election-type preferred \\
        --all-topic-partitions
    minikafka leader-election --bootstrap-server localhost:9092 --election-type unclean \\
        --topic orders --partition 0
    """
    partitions = _partitions(flags)
    kind = ElectionType[election_type.upper()]

    async def elect(admin: "Admin") -> int:
        return show(kind, await admin.elect_leaders(kind, partitions))

    administer(elect, COMPLAINT, bootstrap, command_config)


def _partitions(flags: Mapping[str, object]) -> list[TopicPartition] | None:
    """Return the partitions that the flags select, or None if they select all.

    Raise UsageError unless exactly one option selects them, or ConfigError for an invalid file.
    """
    topic, partition, path = flags["topic"], flags["partition"], flags["path_to_json_file"]
    ways = [bool(flags["all_topic_partitions"]), topic is not None, path is not None]
    if sum(ways) != 1:
        raise click.UsageError(
            "needs exactly one of --all-topic-partitions, --topic or --path-to-json-file"
        )
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition need each other")
    if isinstance(path, Path):
        found = topic_partitions(read_json(path, "--path-to-json-file"), "--path-to-json-file")
        if len(dict.fromkeys(found)) < len(found):
            raise ConfigError("--path-to-json-file", str(path), "names a partition twice")
        return found
    if isinstance(topic, str) and isinstance(partition, int):
        return [TopicPartition(topic, partition)]
    return None


def show(kind: ElectionType, results: Mapping[TopicPartition, ApiError | None]) -> int:
    """Print the outcome of each partition; return the exit code."""
    elected: list[str] = []
    needless: list[str] = []
    failed: dict[str, ApiError] = {}
    for partition, error in sorted(results.items()):
        name = f"{partition.topic}-{partition.partition}"
        if error is None:
            elected.append(name)
        elif error.code is ErrorCode.ELECTION_NOT_NEEDED:
            needless.append(name)
        else:
            failed[name] = error
    if elected:
        done = f"Successfully completed leader election ({kind.name}) for partitions"
        print(done, ", ".join(elected))
    if needless:
        print("Valid replica already elected for partitions", ", ".join(needless))
    for name, error in failed.items():
        say(f"Error completing leader election ({kind.name}) for partition: {name}: {error}")
    if failed:
        say(f"{len(failed)} replica(s) could not be elected")
    return 1 if failed else 0
