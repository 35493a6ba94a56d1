"""The label text of each partition of this broker, made once and kept as long as the partition.

Pure.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from ...runtime.metrics import labels
from ..partition.partition import Partition

T = TypeVar("T")
Row = tuple[str, Partition]
"""The labels of a partition in braces, and the partition."""


class Labelled:
    """The partitions of one broker with their labels."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        """`partitions` may change while the broker runs."""
        self._partitions = partitions
        self._tails: dict[Partition, str] = {}

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the partitions that exist now, with labels; make labels for new ones."""
        here, tails = list(self._partitions), self._tails
        if len(tails) > len(here):
            kept = ((each, tails.get(each)) for each in here)
            tails = self._tails = {each: tail for each, tail in kept if tail is not None}
        for partition in here:
            tail = tails.get(partition)
            if tail is None:
                tail = labels(topic=partition.topic, partition=partition.index)
                tails[partition] = tail
            yield tail, partition


@lru_cache(maxsize=20_000)
def of_topic(topic: str) -> str:
    """Return the labels of a topic."""
    return labels(topic=topic)


def keep(walk: Iterable[T], rows: list[T]) -> Iterator[T]:
    """Yield the items of `walk`, and add them to `rows` for the metrics that come after.

    So the walk is done while the first metric is written, in slices.
    """
    for row in walk:
        rows.append(row)
        yield row
