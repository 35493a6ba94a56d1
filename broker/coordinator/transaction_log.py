"""Appends to the shards of `__transaction_state`: the answers, and the fate of the records.

Owns the records whose commit was not known in time. They are answered with an error, but stay in
the log. Until they are committed after all, or the shard is lost, nothing may be decided that would
come behind them. Knows nothing of what they mean.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...protocol.errors import ErrorCode
from ..deadlines import Deadlines
from .shard import Done, KeyValue, Shard
from .transaction.ledger import Ledger

Settled = Callable[[bool], None]
"""Called once: True when records are committed, False when they never will be."""

RETRY_MS: Final = 500
"""Before it is looked again whether a record has been committed."""
NOT_IN_LOG: Final = -1


class TransactionLog:
    """Every append of the transaction coordinator."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines

    def append(
        self, shard: Shard[Ledger], records: Sequence[KeyValue], settled: Settled, done: Done
    ) -> None:
        """Append a batch; `done` gets the error to answer with, `settled` the records' fate.

        Both at once, `settled` first, unless the commit is not known in time.
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
