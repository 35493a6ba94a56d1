"""The partitions hosted on this broker, and how metadata changes them.

Only maps, creates and retires them: a partition owns itself.
"""

from collections.abc import Iterator

from ..protocol.errors import ErrorCode
from .partition import Partition


class Partitions:
    """The partitions of this broker, by topic id and index."""

    def get(self, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """The replica here, or why there is none to use."""
        raise NotImplementedError

    def find(self, topic: str, index: int) -> Partition | ErrorCode:
        """The same by the topic's name, for requests that carry no ids."""
        raise NotImplementedError

    def write_staged(self) -> None:
        """Write what was appended since the last call: one writev per dirty partition.

        Call it at the end of every read event, before any answer. Every staged `Appended` is
        final for acks=1 afterwards.
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[Partition]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
