"""Decoder of PostgreSQL's logical replication messages, plugin pgoutput, protocol version 1.

Source: PostgreSQL's manual, "Logical Replication Message Formats". Values stay texts.
"""

from struct import Struct, error
from typing import NamedTuple

from ...runtime.errors import MinikafkaError

Tuple = tuple["str | Unchanged | None", ...]
_BEGIN, _COMMIT, _TRUNCATE = Struct(">qqi"), Struct(">bqqq"), Struct(">ib")
_INT16, _INT32, _COLUMN = Struct(">h"), Struct(">i"), Struct(">ii")


class BadMessage(MinikafkaError):
    """Bytes are no message of pgoutput; the message says which."""


class Unchanged(NamedTuple):
    """A large value that the update left as it was, and that is not sent (TOAST)."""


UNCHANGED = Unchanged()


class Column(NamedTuple):
    """A column of a relation."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table as it is for the changes that follow; sent again after DDL."""

    oid: int
    schema: str
    name: str
    has_full_identity: bool
    """True with REPLICA IDENTITY FULL: changes tell the whole old row."""
    columns: tuple[Column, ...]


class Begin(NamedTuple):
    """The begin of a transaction that has committed."""

    commit_lsn: int
    commit_us: int
    """Microseconds since 2000-01-01 UTC."""
    xid: int


class Commit(NamedTuple):
    """The end of a transaction."""

    end_lsn: int


class Change(NamedTuple):
    """A row that was inserted, updated or deleted."""

    kind: str
    """`I`, `U` or `D`."""
    relation: int
    old: Tuple | None
    """The old row, or its key with None in the other columns; None if neither is sent."""
    new: Tuple | None


class Truncate(NamedTuple):
    """Tables that were emptied."""

    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate


class _Bytes:
    """A message from its front to its back."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 1

    def take(self, form: Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._data, self._at)
        self._at += form.size
        return values

    def kind(self) -> str:
        self._at += 1
        return chr(self._data[self._at - 1])

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        text = self._data[self._at : end].decode()
        self._at = end + 1
        return text

    def row(self) -> Tuple:
        (count,) = self.take(_INT16)
        return tuple(self._value() for _ in range(count))

    def _value(self) -> "str | Unchanged | None":
        kind = self.kind()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        if kind != "t":
            raise BadMessage(f"a value of kind {kind!r} is not known")
        (length,) = self.take(_INT32)
        self._at += length
        if self._at > len(self._data):
            raise BadMessage("a value ends behind its message")
        return self._data[self._at - length : self._at].decode()


def decode(data: bytes) -> Message | None:
    """Return the message, None for those that say nothing of rows. Raise BadMessage."""
    try:
        return _decode(chr(data[0]), _Bytes(data))
    except (error, IndexError, ValueError) as fault:
        raise BadMessage(f"no message of pgoutput: {fault}") from None


def _decode(kind: str, left: _Bytes) -> Message | None:
    if kind == "B":
        return Begin(*left.take(_BEGIN))
    if kind == "C":
        return Commit(left.take(_COMMIT)[2])
    if kind == "R":
        return _relation(left)
    if kind in "IUD":
        (relation,) = left.take(_INT32)
        part = left.kind()
        old = left.row() if part in "KO" else None
        if kind == "D":
            return Change(kind, relation, old, None)
        if part != "N" and left.kind() != "N":
            raise BadMessage("a change without a new row")
        return Change(kind, relation, old, left.row())
    if kind == "T":
        count, _ = left.take(_TRUNCATE)
        return Truncate(tuple(left.take(_INT32)[0] for _ in range(count)))
    if kind in "YOM":
        return None
    raise BadMessage(f"a message of kind {kind!r} is not known")


def _relation(left: _Bytes) -> Relation:
    (oid,) = left.take(_INT32)
    schema, name, identity = left.text(), left.text(), left.kind()
    (count,) = left.take(_INT16)
    columns = []
    for _ in range(count):
        is_key = left.kind() == "\x01"
        column, (kind, modifier) = left.text(), left.take(_COLUMN)
        columns.append(Column(column, kind, modifier, is_key))
    return Relation(oid, schema, name, identity == "f", tuple(columns))
