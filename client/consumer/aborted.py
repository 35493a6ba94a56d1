"""Finds the batches of a fetch that belong to aborted transactions, by the rule of KIP-98.

Pure. The caller decodes control batches and reports their markers to `on_marker`. Both the consumer
and the Spark source use `AbortedBatches`.
"""

from collections.abc import Iterable
from typing import Final

from ...protocol.records.record_batch import BatchHeader
from ..records import AbortedTransaction

_ABORT: Final = 0


class AbortedBatches:
    """Hides a producer's batches from the start of an aborted transaction to its abort marker."""

    __slots__ = ("_producers", "_waiting")

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(transactions, key=lambda each: -each.first_offset)
        self._producers: dict[int, None] = {}

    def covers(self, header: BatchHeader) -> bool:
        """True if the batch belongs to an aborted transaction, so that a reader must skip it.

        The caller passes every batch of the log, in order.
        """
        while self._waiting and self._waiting[-1].first_offset <= header.base_offset:
            self._producers[self._waiting.pop().producer_id] = None
        return (
            header.is_transactional
            and not header.is_control
            and header.producer_id in self._producers
        )

    def on_marker(self, producer_id: int, key: bytes | None) -> None:
        """Process a control batch of this producer; an abort marker ends the hiding of its batches.

        `key` is the key of the batch's only record.
        """
        # Version int16, type int16.
        if key is not None and int.from_bytes(key[2:4], "big") == _ABORT:
            self._producers.pop(producer_id, None)

    def not_begun(self) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that begin behind the last batch given to `covers`."""
        return tuple(reversed(self._waiting))
