"""Records that are due and wait for their targets, each apart by the target it waits for.

Pure. So however many wait for one target, those of others are planned past them.

    a target partition    takes nothing for now, and enough plans are on their way to it
    the name of a topic   there is none, or records must not be forwarded to it
"""

from collections.abc import Iterable, Iterator

from ...protocol.types import TopicIdPartition
from .due_index import DueIndex, Entry

Reason = TopicIdPartition | str


class Shelves:
    """The records of one source partition that wait for targets."""

    def __init__(self) -> None:
        self._of: dict[Reason, DueIndex] = {}

    def __contains__(self, reason: Reason) -> bool:
        return reason in self._of

    def __iter__(self) -> Iterator[DueIndex]:
        return iter(self._of.values())

    @property
    def reasons(self) -> list[Reason]:
        """The reasons for which records wait, the oldest first."""
        return [*self._of]

    def add(self, reason: Reason, entries: Iterable[Entry]) -> None:
        """Let entries wait for a target."""
        self._of.setdefault(reason, DueIndex()).add(entries)

    def next_due_ms(self, reason: Reason) -> int:
        """Return when the first entry was due; by a clock that was set back it is due later."""
        due_ms = self._of[reason].next_due_ms
        assert due_ms is not None
        return due_ms

    def take(self, reason: Reason, up_to_ms: int, most: int) -> list[Entry]:
        """Remove and return the first entries that are due at `up_to_ms`, at most so many."""
        shelf = self._of[reason]
        taken = shelf.take(up_to_ms, most)
        if not len(shelf):
            del self._of[reason]
        return taken

    def give_back(self, index: DueIndex) -> None:
        """Move everything to the index."""
        shelves, self._of = self._of, {}
        for shelf in shelves.values():
            for packed in shelf.packed():
                index.add_packed(packed)
