"""Notes which dead letters of a partition are settled: requeued, or discarded.

Pure. It is kept as a committed offset of a group: the letters below are settled, and the commit's
metadata names those above that are settled too, so that letters can be taken out of the middle.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Self

from ..group_types import OffsetAndMetadata

METADATA_BYTES: Final = 4_096
"""The most bytes of metadata that brokers take with a committed offset, by default."""
_VERSION: Final = "1;"


class TooManyGaps(ValueError):
    """Raised if settled and open letters alternate so often that a commit cannot name them."""


class LetterProgress:
    """The settled letters of one partition."""

    def __init__(self, first_open: int = 0) -> None:
        self._first_open = first_open
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def first_open(self) -> int:
        """The lowest offset that is not settled."""
        return self._first_open

    def is_open(self, offset: int) -> bool:
        """Return whether the letter at this offset is not settled."""
        if offset < self._first_open:
            return False
        at = bisect_right(self._starts, offset) - 1
        return at < 0 or offset >= self._ends[at]

    def settle(self, start: int, end: int) -> None:
        """Settle the offsets from `start` to before `end`; such as are settled stay so."""
        if end <= max(start, self._first_open):
            return
        low = bisect_right(self._ends, start - 1)  # the first run that reaches to `start`
        high = bisect_right(self._starts, end)  # those before it begin within, or next to, the end
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]
        if self._starts[0] <= self._first_open:
            self._first_open = self._ends.pop(0)
            self._starts.pop(0)

    def to_commit(self) -> OffsetAndMetadata:
        """Return what a group commits; raise TooManyGaps if its metadata is too long."""
        text = _VERSION + ",".join(self._pairs()) if self._starts else ""
        if len(text) > METADATA_BYTES:
            raise TooManyGaps(
                f"{len(self._starts)} runs of settled letters lie above offset {self._first_open}, "
                "too many to remember: settle that letter and those behind it first"
            )
        return OffsetAndMetadata(self._first_open, text)

    def _pairs(self) -> Iterator[str]:
        last = self._first_open
        for start, end in zip(self._starts, self._ends, strict=True):
            yield f"{start - last}.{end - start}"
            last = end

    @classmethod
    def of_commit(cls, committed: OffsetAndMetadata) -> Self:
        """Read what `to_commit` returned; raise ValueError if the metadata is something else."""
        progress = cls(committed.offset)
        text = committed.metadata
        if not text:
            return progress
        if not text.startswith(_VERSION):
            raise ValueError(f"metadata {text[:40]!r} tells nothing of dead letters")
        last = committed.offset
        for pair in text[len(_VERSION) :].split(","):
            gap, dot, length = pair.partition(".")
            if not (dot and gap.isdecimal() and length.isdecimal() and int(gap) and int(length)):
                raise ValueError(f"metadata {text[:40]!r}: {pair[:20]!r} is no run of letters")
            start = last + int(gap)
            last = start + int(length)
            progress.settle(start, last)
        return progress
