from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.api import ConnectError
from minikafka.connect.connectors.pgoutput import (
    UNCHANGED,
    BadMessage,
    Begin,
    Change,
    Column,
    Commit,
    Relation,
    Truncate,
    Unchanged,
    decode,
)
from minikafka.connect.connectors.postgres_progress import Position, Progress
from minikafka.connect.connectors.postgres_rows import form_of

Values = Sequence[str | Unchanged | None]


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def row(values: Values) -> bytes:
    def one(value: str | Unchanged | None) -> bytes:
        if value is None or isinstance(value, Unchanged):
            return b"n" if value is None else b"u"
        return b"t" + pack(">i", len(value.encode())) + value.encode()

    return pack(">h", len(values)) + b"".join(map(one, values))


COLUMNS = (Column("id", 23, -1, True), Column("näme", 25, -1, False))
RELATION = (
    b"R" + pack(">i", 7) + text("public") + text("t") + b"f" + pack(">h", 2)
    + b"\x01" + text("id") + pack(">ii", 23, -1) + b"\x00" + text("näme") + pack(">ii", 25, -1)
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"B" + pack(">qqi", 5, 6, 7), Begin(5, 6, 7)),
        (b"C" + pack(">bqqq", 0, 5, 9, 6), Commit(9)),
        (RELATION, Relation(7, "public", "t", True, COLUMNS)),
        (b"T" + pack(">ibii", 2, 0, 7, 8), Truncate((7, 8))),
        (b"O" + pack(">q", 1) + text("origin"), None),
    ],
)  # fmt: skip
def test_messages_are_decoded(data: bytes, message: object) -> None:
    assert decode(data) == message


TEXTS = st.lists(st.none() | st.just(UNCHANGED) | st.text(), max_size=5)


@given(st.sampled_from("IUD"), st.none() | st.tuples(st.sampled_from("KO"), TEXTS), TEXTS)
def test_changes_are_decoded(kind: str, old: tuple[str, Values] | None, new: Values) -> None:
    data = kind.encode() + pack(">i", 7)
    if kind == "D":
        part, values = old or ("K", new)
        data += part.encode() + row(values)
        assert decode(data) == Change("D", 7, tuple(values), None)
        return
    if old is not None:
        data += old[0].encode() + row(old[1])
    data += b"N" + row(new)
    assert decode(data) == Change(kind, 7, None if old is None else tuple(old[1]), tuple(new))


@given(st.binary(max_size=60) | st.integers(0, len(RELATION) - 1).map(lambda n: RELATION[:n]))
def test_bytes_that_are_no_message_raise_nothing_else(data: bytes) -> None:
    with suppress(BadMessage):
        decode(data)


@pytest.mark.parametrize("data", [b"", b"X", b"B123", RELATION[:-1], b"I\0\0\0\7N\0\1t\0\0\0\5abc"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(data)


def test_values_of_rows() -> None:
    columns = {
        "id": 20, "price": 1700, "big": 1700, "name": 25, "raw": 17, "day": 1082, "at": 1184,
    }  # fmt: skip
    relation = Relation(
        1, "s", "t", False,
        tuple(
            Column(name, oid, (12 << 16 | 2) + 4 if name == "price" else -1, name == "id")
            for name, oid in columns.items()
        ),
    )  # fmt: skip
    form = form_of(relation)
    values = ("1", "1.5", "1.50", UNCHANGED, UNCHANGED, "2026-01-02", "2026-01-02 03:00:00+02")
    row = form.row(values, None, "?")
    assert row == {
        "id": 1, "price": Decimal("1.50"), "big": "1.50", "name": "?", "raw": b"?",
        "day": date(2026, 1, 2), "at": datetime(2026, 1, 2, 1, tzinfo=UTC),
    }  # fmt: skip
    assert form.key(row) == {"id": 1}
    old = (*values[:3], "before", "\\x00", "infinity", "0044-03-15 12:00:00+00 BC")
    assert form.row(values, old, "?")["name"] == "before"
    assert form.row(old, None, "?")["at"] == datetime.min.replace(tzinfo=UTC)
    assert form.row(old, None, "?")["day"] == date.max
    with pytest.raises(ConnectError, match="REPLICA IDENTITY FULL"):
        form.row(("1", UNCHANGED, *values[2:]), None, "?")
    with pytest.raises(ConnectError, match=r"column price of s\.t has a value that has no form"):
        form.row(("1", "NaN%", *values[2:]), None, "?")


def test_a_transaction_is_confirmed_when_all_of_it_and_of_those_before_has_arrived() -> None:
    progress = Progress(Position(0, 0), 0)
    for lsn in (10, 20, 30):
        progress.begin(lsn)
        for _ in range(2 if lsn != 20 else 0):
            progress.next()
        if lsn != 30:
            progress.end(lsn + 5)
    progress.arrived(10)
    progress.reached(99)
    assert progress.confirmed == 0
    progress.arrived(10)
    assert progress.confirmed == 25
    progress.arrived(30)
    progress.arrived(30)
    assert progress.confirmed == 25
    progress.end(35)
    assert (progress.confirmed, progress.is_idle) == (35, True)
    progress.reached(99)
    assert progress.confirmed == 99


def test_what_was_handed_out_before_is_left_out_when_it_comes_again() -> None:
    progress = Progress(Position(10, 1), 0)
    progress.begin(5)
    assert progress.next() is None
    progress.end(6)
    progress.begin(10)
    assert [progress.next(), progress.next()] == [None, Position(10, 2)]
    progress.begin(10)  # over another connection
    assert [progress.next() for _ in range(3)] == [None, None, Position(10, 3)]
    progress.end(11)
    progress.arrived(10)
    assert progress.confirmed == 6
    progress.arrived(10)
    assert progress.confirmed == 11


def test_values_at_the_ends_of_their_types_have_a_form() -> None:
    digits = "1234567890123456789012345678.1234567890"
    columns = (Column("price", 1700, ((38 << 16) | 10) + 4, False), Column("at", 1083, -1, False))
    form = form_of(Relation(1, "public", "t", False, columns))
    row = form.row((digits, "24:00:00"), None, "")
    assert row == {"price": Decimal(digits), "at": time.max}
