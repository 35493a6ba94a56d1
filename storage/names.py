"""The names of partition directories in a data directory, and of those that are set aside.

    <topic>-<partition>                       a log
    <topic>-<partition>.<mark>-<suffix>       a log that is deleted, or is unknown

The mark is random, so that no name is taken twice. A topic's name may be as long as a file system
allows alone; in the name of what is set aside its end is left out then, as in Kafka.
"""

from collections.abc import Callable

from ..protocol.types import TopicPartition, uuid_to_text

NAME_MAX = 255
"""The most characters of a name in a directory (NAME_MAX of Linux file systems)."""


def partition_in(name: str) -> TopicPartition | None:
    """Return the partition whose log has this directory name; None if it is no log's name."""
    topic, _, digits = name.rpartition("-")
    if not topic or not (digits.isdecimal() and digits.isascii()):
        return None
    return TopicPartition(topic, int(digits))


def name_of(partition: TopicPartition) -> str:
    """Return the directory name of the partition's log."""
    return f"{partition.topic}-{partition.partition}"


def new_mark(randbytes: Callable[[int], bytes]) -> str:
    """Return a random mark of 22 characters."""
    return uuid_to_text(randbytes(16)).replace("-", "_")


def set_aside(partition: TopicPartition, mark: str, suffix: str) -> str:
    """Return the name for the partition's directory once it is set aside."""
    ending = f"-{partition.partition}.{mark}{suffix}"
    return partition.topic[: NAME_MAX - len(ending)] + ending
