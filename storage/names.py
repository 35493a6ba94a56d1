"""The names of partition directories in a data directory, and of those that are set aside.

    <topic>-<partition>                       a log
    <topic>-<partition>.<mark>-delete         a log that is deleted
    <topic>-<partition>.<mark>-stray          a log that is unknown
    <topic>-<partition>.<mark>-future         a copy that is to take the place of a log elsewhere
    <topic>-<partition>.<mark>-moved          the log whose place the copy of that mark has taken

The mark is random, so that no name is used twice. A topic's name may be so long that only
`<topic>-<partition>` fits into a file name. Then the other names contain only the beginning of the
topic's name, as in Kafka.
"""

from collections.abc import Callable
from typing import NamedTuple

from ..protocol.types import TopicPartition, uuid_to_text
from .files import FUTURE, MOVED

NAME_MAX = 255
"""The most characters of a name in a directory (NAME_MAX of Linux file systems)."""
MARK_LENGTH = 22


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
    """Return a random mark of MARK_LENGTH characters."""
    return uuid_to_text(randbytes(16)).replace("-", "_")


def set_aside(partition: TopicPartition, mark: str, suffix: str) -> str:
    """Return the name for the partition's directory once it is set aside."""
    ending = f"-{partition.partition}.{mark}{suffix}"
    return partition.topic[: NAME_MAX - len(ending)] + ending


class InMove(NamedTuple):
    """The parts of the name of a directory that belongs to a move."""

    partition: TopicPartition
    mark: str
    suffix: str
    """FUTURE or MOVED."""


def in_move(name: str) -> InMove | None:
    """Return the parts of the name of a copy or of a moved log; None if it is another name."""
    for suffix in (FUTURE, MOVED):
        if name.endswith(suffix):
            log_name, _, mark = name.removesuffix(suffix).rpartition(".")
            partition = partition_in(log_name)
            if partition is not None and mark:
                return InMove(partition, mark, suffix)
    return None


def has_room(partition: TopicPartition) -> bool:
    """True if the partition's whole name fits into the names of a move's directories."""
    return len(name_of(partition)) + len(".") + MARK_LENGTH + len(FUTURE) <= NAME_MAX
