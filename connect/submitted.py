"""Keeps which source offsets may be committed: those before which all records are acknowledged.

Pure. The records of one batch of a task that share a source partition count as one: a part. Parts
of a source partition become committable in the order in which they were added, as Kafka's
SubmittedRecords does it for records.
"""

from collections import deque
from collections.abc import Iterable

from .offsets import Pair, identity


class Part:
    """The records of a batch that have the same source partition."""

    __slots__ = ("name", "pair", "pending")

    def __init__(self, pair: Pair) -> None:
        self.name = identity(pair[0])
        self.pair = pair
        """The source partition, and the offset behind the last record."""
        self.pending = 0
        """How many sends with records of this part are not acknowledged."""


class Submitted:
    """The parts that are on their way, by source partition."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Part]] = {}
        self._ready: dict[str, Pair] = {}

    def add(self, parts: Iterable[Part]) -> None:
        """Take parts in order, before their records are sent."""
        for part in parts:
            self._waiting.setdefault(part.name, deque()).append(part)

    def committable(self) -> list[Pair]:
        """Return the newest offset that may be committed, of each partition that has one."""
        for name in list(self._waiting):
            queue = self._waiting[name]
            while queue and not queue[0].pending:
                self._ready[name] = queue.popleft().pair
            if not queue:
                del self._waiting[name]
        return list(self._ready.values())

    def committed(self, pairs: Iterable[Pair]) -> None:
        """Forget offsets that are committed, unless newer ones came meanwhile."""
        for pair in pairs:
            name = identity(pair[0])
            if self._ready.get(name) is pair:
                del self._ready[name]
