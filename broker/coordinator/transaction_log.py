"""Appends to the shards of `__transaction_state`, and follows each append until it is settled.

This module owns the appends whose commit was not known in time. Their requests are answered with an
error, but the records stay in the log. Until the records are committed after all, or the shard is
unloaded, their transactional ids count as changing, so that no other record of the same id is
appended.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...protocol.errors import ErrorCode
from ..deadlines import Deadlines
from .shard import Done, KeyValue, Shard
from .transaction.ledger import Ledger

Settled = Callable[[bool], None]
"""Called once: with True when the records are committed, with False if they never will be."""

RETRY_MS: Final = 500
"""Milliseconds until the next check whether a late record has been committed."""
NOT_IN_LOG: Final = -1


class TransactionLog:
    """Appends the transaction coordinator's records to its shards."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def append(
        self, shard: Shard[Ledger], records: Sequence[KeyValue], settled: Settled, done: Done
    ) -> None:
        """Append a batch; `done` gets the error to answer with, `settled` whether it is committed.

        Both are called together, `settled` first. But if the commit is not known in time, `done`
        gets an error first, and `settled` is called once the commit or its failure is known.
        """
        offset = NOT_IN_LOG

        def on_appended(error: ErrorCode) -> None:
            if not error or offset == NOT_IN_LOG or not shard.is_open:
                settled(not error)
            else:
                self._settle_later(shard, offset, settled)
            done(error)

        if shard.append(records, on_appended):
            offset = shard.last_offset

    def _settle_later(self, shard: Shard[Ledger], offset: int, settled: Settled) -> None:
        def on_committed(error: ErrorCode) -> None:
            if error and shard.is_open:
                self._settle_later(shard, offset, settled)
            else:
                settled(not error)

        self._deadlines.after(RETRY_MS, lambda: shard.when_settled(offset, on_committed))
