"""Finds the batches of a fetch that belong to aborted transactions, by the rule of KIP-98.

Pure, and the only place of this rule among those who read. Never looks into a batch: who does
tells of the markers.
"""

from collections.abc import Iterable
from typing import Final

from ...protocol.records.record_batch import BatchHeader
from ..records import AbortedTransaction

_ABORT: Final = 0


class AbortedBatches:
    """A producer's batches do not count from its aborted transaction to its next abort marker."""

    __slots__ = ("_producers", "_waiting")

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(transactions, key=lambda each: -each.first_offset)
        self._producers: dict[int, None] = {}

    def covers(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction, and so does not count.

        The caller asks for every batch, in the order of the log.
        """
        while self._waiting and self._waiting[-1].first_offset <= header.base_offset:
            self._producers[self._waiting.pop().producer_id] = None
        return (
            header.is_transactional
            and not header.is_control
            and header.producer_id in self._producers
        )

    def on_marker(self, producer_id: int, key: bytes | None) -> None:
        """A control batch of this producer passed; `key` is that of its record."""
        # Version int16, type int16.
        if key is not None and int.from_bytes(key[2:4], "big") == _ABORT:
            self._producers.pop(producer_id, None)

    def not_begun(self) -> tuple[AbortedTransaction, ...]:
        """Give the transactions that begin behind the last batch asked for."""
        return tuple(reversed(self._waiting))
