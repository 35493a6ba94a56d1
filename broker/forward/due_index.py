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
"""The number of small runs that are merged."""
MOST_FORGOTTEN: Final = 10_000
"""The most entries that are removed in one turn because they are over."""
_NARROW, _WIDE = "I", "q"


class Entry(NamedTuple):
    """One record that waits."""

    due_ms: int
    offset: int


Packed = tuple[int, str, bytes, int, str, bytes]
"""A sorted run of entries as times and offsets: of both the least, the type code, and differences
in the byte order of this machine."""


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

    def packed(self, at: int) -> tuple[int, str, bytes]:
        """Return the numbers from `at` on, for `unpacked`."""
        differences = self._differences
        return self._base, differences.typecode, differences[at:].tobytes()

    @classmethod
    def unpacked(cls, base: int, code: str, data: bytes) -> "_Column":
        """Return the column that was packed; raise ValueError if it cannot be."""
        if code not in (_NARROW, _WIDE):
            raise ValueError(f"a column of {code!r}")
        column = cls((base,))
        column._differences = array(code)
        column._differences.frombytes(data)
        return column

    def __len__(self) -> int:
        return len(self._differences)


class _Run:
    """Sorted entries, of which those before `at` were taken."""

    __slots__ = ("_dues", "_offsets", "_size", "at")

    def __init__(self, dues: _Column, offsets: _Column) -> None:
        if len(dues) != len(offsets):
            raise ValueError(f"{len(dues)} times of {len(offsets)} offsets")
        self._dues, self._offsets = dues, offsets
        self._size = len(dues)
        self.at = 0

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "_Run":
        """Make a run of sorted entries."""
        columns = [each.due_ms for each in entries], [each.offset for each in entries]
        return cls(*map(_Column, columns))

    def packed(self) -> Packed:
        """Return what is left of the run, for `DueIndex.add_packed`."""
        return *self._dues.packed(self.at), *self._offsets.packed(self.at)

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
                self._add_run(_Run.of(sorted(fresh)))
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
        """Remove the first entries as long as they are over, at most MOST_FORGOTTEN."""
        for _ in range(MOST_FORGOTTEN):
            first = self._first()
            if first is None or not is_over(first):
                break
            self._drop_first()

    def purge(self, is_over: Callable[[Entry], bool]) -> Iterator[None]:
        """Remove all entries that are over, one run at each step; what is over must stay so."""
        fresh = [each for each in self._fresh if not is_over(each)]
        self._size -= len(self._fresh) - len(fresh)
        heapq.heapify(fresh)
        self._fresh = fresh
        for number in [*self._runs]:
            yield
            run = self._runs.pop(number, None)
            if run is not None:
                self._heads = [head for head in self._heads if head[1] != number]
                heapq.heapify(self._heads)
                self._size -= len(run)
                kept = [each for each in run if not is_over(each)]
                if kept:
                    self._size += len(kept)
                    self._add_run(_Run.of(kept))
                self._merge_small_runs()

    def behind(self, entry: Entry) -> Iterator[Entry]:
        """Return the entries that follow this one in order; the index must not change meanwhile."""
        fresh = sorted(each for each in self._fresh if each > entry)
        return heapq.merge(fresh, *(run.behind(entry) for run in self._runs.values()))

    def packed(self) -> Iterator[Packed]:
        """Return all entries in sorted runs; the index must not change meanwhile."""
        if self._fresh:
            yield _Run.of(sorted(self._fresh)).packed()
        for run in self._runs.values():
            yield run.packed()

    def add_packed(self, packed: Packed) -> None:
        """Add a run from `packed`; raise ValueError if it cannot be one."""
        run = _Run(_Column.unpacked(*packed[:3]), _Column.unpacked(*packed[3:]))
        if run:
            self._add_run(run)
            self._size += len(run)

    def _add_run(self, run: _Run) -> None:
        self._count += 1
        self._runs[self._count] = run
        heapq.heappush(self._heads, (run[run.at], self._count))

    def _merge_small_runs(self) -> None:
        small = {number: run for number, run in self._runs.items() if len(run) < SMALL_RUN}
        if len(small) < SMALL_RUNS:
            return
        for number in small:
            del self._runs[number]
        self._heads = [head for head in self._heads if head[1] not in small]
        heapq.heapify(self._heads)
        merged = sorted(entry for run in small.values() for entry in run)
        for at in range(0, len(merged), RUN_ENTRIES):
            self._add_run(_Run.of(merged[at : at + RUN_ENTRIES]))

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
