"""Finds the batches that compaction removes for transactions: aborted ones and spent markers.

Pure. The walk is given every batch of the log in order. A marker is spent when no batch of its
transaction is left before it, because then no reader from the start needs it (KIP-98).

    batch                                     outcome
    of an aborted transaction                 dropped
    of any other                              compacted as usual
    marker, batches of its transaction met    stays
    marker, none met                          spent: goes when its delete horizon has passed
"""

from collections.abc import Iterable

from ...protocol.records.record_batch import BatchHeader
from ..aborted import AbortedTransaction


class TransactionWalk:
    """A walk over the batches of a log, and the transactions that it has met so far."""

    __slots__ = ("_aborted", "_met", "_next", "_open")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda each: each.first_offset)
        self._next = 0
        self._open: dict[int, AbortedTransaction] = {}
        self._met: dict[int, None] = {}
        """The producers of batches met whose marker has not been met yet, by producer id."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process the next data batch; return True if it belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._met[header.producer_id] = None
        while self._next < len(self._aborted):
            begun = self._aborted[self._next]
            if begun.first_offset > header.last_offset:
                break
            self._open[begun.producer_id] = begun
            self._next += 1
        begun_by = self._open.get(header.producer_id)
        return begun_by is not None and (
            begun_by.first_offset <= header.base_offset <= begun_by.last_offset
        )

    def is_spent(self, header: BatchHeader) -> bool:
        """Process the next marker; return True if no batch of its transaction was met before."""
        self._open.pop(header.producer_id, None)
        if header.producer_id not in self._met:
            return True
        del self._met[header.producer_id]
        return False
