"""Keeps the label text of each partition of this broker, and lines that seldom change.

Pure. Most values of 10,000 partitions are the same at each scrape, and keeping a line is several
times cheaper than writing it again.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...runtime.metrics import labels
from ..partition.partition import Partition
from ..replica.leader import LeaderReplica
from .standing import Standing


class Row:
    """A partition with its labels."""

    __slots__ = ("_extent", "_extent_lines", "_standing", "one", "partition", "tail", "zero")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.tail = tail = f'{_opened(partition.topic)}{partition.index}"}}'
        """The labels in braces, as in every line about the partition."""
        self.zero, self.one = f"{tail} 0\n", f"{tail} 1\n"
        """The results of `line` for the values 0 and 1, which are the most frequent ones."""
        self._standing: Standing | None = None
        self._extent = (0, 0, 0, 0)
        self._extent_lines = (self.zero,) * 4

    def line(self, value: int) -> str:
        """Return the part of a sample's line after the metric's name: the labels and this value."""
        return f"{self.tail} {value}\n" if value >> 1 else self.one if value else self.zero

    def extent(self) -> tuple[str, str, str, str]:
        """Return the lines of the log's end and start offset, its bytes and its segments."""
        log = self.partition.log
        segments = log.segments
        now = (log.log_end_offset, log.log_start_offset, segments.size_bytes, len(segments))
        if now != self._extent:
            line, (end, start, size, count) = self.line, now
            self._extent = now
            self._extent_lines = (line(end), line(start), line(size), line(count))
        return self._extent_lines

    def standing(self, leader: LeaderReplica) -> Standing:
        """Return the facts about a partition led by this broker, by its newest metadata."""
        kept = self._standing
        if kept is None or kept.metadata is not leader.metadata:
            kept = self._standing = Standing(leader, self)
        return kept


class Labelled:
    """The partitions of one broker with their labels."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """`partitions` may change while the broker runs."""
        self._partitions = partitions
        self._known: list[Partition] = []
        self._rows: list[Row] = []
        """The rows of `_known`, in the same order."""

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the present partitions, and make rows for new ones."""
        here = list(self._partitions)
        return iter(self._rows) if here == self._known else self._walk(here)

    def _walk(self, here: list[Partition]) -> Iterator[Row]:
        known = dict(zip(self._known, self._rows, strict=True))
        rows: list[Row] = []
        for partition in here:
            row = known.get(partition) or Row(partition)
            rows.append(row)
            yield row
        self._known, self._rows = here, rows


@lru_cache(maxsize=20_000)
def of_topic(topic: str) -> str:
    """Return the labels of a topic."""
    return labels(topic=topic)


@lru_cache(maxsize=20_000)
def _opened(topic: str) -> str:
    """Return the beginning of a partition's labels, up to the partition's number."""
    return f'{of_topic(topic)[:-1]},partition="'
