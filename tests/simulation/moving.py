"""Asks simulated brokers to move replicas between their directories, and looks where they are."""

from typing import NamedTuple

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

from .stage import Stage

ONE, TWO = "/data/one", "/data/two"
TWO_DISKS = {"log.dirs": f"{ONE},{TWO}"}


class Row(NamedTuple):
    """A replica as DescribeLogDirs shows it."""

    path: str
    is_future: bool
    lag: int


async def ask_to_move(
    stage: Stage, broker: int, path: str, topic: str = "t", index: int = 0
) -> ErrorCode:
    """Ask a broker to move one replica; return its answer."""
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    answer = await stage.ask(broker, request)
    ((result,),) = [each.partitions for each in answer.results]
    return ErrorCode(result.error_code)


async def rows(stage: Stage, broker: int, topic: str = "t") -> list[Row]:
    """Return where the topic's replicas are and where they go, as the broker tells it."""
    answer = await stage.ask(broker, DescribeLogDirsRequest(topics=None))
    return [
        Row(each.log_dir, row.is_future_key, row.offset_lag)
        for each in answer.results
        for found in each.topics
        for row in found.partitions
        if found.name == topic
    ]


def place_of(stage: Stage, broker: int, topic: str = "t", index: int = 0) -> str:
    """Return the path of the data directory that holds the replica's log."""
    return stage.partition(broker, topic, index).log.directory.rpartition("/")[0]


def other(path: str) -> str:
    return TWO if path == ONE else ONE


async def moved(stage: Stage, broker: int, path: str, topic: str = "t") -> None:
    """Ask for a move; wait until the replica is there and no file of it is anywhere else."""
    assert await ask_to_move(stage, broker, path, topic) == ErrorCode.NONE
    await stage.until(lambda: names(stage, broker, path, topic) == [f"{topic}-0"], "moved", 20)
    away = other(path)
    await stage.until(lambda: names(stage, broker, away, topic) == [], "old files removed", 20)
    assert place_of(stage, broker, topic) == path


def names(stage: Stage, broker: int, path: str, topic: str = "t") -> list[str]:
    """Return the names on the broker's disk that belong to the topic."""
    disk = stage.daemon(broker).host.disk
    node = disk.find(path)
    return sorted(name for name in node.entries if name.startswith(f"{topic}-"))
