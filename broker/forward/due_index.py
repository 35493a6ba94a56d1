"""The records of one source partition that wait, in the order in which they are due.

Pure. New entries go to a small heap. When it is full, it becomes a sorted run of 8 bytes an entry,
and the heads of all runs are a heap of their own. So an entry costs one sort among some thousands
and one step of each heap, however many wait and in whatever order they came. Runs that are almost
used up are merged, so that the memory is that of what waits.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

RUN_ENTRIES: Final = 8_192
SMALL_RUN: Final = RUN_ENTRIES // 8
"""A run with fewer entries left is small."""
SMALL_RUNS: Final = 16
"""The number of small runs that are merged to one."""
_NARROW, _WIDE = "I", "q"


class Entry(NamedTuple):
    """One record that waits."""

    due_ms: int
    offset: int


class _Column:
    """Numbers as differences to the least of them: of 4 bytes if they fit, else of 8."""

    __slots__ = ("_base", "_differences")

    def __init__(self, numbers: Sequence[int]) -> None:
        self._base = min(numbers)
        code = _NARROW if max(numbers) - self._base < 1 << 32 else _WIDE
        self._differences = array(code, [each - self._base for each in numbers])

    def __getitem__(self, index: int) -> int:
        return self._base + self._differences[index]

    def drop(self, count: int) -> None:
        """Remove the first numbers."""
        del self._differences[:count]


class _Run:
    """Sorted entries, of which those before `at` were taken."""

    __slots__ = ("_dues", "_offsets", "_size", "at")

    def __init__(self, entries: list[Entry]) -> None:
        self._dues = _Column([each.due_ms for each in entries])
        self._offsets = _Column([each.offset for each in entries])
        self._size = len(entries)
        self.at = 0

    def __len__(self) -> int:
        return self._size - self.at

    def __getitem__(self, index: int) -> Entry:
        return Entry(self._dues[index], self._offsets[index])

    def __iter__(self) -> Iterator[Entry]:
        return map(self.__getitem__, range(self.at, self._size))

    def behind(self, entry: Entry) -> Iterator[Entry]:
        """Return the entries that follow this one, which need not be here."""
        start = bisect_right(range(self._size), entry, lo=self.at, key=self.__getitem__)
        return map(self.__getitem__, range(start, self._size))

    def step(self) -> None:
        """Take the first entry."""
        self.at += 1
        if 2 * self.at > self._size > SMALL_RUN:
            self._dues.drop(self.at)
            self._offsets.drop(self.at)
            self._size, self.at = self._size - self.at, 0


class DueIndex:
    """Entries by time and offset."""

    __slots__ = ("_count", "_fresh", "_heads", "_runs", "_size")

    def __init__(self) -> None:
        self._fresh: list[Entry] = []
        self._heads: list[tuple[Entry, int]] = []
        """The next entry of each run, with the run's number: a heap."""
        self._runs: dict[int, _Run] = {}
        self._count = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, entries: Iterable[Entry]) -> None:
        """Add entries, in any order."""
        for entry in entries:
            heapq.heappush(self._fresh, entry)
            self._size += 1
            if len(self._fresh) == RUN_ENTRIES:
                fresh, self._fresh = self._fresh, []
                self._add_run(fresh)
                self._merge_small_runs()

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

    def forget(self, is_over: Callable[[Entry], bool]) -> None:
        """Remove the first entries as long as they are over."""
        while (first := self._first()) is not None and is_over(first):
            self._drop_first()

    def behind(self, entry: Entry) -> Iterator[Entry]:
        """Return the entries that follow this one in order; the index must not change meanwhile."""
        fresh = sorted(each for each in self._fresh if each > entry)
        return heapq.merge(fresh, *(run.behind(entry) for run in self._runs.values()))

    def _add_run(self, entries: list[Entry]) -> None:
        entries.sort()
        self._count += 1
        self._runs[self._count] = _Run(entries)
        heapq.heappush(self._heads, (entries[0], self._count))

    def _merge_small_runs(self) -> None:
        small = {number: run for number, run in self._runs.items() if len(run) < SMALL_RUN}
        if len(small) < SMALL_RUNS:
            return
        for number in small:
            del self._runs[number]
        self._heads = [head for head in self._heads if head[1] not in small]
        heapq.heapify(self._heads)
        self._add_run([entry for run in small.values() for entry in run])

    def _drop_first(self) -> None:
        self._size -= 1
        if self._fresh and self._fresh[0] is self._first():
            heapq.heappop(self._fresh)
            return
        _, number = self._heads[0]
        run = self._runs[number]
        run.step()
        if run:
            heapq.heapreplace(self._heads, (run[run.at], number))
        else:
            heapq.heappop(self._heads)
            del self._runs[number]

    def _first(self) -> Entry | None:
        fresh = self._fresh[0] if self._fresh else None
        if self._heads and (fresh is None or self._heads[0][0] < fresh):
            return self._heads[0][0]
        return fresh
