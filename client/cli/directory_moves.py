"""Moves between the directories of one broker: reads a plan's paths and writes Kafka's texts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..admin.log_types import LogDirectory, TopicPartitionReplica
from ..partitions import name_of
from .json_files import entries, topic_partitions

ANY_DIRECTORY = "any"
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Paths = Mapping[TopicPartitionReplica, str]
Described = Mapping[int, Mapping[str, LogDirectory]]
"""The directories of brokers, by broker and path."""


def paths_in(found: dict[str, Any], option: str) -> dict[TopicPartitionReplica, str]:
    """Return the directory that a plan names for each replica; those that are "any" are left out.

    Raise ConfigError unless every entry has an absolute path or "any" for each of its replicas.
    """
    paths: dict[TopicPartitionReplica, str] = {}
    listed = entries(found, "partitions", option)
    for partition, entry in zip(topic_partitions(found, option), listed, strict=True):
        replicas = entry["replicas"]
        given = entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
        if not isinstance(given, list) or len(given) != len(replicas):
            why = 'needs one directory for each replica in "log_dirs"'
            raise ConfigError(option, json.dumps(entry), why)
        for broker, path in zip(replicas, given, strict=True):
            if path == ANY_DIRECTORY:
                continue
            if not isinstance(path, str) or not path.startswith("/"):
                why = 'names a directory that is neither an absolute path nor "any"'
                raise ConfigError(option, json.dumps(entry), why)
            paths[TopicPartitionReplica(*partition, broker)] = path
    return paths


class Standing(NamedTuple):
    """The directories of one replica on its broker."""

    current: str | None
    """The path of the replica's directory; None if no usable directory has the replica."""
    future: str | None
    """The path of the directory that the replica is moving to; None if it is not moving."""


def standing_of(replica: TopicPartitionReplica, described: Described) -> Standing:
    """Return the directory in which a replica is, and the one to which it is moving."""
    current = future = None
    for path, directory in described.get(replica.broker_id, {}).items():
        found = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
        if found is not None and found.is_future:
            future = path
        elif found is not None:
            current = path
    return Standing(current, future)


def status_line(replica: TopicPartitionReplica, target: str, described: Described) -> str:
    """Return the line of --verify for a replica that is to be in the directory `target`."""
    name = name_of(TopicPartition(replica.topic, replica.partition))
    directories = described.get(replica.broker_id, {})
    current, future = standing_of(replica, described)
    if current is None:
        if any(directory.error is not None for directory in directories.values()):
            return (
                f"Partition {name} is not found in any live log dir on broker "
                f"{replica.broker_id}. There is likely an offline log directory on the broker."
            )
        return (
            f"Partition {name} cannot be found in any live log directory on broker "
            f"{replica.broker_id}."
        )
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if future is not None:
        return (
            f"Partition {name} on broker {replica.broker_id} is being moved to log dir {future} "
            f"instead of {target}."
        )
    if current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return (
        f"Partition {name} on broker {replica.broker_id} is not being moved from log dir "
        f"{current} to {target}."
    )


def moving(
    paths: Iterable[TopicPartitionReplica], described: Described
) -> dict[TopicPartitionReplica, str]:
    """Return the replicas that are moving, each with the path of its present directory."""
    found = {replica: standing_of(replica, described) for replica in paths}
    return {
        replica: one.current
        for replica, one in found.items()
        if one.future is not None and one.current is not None
    }


def started_line(replica: TopicPartitionReplica, path: str) -> str:
    """Return the line that reports the start of one move."""
    return (
        f"Successfully started moving log directory to {path} for replica "
        f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
    )


def names_of(replicas: Iterable[TopicPartitionReplica]) -> str:
    """Return the replicas' names, sorted and separated by commas."""
    return ",".join(map(str, sorted(replicas)))


def chosen(
    directories: Mapping[str, LogDirectory],
    *,
    topics: Sequence[str] | None,
    source: str | None,
    target: str,
) -> list[TopicPartition]:
    """Return the replicas of a broker that are neither in the directory `target` nor moving to it.

    If given, `topics` selects replicas of these topics, and `source` replicas in this directory.
    """
    there = directories[target].replicas if target in directories else {}
    return sorted(
        partition
        for path, directory in directories.items()
        if path != target and source in (None, path)
        for partition, replica in directory.replicas.items()
        if (topics is None or partition.topic in topics)
        and not replica.is_future
        and partition not in there
    )
