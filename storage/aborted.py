"""The index of aborted transactions of one segment, and Kafka's `.txnindex` file.

Pure. An entry belongs to the segment that holds the transaction's marker; the records of the
transaction may be in earlier segments. Entries are kept in memory as in the file: 34 bytes each,
big-endian, in the order of the markers:

    version i16 = 0 | producer_id i64 | first_offset i64 | last_offset i64 (of the marker)
    | last_stable_offset i64 (once the transaction had ended)

A segment without aborted transactions has no file. Compaction keeps exactly the entries whose
markers it keeps, in the segment that the marker goes to: an entry without its marker would hide
what the producer wrote afterwards. A marker is removed only when no batch of its transaction is
left.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .segment import Segment

_ENTRY = Struct(">hqqqq")
ABORTED_ENTRY = _ENTRY.size
_VERSION = 0
_LAST_OFFSET = Struct(">q")
_LAST_OFFSET_AT = 18


class AbortedTransaction(NamedTuple):
    """A transaction of one producer in one partition, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the transaction's marker."""
    last_stable_offset: int
    """The last stable offset once this transaction had ended: the first offset of the oldest
    transaction still open, or the offset after the marker."""


class AbortedIndex:
    """The entries of one segment."""

    __slots__ = ("_entries", "is_saved")

    def __init__(self) -> None:
        self._entries = bytearray()
        self.is_saved = False
        """True if the file holds all entries in memory."""

    def __len__(self) -> int:
        return len(self._entries) // ABORTED_ENTRY

    def __getitem__(self, at: int) -> AbortedTransaction:
        """Return the entry at an index from 0 on; raise IndexError if there is none."""
        if not 0 <= at < len(self):
            raise IndexError(at)
        return AbortedTransaction(*_ENTRY.unpack_from(self._entries, at * ABORTED_ENTRY)[1:])

    def add(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker is after all others."""
        self._entries += _ENTRY.pack(_VERSION, *aborted)
        self.is_saved = False

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose marker is at `offset` or later: they are open again."""
        at = self._first_ending_at(offset) * ABORTED_ENTRY
        if at < len(self._entries):
            del self._entries[at:]
            self.is_saved = False

    def collect(self, start: int, end: int, into: list[AbortedTransaction]) -> bool:
        """Append to `into` the transactions that begin below `end` and end at or after `start`.

        Return True if every later transaction begins at or after `end`, and False if later segments
        may have more.
        """
        for at in range(self._first_ending_at(start), len(self)):
            aborted = self[at]
            if aborted.first_offset < end:
                into.append(aborted)
            if aborted.last_stable_offset >= end:
                return True
        return False

    def since(self, offset: int) -> list[AbortedTransaction]:
        """Return the transactions whose marker is at `offset` or later."""
        return [self[at] for at in range(self._first_ending_at(offset), len(self))]

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return bytes(self._entries)

    @classmethod
    def decode(
        cls, data: bytes, base_offset: int, next_offset: int | None
    ) -> "AbortedIndex | None":
        """Read the contents of a file; None if they are malformed or do not fit these bounds.

        The markers must be at or after `base_offset`, and below `next_offset` unless it is None.
        """
        if len(data) % ABORTED_ENTRY:
            return None
        before = base_offset - 1
        for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data):
            is_ordered = before < last and first <= last and stable <= last + 1
            if version != _VERSION or producer_id < 0 or first < 0 or not is_ordered:
                return None
            before = last
        if next_offset is not None and before >= next_offset:
            return None
        index = cls()
        index._entries = bytearray(data)
        index.is_saved = True
        return index

    def _first_ending_at(self, offset: int) -> int:
        """Return the index of the first entry whose marker is at `offset` or later."""
        entries = self._entries

        def last_offset(at: int) -> int:
            return int(_LAST_OFFSET.unpack_from(entries, at * ABORTED_ENTRY + _LAST_OFFSET_AT)[0])

        return bisect_left(range(len(self)), offset, key=last_offset)


def aborted_between(
    segments: "Sequence[Segment]", start: int, end: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions with records from `start` up to, not including, `end`.

    They are sorted by first offset. Their markers are at or after `start`, in any segment.
    """
    found: list[AbortedTransaction] = []
    at = max(bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1, 0)
    for segment in segments[at:]:
        index = segment.aborted.index
        if index is not None and index.collect(start, end, found):
            break
    found.sort(key=lambda aborted: aborted.first_offset)
    return found
