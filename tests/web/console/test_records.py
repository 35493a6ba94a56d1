"""Records as people read them, and the filter that finds them."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.records import ConsumerRecord
from minikafka.protocol.records.record_batch import TimestampType
from minikafka.web.console.scan import Newest
from minikafka.web.console.views import avro
from minikafka.web.console.views.filters import MOST_LETTERS, BadFilter, filter_of
from minikafka.web.console.views.records import (
    FORMS,
    MOST_BYTES,
    Record,
    RecordRow,
    row_of,
    text_of,
)


def record(value: bytes | None, key: bytes | None = b"MK7", **headers: bytes) -> Record:
    return ConsumerRecord(
        "t", 0, 5, 1000, TimestampType.CREATE_TIME, key, value, tuple(headers.items())
    )


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b' {"a": [1]}', "json", '{\n  "a": [\n    1\n  ]\n}'),
        (b"{no json", "text", "{no json"),
        (msgpack.packb({"a": b"\xff"}), "msgpack", '{\n  "a": "ff"\n}'),
        ("Oslo \u00e6".encode(), "text", "Oslo \u00e6"),
        (b"7", "text", "7"),
        (b"\x00\xff\xfe", "hex", "00 ff fe"),
        (b"[" * 100_000, "text", "[" * MOST_BYTES),
        (b'"\\ud800"', "text", '"\\ud800"'),
    ],
)
def test_values_are_shown_as_what_they_are(data: bytes | None, form: str, text: str) -> None:
    shown = text_of(data)
    assert (shown.form, shown.text) == (form, text)


def test_a_key_of_eight_bytes_is_a_number_and_a_value_is_not() -> None:
    row = row_of(record((-5).to_bytes(8, signed=True), (300).to_bytes(4)), "auto")
    assert (row.key.form, row.key.text, row.value.form) == ("number", "300", "hex")


def test_a_value_that_is_not_of_the_form_that_is_wanted_is_hexadecimal() -> None:
    assert text_of(b"x", "json").form == "hex"
    assert text_of(b"12", "json").text == "12"
    assert text_of(b"\xff", "text").text == "\ufffd"
    assert text_of(b"Obj\x01 but no Avro", "avro").form == "hex"


TREE = {
    "type": "record",
    "name": "n.Tree",
    "fields": [
        {"name": "leaf", "type": {"type": "fixed", "name": "Id", "size": 4}},
        {"name": "below", "type": {"type": "array", "items": "n.Tree"}},
        {"name": "ids", "type": {"type": "array", "items": "Id"}},
        {"name": "either", "type": {"type": "array", "items": ["null", "string"]}},
    ],
}
VOID = {"type": "record", "name": "n.Void", "fields": [{"name": "a", "type": "null"}]}


def array_of(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("schema", "expands"),
    [
        ("null", False),
        (TREE, False),
        ({"type": "map", "values": "null"}, False),
        (array_of({"type": "array", "items": "int"}), False),
        (array_of("null"), True),
        (array_of({"type": "null"}), True),
        (array_of({"type": "fixed", "name": "F", "size": 0}), True),
        ([VOID, array_of("Void")], True),
        ([VOID, {**VOID, "name": "other.Void", "fields": []}, array_of("other.Void")], True),
        (array_of("never-defined"), True),
        (array_of({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}), True),
        ({"type": "map", "values": array_of(VOID)}, True),
    ],
)
def test_arrays_of_items_that_take_no_bytes_are_told_apart(schema: object, expands: bool) -> None:
    assert avro.may_expand(schema) is expands


def test_a_schema_that_is_too_deep_may_expand() -> None:
    schema: object = "int"
    for _ in range(avro.MOST_DEPTH):
        schema = array_of(schema)
    assert avro.may_expand(schema)


def test_the_newest_records_are_kept_and_large_ones_cut() -> None:
    newest = Newest(2, "auto")
    for when, size in ((5, 1), (9, 4 * MOST_BYTES), (7, 1), (6, 1)):
        newest.add(record(b"x" * size)._replace(timestamp_ms=when))
    rows = newest.rows()
    assert [(row.timestamp_ms, row.value.size, len(row.value.text)) for row in rows] == [
        (9, 4 * MOST_BYTES, MOST_BYTES),
        (7, 1, 1),
    ]
    assert [isinstance(one, RecordRow) for *_, one in newest._kept] == [False, True]


def test_a_huge_value_is_cut_and_says_so() -> None:
    shown = text_of(b"x" * (MOST_BYTES + 1))
    assert (shown.is_cut, len(shown.text), shown.size) == (True, MOST_BYTES, MOST_BYTES + 1)
    assert len(shown.brief) < 300
    middle = text_of(("\u00e6" * MOST_BYTES).encode())
    assert (middle.form, middle.is_cut) == ("text", True)


@given(st.binary(max_size=200), st.sampled_from(FORMS))
def test_no_bytes_break_the_page(data: bytes, form: str) -> None:
    row = row_of(record(data, data, h=data), form)
    assert row.value.size == len(data)
    assert isinstance(row.value.brief, str)


VALUE = json.dumps({"flight": {"number": 77, "legs": [{"to": "OSL"}]}, "late": True, "id": "5"})


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("", True),
        ("osl", True),
        ("mk7", True),
        ("trace", True),
        ("4F", True),
        ("nowhere", False),
        ("key == MK7", True),
        ('key == "MK7"', True),
        ("key != MK7", False),
        ("key contains k", True),
        ("value contains flight", True),
        ("header.trace == 4f", True),
        ("header.none == 4f", False),
        ("header.none != 4f", True),
        ("$.flight.number >= 77", True),
        ("$.flight.number < 77", False),
        ("$.flight.number > 8", True),
        ('$.flight.legs[0].to == "OSL"', True),
        ("$.flight.legs[1].to == OSL", False),
        ("$.late == true", True),
        ("$.id == 5", True),
        ("$.flight contains legs", True),
        ("$.flight.number contains 7", True),
        ("$.nothing.at.all == 1", False),
        ("$.flight > 1", False),
        ("$.late == true and key == MK7", True),
        ("$.late == true and key == other", False),
    ],
)
def test_a_filter_finds(text: str, finds: bool) -> None:
    match = filter_of(text)
    assert (match is None or match(record(VALUE.encode(), trace=b"4f"))) is finds


@pytest.mark.parametrize("value", [None, b"", b"no json", b"\xff\xfe", b"[" * 100_000])
def test_a_filter_on_json_passes_over_what_is_none(value: bytes | None) -> None:
    match = filter_of("$.a == 1")
    assert match is not None
    assert not match(record(value, None))


@pytest.mark.parametrize(
    "text",
    [
        "x" * (MOST_LETTERS + 1),
        "$.a == 1 and nonsense",
        "$..a == 1",
        "$[x] == 1",
        "$" + ".a" * 17 + " == 1",
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        filter_of(text)


@given(st.text(max_size=60), st.binary(max_size=60))
def test_no_filter_breaks_a_scan(text: str, value: bytes) -> None:
    try:
        match: Any = filter_of(text)
    except BadFilter:
        return
    assert match is None or match(record(value)) in (True, False)
