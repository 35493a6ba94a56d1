"""The records of one source partition that wait, in the order in which they are due.

Pure. New entries go to a small heap. When it is full, it becomes a sorted run of 16 bytes an entry,
and the heads of all runs are a heap of their own. So an entry costs one sort among some thousands
and one step of each heap, however many wait and in whatever order they came.
"""

import heapq
from array import array
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

RUN_ENTRIES: Final = 8_192


class Entry(NamedTuple):
    """One record that waits."""

    due_ms: int
    offset: int


class _Run:
    """Sorted entries, of which those before `at` were taken."""

    __slots__ = ("at", "dues", "offsets")

    def __init__(self, entries: list[Entry]) -> None:
        entries.sort()
        self.dues = array("q", [each.due_ms for each in entries])
        self.offsets = array("q", [each.offset for each in entries])
        self.at = 0

    @property
    def head(self) -> Entry:
        return Entry(self.dues[self.at], self.offsets[self.at])


class DueIndex:
    """Entries by time and offset."""

    __slots__ = ("_count", "_fresh", "_heads", "_runs")

    def __init__(self) -> None:
        self._fresh: list[Entry] = []
        self._heads: list[tuple[Entry, int]] = []
        """The next entry of each run, with the run's number: a heap."""
        self._runs: dict[int, _Run] = {}
        self._count = 0

    def __len__(self) -> int:
        return sum(len(run.dues) - run.at for run in self._runs.values()) + len(self._fresh)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries, in any order."""
        for entry in entries:
            heapq.heappush(self._fresh, entry)
            if len(self._fresh) == RUN_ENTRIES:
                run, self._fresh = _Run(self._fresh), []
                self._count += 1
                self._runs[self._count] = run
                heapq.heappush(self._heads, (run.head, self._count))

    @property
    def next_due_ms(self) -> int | None:
        """The earliest time of an entry; None if there is none."""
        first = self._first()
        return None if first is None else first.due_ms

    def take(self, up_to_ms: int, most: int) -> list[Entry]:
        """Remove and return the first entries that are due at `up_to_ms`, at most so many."""
        taken: list[Entry] = []
        while len(taken) < most:
            first = self._first()
            if first is None or first.due_ms > up_to_ms:
                break
            taken.append(first)
            self._drop_first()
        return taken

    def forget(self, is_settled: Callable[[int], bool]) -> None:
        """Remove the first entries as long as their offsets are settled."""
        while (first := self._first()) is not None and is_settled(first.offset):
            self._drop_first()

    def _drop_first(self) -> None:
        if self._fresh and self._fresh[0] is self._first():
            heapq.heappop(self._fresh)
            return
        _, number = self._heads[0]
        run = self._runs[number]
        run.at += 1
        if run.at < len(run.dues):
            heapq.heapreplace(self._heads, (run.head, number))
        else:
            heapq.heappop(self._heads)
            del self._runs[number]

    def _first(self) -> Entry | None:
        fresh = self._fresh[0] if self._fresh else None
        if self._heads and (fresh is None or self._heads[0][0] < fresh):
            return self._heads[0][0]
        return fresh
