"""Finds damage in a segment, off the event loop, and its exact bounds.

A damaged batch may state a wrong length. So damage reaches from the end of the last good batch to
the next place that is known to begin a good one. Nothing is changed here: `LogReader.mend`
overwrites damage with a peer's bytes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader
from .integrity import Rules, Verdict, judge, size_of_first
from .segment import Segment

WINDOW = 1 << 20

Read = Callable[[bytearray, int], Awaitable[int]]
"""Reads into a buffer from a position of the segment, off the event loop; returns the bytes
read."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not the batches that were written there."""

    segment_base: int
    position: int
    end: int
    """The bytes from `position` up to here are to be replaced."""
    first_offset: int
    next_offset: int
    """The end, exclusive, of the offsets from `first_offset` on that the damaged bytes held."""
    why: str
    segment: Segment | None = field(default=None, compare=False, repr=False)
    """The segment in which the damage was found. If another segment has replaced that one since,
    the damage is gone."""

    @property
    def size(self) -> int:
        """Bytes to be replaced."""
        return self.end - self.position

    def __str__(self) -> str:
        offsets = f"offsets {self.first_offset} to {self.next_offset - 1}"
        return f"{offsets}, bytes {self.position} to {self.end - 1}: {self.why}"


class Inspection:
    """Checks the batches of one segment and finds damage."""

    def __init__(self, segment: Segment, rules: Rules, read: Read) -> None:
        self._segment = segment
        self._rules = rules
        self._read = read

    async def windows(
        self, position: int, until: int, offset: int, *, is_exact: bool
    ) -> tuple[int, Verdict]:
        """Check the batches that begin from `position` up to, not including, `until`.

        `offset` is where the first batch must begin if `is_exact`, and is in that batch otherwise.
        Return the position where the check ended, and the last verdict, whose problem is empty if
        all batches are good.
        """
        verdict = Verdict(0, offset, "")
        while position < until and not self._segment.is_removed:
            data = await self._bytes(position, WINDOW)
            verdict = judge(data, offset, self._rules, is_exact=is_exact)
            if verdict.size == 0:
                size = size_of_first(data)
                if len(data) < size <= self._segment.size - position:
                    data = await self._bytes(position, size)
                    verdict = judge(data, offset, self._rules, is_exact=is_exact)
                if verdict.size == 0:
                    return position, verdict
            position, offset, is_exact = position + verdict.size, verdict.next_offset, True
        return position, verdict._replace(problem="")

    async def find(self, near: int) -> Damage | None:
        """Return the damage at or shortly before `near`; None if the bytes there are good."""
        segment = self._segment
        assert segment.indexes is not None
        offsets = segment.indexes.offsets
        known = [
            (segment.base_offset + last, position)
            for last, position in zip(offsets.offsets, offsets.positions, strict=True)
        ]
        starts = [(last, position) for last, position in known if position < near]
        while True:
            # Start from a batch boundary in the index, so that the lengths on the way can be
            # trusted.
            last, start = starts.pop() if starts else (segment.base_offset, 0)
            at, verdict = await self.windows(start, near + 1, last, is_exact=start == 0)
            if not verdict.problem:
                return None
            if at > start or start == 0:
                break
        if segment.is_removed:
            return None
        end, next_offset = await self._next_good(at, verdict.next_offset, known)
        due = verdict.next_offset
        why = verdict.problem
        return Damage(segment.base_offset, at, end, due, next_offset, why, segment)

    async def _next_good(self, bad: int, due: int, known: list[tuple[int, int]]) -> tuple[int, int]:
        """Return the next position after `bad` where a good batch begins, and its base offset."""
        segment = self._segment
        behind = bad + size_of_first(await self._bytes(bad, HEADER_SIZE))
        candidates = [behind] if bad < behind < segment.size else []
        candidates += [position for _, position in known if position > bad]
        for position in sorted(candidates):
            head = await self._bytes(position, HEADER_SIZE)
            size = size_of_first(head)
            if not size or size > segment.size - position:
                continue
            header = BatchHeader(head)
            if header.base_offset <= due:
                continue
            data = await self._bytes(position, size)
            if not judge(data, header.base_offset, self._rules, is_exact=True).problem:
                return position, header.base_offset
        return segment.size, segment.next_offset

    async def _bytes(self, position: int, size: int) -> memoryview:
        buffer = bytearray(max(min(size, self._segment.size - position), 0))
        is_there = buffer and not self._segment.is_removed
        count = await self._read(buffer, position) if is_there else 0
        return memoryview(buffer)[:count]
