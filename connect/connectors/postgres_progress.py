"""Transactions of PostgreSQL on their way: what was handed out, and what is in its topics.

The offset of a record is the position of its transaction's commit, and the record's number in it.
The server is told that it may forget a transaction only after all of it is in its topics.
"""

from typing import Any, NamedTuple


class Position(NamedTuple):
    """A record's place: positions are compared in this order."""

    lsn: int
    """The position of the transaction's commit in the write-ahead log."""
    event: int
    """The number of the record in its transaction, from 1."""

    def offset(self) -> dict[str, Any]:
        """Return the offset of the record."""
        return {"lsn": self.lsn, "event": self.event}


class _Transaction:
    """Records that are not in their topics yet, and the end of the transaction once it is known."""

    def __init__(self) -> None:
        self.open_records = 0
        self.end_lsn: int | None = None


class Progress:
    """The transactions that are on their way."""

    def __init__(self, handed_out: Position, confirmed: int) -> None:
        self._handed_out = handed_out
        self.confirmed = confirmed
        """The server may forget what ends before this position."""
        self._at = handed_out
        self._open: dict[int, _Transaction] = {}

    @property
    def is_idle(self) -> bool:
        """True if everything that was received is in its topics."""
        return not self._open

    def begin(self, lsn: int) -> None:
        """A transaction begins, perhaps once more after the connection was lost."""
        self._at = Position(lsn, 0)
        self._open.setdefault(lsn, _Transaction())

    def next(self) -> Position | None:
        """Return the position of the next record; None if it was handed out before."""
        self._at = Position(self._at.lsn, self._at.event + 1)
        if self._at <= self._handed_out:
            return None
        self._handed_out = self._at
        self._open[self._at.lsn].open_records += 1
        return self._at

    def end(self, end_lsn: int) -> None:
        """The transaction that began last ends."""
        self._open[self._at.lsn].end_lsn = end_lsn
        self._settle()

    def arrived(self, lsn: int) -> None:
        """A record of this transaction is in its topic."""
        found = self._open.get(lsn)
        if found is not None:
            found.open_records -= 1
            self._settle()

    def reached(self, lsn: int) -> None:
        """Note that the server has nothing more for us before this position."""
        if self.is_idle:
            self.confirmed = max(self.confirmed, lsn)

    def _settle(self) -> None:
        while self._open:
            first = next(iter(self._open))
            oldest = self._open[first]
            if oldest.open_records or oldest.end_lsn is None:
                return
            self.confirmed = max(self.confirmed, oldest.end_lsn)
            del self._open[first]
