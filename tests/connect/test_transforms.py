"""Each transformation on structs, maps, nulls and nested values, after Kafka's own examples."""

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest

from minikafka.connect import data
from minikafka.connect.config_def import BadConfig
from minikafka.connect.data import DataError, Schema, array, decimal, map_of, struct
from minikafka.connect.records import Header, SinkRecord
from minikafka.connect.values import to_float32
from minikafka.protocol.types import TopicPartition

from .pipeline_support import source

NO = object()
"""The transformation refuses the record."""
FLAT = struct({"id": data.INT64, "name": data.STRING.as_optional()}, name="Customer")
NESTED = struct({"id": data.INT64, "at": struct({"city": data.STRING, "zip": data.INT32})})
OPT = data.STRING.as_optional()
BIRTH = datetime(2001, 2, 3, 4, 5, 6, 789_000, UTC)
BIRTH_MS = 981_173_106_789


def made(name: str, **settings: str) -> Any:
    module, _, cls = name.partition(":")
    transformation = getattr(import_module(f"minikafka.connect.transforms.{module}"), cls)()
    transformation.configure({key.replace("_", "."): text for key, text in settings.items()})
    return transformation


def changed(transformation: Any, schema: Schema | None, value: Any) -> Any:
    """Apply it to a value; return its new schema and value, or NO."""
    record = source(value, value_schema=schema, partition=3, timestamp_ms=BIRTH_MS)
    try:
        found = transformation.apply(record)
    except DataError:
        return NO
    assert (record.value, record.value_schema) == (value, schema)
    return found.value_schema, found.value


Case = tuple[str, dict[str, str], Schema | None, Any, Any]
CAST = "cast:CastValue"
EXTRACT = "extract_field:ExtractFieldValue"
FLATTEN = "flatten:FlattenValue"
HEADERS = "header_from:HeaderFromValue"
HOIST = "hoist_field:HoistFieldValue"
INSERT = "insert_field:InsertFieldValue"
MASK = "mask_field:MaskFieldValue"
REPLACE = "replace_field:ReplaceFieldValue"
NAME = "set_schema_metadata:SetSchemaMetadataValue"
TIMES = "timestamp_converter:TimestampConverterValue"
V2 = {"field": "at.city", "field_syntax_version": "V2"}
INSERTED = {
    "topic_field": "topic!",
    "partition_field": "partition",
    "timestamp_field": "time?",
    "static_field": "site",
    "static_value": "x",
}
PLACES = {
    "topic": data.STRING,
    "partition": data.INT32.as_optional(),
    "time": data.TIMESTAMP_SCHEMA.as_optional(),
    "site": OPT,
}
CITY = {"id": 1, "at": {"city": "Bonn", "zip": 5}}

CASES: list[Case] = [
    # ------------------------------------------------------------------------------- Cast
    (CAST, {"spec": "int8"}, data.INT32, 300, (data.INT8, 44)),
    (CAST, {"spec": "int8"}, None, 300, (None, 44)),
    (CAST, {"spec": "int8"}, data.INT32.as_optional(), None, (data.INT32.as_optional(), None)),
    (CAST, {"spec": "int64"}, decimal(2), Decimal("-1.99"), (data.INT64, -1)),
    (CAST, {"spec": "string"}, data.DATE_SCHEMA, date(2001, 2, 3), (data.STRING, "2001-02-03")),
    (CAST, {"spec": "int64"}, data.TIMESTAMP_SCHEMA, BIRTH, (data.INT64, BIRTH_MS)),
    (CAST, {"spec": "int8"}, array(data.INT8), [1], NO),
    (CAST, {"spec": "int8"}, None, {"a": 1}, NO),
    (
        CAST,
        {"spec": "id:string,name:boolean"},
        FLAT,
        {"id": 1, "name": "TRUE"},
        (
            struct({"id": data.STRING, "name": data.BOOLEAN.as_optional()}, name="Customer"),
            {"id": "1", "name": True},
        ),
    ),
    (CAST, {"spec": "a:int8,b:string"}, None, {"a": "7"}, (None, {"a": 7, "b": None})),
    (CAST, {"spec": "a:int8"}, None, None, (None, None)),
    (CAST, {"spec": "a:int8"}, None, {"a": "x"}, NO),
    (CAST, {"spec": "at:string"}, NESTED, CITY, NO),
    # ----------------------------------------------------------------------- ExtractField
    (EXTRACT, {"field": "name"}, FLAT, {"id": 1, "name": "a"}, (OPT, "a")),
    (EXTRACT, {"field": "name"}, FLAT, None, (OPT, None)),
    (EXTRACT, {"field": "none"}, FLAT, {"id": 1}, NO),
    (EXTRACT, {"field": "a"}, None, {"a": 1}, (None, 1)),
    (EXTRACT, {"field": "none"}, None, {"a": 1}, (None, None)),
    (EXTRACT, {"field": "a"}, None, None, (None, None)),
    (EXTRACT, {"field": "a"}, None, 5, NO),
    (EXTRACT, V2, NESTED, CITY, (data.STRING, "Bonn")),
    (EXTRACT, V2, None, CITY, (None, "Bonn")),
    (EXTRACT, V2, None, {"at": None}, (None, None)),
    (EXTRACT, {"field": "at.city"}, None, {"at.city": "x", **CITY}, (None, "x")),
    # ---------------------------------------------------------------------------- Flatten
    (
        FLATTEN,
        {},
        NESTED,
        CITY,
        (
            struct({"id": data.INT64, "at.city": data.STRING, "at.zip": data.INT32}),
            {"id": 1, "at.city": "Bonn", "at.zip": 5},
        ),
    ),
    (FLATTEN, {"delimiter": "#"}, None, CITY, (None, {"id": 1, "at#city": "Bonn", "at#zip": 5})),
    (FLATTEN, {}, None, {"a": None, "b": {"c": [1]}}, (None, {"a": None, "b.c": [1]})),
    (FLATTEN, {}, None, None, (None, None)),
    (FLATTEN, {}, FLAT, None, (FLAT, None)),
    (FLATTEN, {}, None, 42, NO),
    (FLATTEN, {}, data.INT32, 42, NO),
    (FLATTEN, {}, struct({"m": map_of(data.STRING, data.INT8)}), {"m": {}}, NO),
    (
        FLATTEN,
        {},
        struct({"b": replace(struct({"c": data.INT32}), optional=True)}),
        {"b": None},
        (struct({"b.c": data.INT32.as_optional()}), {"b.c": None}),
    ),
    # ------------------------------------------------------------------------- HoistField
    (HOIST, {"field": "magic"}, data.INT32, 42, (struct({"magic": data.INT32}), {"magic": 42})),
    (HOIST, {"field": "magic"}, None, 42, (None, {"magic": 42})),
    (HOIST, {"field": "magic"}, None, None, (None, {"magic": None})),
    (HOIST, {"field": "magic"}, OPT, None, (struct({"magic": OPT}), {"magic": None})),
    # ------------------------------------------------------------------------ InsertField
    (
        INSERT,
        INSERTED,
        FLAT,
        {"id": 1, "name": None},
        (
            struct({**dict(FLAT.fields), **PLACES}, name="Customer"),
            {
                "id": 1,
                "name": None,
                "topic": "orders",
                "partition": 3,
                "time": BIRTH,
                "site": "x",
            },
        ),
    ),
    (
        INSERT,
        INSERTED,
        None,
        {"a": 1},
        (None, {"a": 1, "topic": "orders", "partition": 3, "time": BIRTH_MS, "site": "x"}),
    ),
    (INSERT, INSERTED, None, None, (None, None)),
    (INSERT, INSERTED, FLAT, None, (FLAT, None)),
    (INSERT, INSERTED, data.INT32, 42, NO),
    (INSERT, {"offset_field": "offset"}, None, {}, NO),  # of a source there is none
    # -------------------------------------------------------------------------- MaskField
    (MASK, {"fields": "name"}, FLAT, {"id": 1, "name": "a"}, (FLAT, {"id": 1, "name": ""})),
    (
        MASK,
        {"fields": "id,name", "replacement": "7"},
        FLAT,
        {"id": 1, "name": None},
        (FLAT, {"id": 7, "name": None}),
    ),
    (
        MASK,
        {"fields": "i,f,b,s,l,m,d,t,none"},
        None,
        {
            "i": 5,
            "f": 1.5,
            "b": True,
            "s": "x",
            "l": [1],
            "m": {"a": 1},
            "d": Decimal(5),
            "t": BIRTH,
            "other": 1,
        },
        (
            None,
            {
                "i": 0,
                "f": 0.0,
                "b": False,
                "s": "",
                "l": [],
                "m": {},
                "d": Decimal(0),
                "t": datetime(1970, 1, 1, tzinfo=UTC),
                "other": 1,
                "none": None,
            },
        ),
    ),
    (MASK, {"fields": "a"}, None, {"a": b"x"}, NO),
    (MASK, {"fields": "at"}, NESTED, CITY, NO),
    (MASK, {"fields": "a", "replacement": "x"}, None, {"a": 1}, NO),
    (MASK, {"fields": "a", "replacement": "x"}, None, {"a": True}, NO),
    (MASK, {"fields": "a"}, None, None, NO),
    # ----------------------------------------------------------------------- ReplaceField
    (
        REPLACE,
        {"exclude": "name", "renames": "id:key"},
        FLAT,
        {"id": 1, "name": "a"},
        (struct({"key": data.INT64}, name="Customer"), {"key": 1}),
    ),
    (REPLACE, {"include": "a,b", "exclude": "b"}, None, {"a": 1, "b": 2, "c": 3}, (None, {"a": 1})),
    (REPLACE, {"renames": "a:b"}, None, {"a": 1, "x": {"a": 2}}, (None, {"b": 1, "x": {"a": 2}})),
    (REPLACE, {"exclude": "a"}, FLAT, None, (FLAT, None)),
    (REPLACE, {"exclude": "a"}, None, 42, NO),
    # ------------------------------------------------------------------ SetSchemaMetadata
    (
        NAME,
        {"schema_name": "foo", "schema_version": "42"},
        FLAT,
        {"id": 1},
        (replace(FLAT, name="foo", version=42), {"id": 1}),
    ),
    (NAME, {"schema_version": "42"}, FLAT, None, (replace(FLAT, version=42), None)),
    (NAME, {"schema_name": "foo"}, None, None, (None, None)),
    (NAME, {"schema_name": "foo"}, None, {"a": 1}, NO),
    # ----------------------------------------------------------------- TimestampConverter
    (TIMES, {"target_type": "unix"}, data.TIMESTAMP_SCHEMA, BIRTH, (data.INT64, BIRTH_MS)),
    (TIMES, {"target_type": "unix"}, None, BIRTH, (None, BIRTH_MS)),
    (
        TIMES,
        {"target_type": "unix", "unix_precision": "nanoseconds"},
        None,
        BIRTH,
        (None, BIRTH_MS * 10**6),
    ),
    (
        TIMES,
        {"target_type": "Timestamp", "unix_precision": "microseconds"},
        None,
        -1_999,
        (None, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ),
    (TIMES, {"target_type": "Date"}, data.INT64, BIRTH_MS, (data.DATE_SCHEMA, BIRTH.date())),
    (TIMES, {"target_type": "Time"}, data.INT64, BIRTH_MS, (data.TIME_SCHEMA, BIRTH.time())),
    (
        TIMES,
        {"target_type": "Timestamp"},
        None,
        date(2001, 2, 3),
        (None, BIRTH.replace(hour=0, minute=0, second=0, microsecond=0)),
    ),
    (
        TIMES,
        {"target_type": "unix"},
        data.TIME_SCHEMA.as_optional(),
        time(0, 0, 1),
        (data.INT64.as_optional(), 1000),
    ),
    (
        TIMES,
        {"target_type": "Timestamp", "format": "yyyy MM dd HH mm ss SSS z"},
        data.STRING,
        "2001 02 03 04 05 06 789 UTC",
        (data.TIMESTAMP_SCHEMA, BIRTH),
    ),
    (
        TIMES,
        {"target_type": "string", "format": "yyyy-MM-dd", "field": "at"},
        struct({"at": data.TIMESTAMP_SCHEMA, "o": data.STRING}, name="n"),
        {"at": BIRTH, "o": "x"},
        (struct({"at": data.STRING, "o": data.STRING}, name="n"), {"at": "2001-02-03", "o": "x"}),
    ),
    (
        TIMES,
        {"target_type": "Date", "field": "at"},
        None,
        {"at": BIRTH_MS, "o": 1},
        (None, {"at": BIRTH.date(), "o": 1}),
    ),
    (TIMES, {"target_type": "unix"}, OPT, None, (data.INT64.as_optional(), None)),
    (TIMES, {"target_type": "unix", "field": "a"}, None, None, (None, None)),
    (TIMES, {"target_type": "unix", "field": "a"}, data.INT64, 1, NO),
    (TIMES, {"target_type": "unix"}, None, "2001", NO),
    (TIMES, {"target_type": "unix"}, data.INT32, 5, NO),
    (TIMES, {"target_type": "unix"}, None, 1.5, NO),
    (TIMES, {"target_type": "Date"}, None, 10**17, NO),
]


@pytest.mark.parametrize(
    ("name", "settings", "schema", "value", "expected"),
    CASES,
    ids=[f"{case[0].partition(':')[0]}-{at}" for at, case in enumerate(CASES)],
)
def test_x_25_a_transformation_does_as_in_kafkas_examples(
    name: str, settings: dict[str, str], schema: Schema | None, value: Any, expected: Any
) -> None:
    transformation = made(name, **settings)
    for _ in range(2):  # the second time with the schema that it has kept
        assert changed(transformation, schema, value) == expected


BOTH = sorted({case[0].removesuffix("Value") for case in CASES} | {"header_from:HeaderFrom"})
SETTINGS = {
    "cast:Cast": {"spec": "id:string"},
    "extract_field:ExtractField": {"field": "id"},
    "flatten:Flatten": {},
    "header_from:HeaderFrom": {"fields": "id", "headers": "h", "operation": "move"},
    "hoist_field:HoistField": {"field": "f"},
    "insert_field:InsertField": {"topic_field": "t"},
    "mask_field:MaskField": {"fields": "id"},
    "replace_field:ReplaceField": {"exclude": "id"},
    "set_schema_metadata:SetSchemaMetadata": {"schema_name": "n"},
    "timestamp_converter:TimestampConverter": {"target_type": "Date", "field": "id"},
}


@pytest.mark.parametrize("name", BOTH)
def test_x_25_the_key_variant_does_to_keys_what_the_other_does_to_values(name: str) -> None:
    value, schema = {"id": 1, "name": "a"}, FLAT
    of_value = made(f"{name}Value", **SETTINGS[name]).apply(source(value, value_schema=schema))
    record = source("v", key=value, key_schema=schema)
    of_key = made(f"{name}Key", **SETTINGS[name]).apply(record)
    assert (of_key.key_schema, of_key.key) == (of_value.value_schema, of_value.value)
    assert (of_key.value_schema, of_key.value) == (None, "v")


def test_x_25_fields_become_headers() -> None:
    settings = {"fields": "id,name", "headers": "h1,h2", "operation": "move"}
    before = Header("was", 0)
    record = source({"id": 1, "name": "a"}, value_schema=FLAT, headers=(before,))
    moved = made(HEADERS, **settings).apply(record)
    assert moved.headers == (before, Header("h1", 1, data.INT64), Header("h2", "a", OPT))
    assert (moved.value, moved.value_schema) == ({}, struct({}, name="Customer"))
    copied = made(HEADERS, **{**settings, "operation": "copy"}).apply(record)
    assert (copied.headers, copied.value, copied.value_schema) == (
        *(moved.headers, record.value, FLAT),
    )
    plain = made(HEADERS, **settings).apply(source({"id": 1, "x": 2}))
    assert (plain.headers, plain.value) == ((Header("h1", 1), Header("h2", None)), {"x": 2})
    for refused in (source(None), source({"id": 1}, value_schema=struct({"id": data.INT8}))):
        with pytest.raises(DataError):
            made(HEADERS, **settings).apply(refused)


def test_x_25_headers_are_inserted_and_dropped() -> None:
    record = source("v", headers=(Header("a", 1), Header("b", 2), Header("a", 3)))
    inserted = made("insert_header:InsertHeader", header="a", value_literal="4761").apply(record)
    assert inserted.headers == (*record.headers, Header("a", 4761, data.INT16))
    dropped = made("drop_headers:DropHeaders", headers="a,none").apply(inserted)
    assert dropped.headers == (Header("b", 2),)
    assert made("drop_headers:DropHeaders", headers="x").apply(record) is record
    literal = "{3.4: 4761, -5.9: -9753186420}"
    found = made("insert_header:InsertHeader", header="m", value_literal=literal).apply(record)
    assert found.headers[-1] == Header(
        "m",
        {to_float32(3.4): 4761, to_float32(-5.9): -9753186420},
        map_of(data.FLOAT32, data.INT64),
    )


def test_x_25_a_key_is_made_of_the_value() -> None:
    transformation = made("value_to_key:ValueToKey", fields="a,b")
    schemas = {"a": data.INT32, "b": OPT}
    record = source({"a": 1, "b": "x", "c": 3}, value_schema=struct({**schemas, "c": data.INT8}))
    found = transformation.apply(record)
    assert (found.key_schema, found.key) == (struct(schemas), {"a": 1, "b": "x"})
    assert (found.value_schema, found.value) == (record.value_schema, record.value)
    plain = transformation.apply(source({"a": 1}, key="old", key_schema=data.STRING))
    assert (plain.key_schema, plain.key) == (None, {"a": 1, "b": None})
    for refused in (source(None), source({"a": 1}, value_schema=struct({"a": data.INT32}))):
        with pytest.raises(DataError):
            transformation.apply(refused)


def test_x_25_a_sink_record_has_an_offset_to_insert() -> None:
    record = SinkRecord(topic="t", value={}, partition=1, offset=42, origin=TopicPartition("t", 1))
    assert made(INSERT, offset_field="o").apply(record).value == {"o": 42}


def test_x_25_what_a_record_has_not_is_not_inserted() -> None:
    transformation = made(INSERT, partition_field="p", timestamp_field="t")
    for schema in (None, struct({"a": data.INT8})):
        assert transformation.apply(source({"a": 1}, value_schema=schema)).value == {"a": 1}


def test_x_25_topics_are_renamed_by_pattern_and_by_time() -> None:
    at = source("v", topic="test", timestamp_ms=1_483_425_001_864)
    route = made("timestamp_router:TimestampRouter")
    assert route.apply(at).topic == "test-20170103"
    named = made(
        "timestamp_router:TimestampRouter",
        topic_format="a-${timestamp}/${topic}",
        timestamp_format="yy'w'HH",
    )
    assert named.apply(at).topic == "a-17w06/test"
    with pytest.raises(DataError, match="Timestamp missing"):
        route.apply(source("v"))


@pytest.mark.parametrize(("replaces", "expected"), [("true", "d"), ("false", None)])
def test_x_27_a_null_is_read_as_its_default_or_stays_null(replaces: str, expected: Any) -> None:
    default = OPT.with_default("d")
    schema = struct({"a": default, "b": data.INT8})
    value = {"a": None, "b": 1}
    also = {"replace_null_with_default": replaces}
    assert changed(made(EXTRACT, field="a", **also), schema, value) == (default, expected)
    for name, settings in (
        (INSERT, {"topic_field": "t"}),
        (CAST, {"spec": "b:string"}),
        (MASK, {"fields": "b"}),
        (REPLACE, {"renames": "b:c"}),
        (TIMES, {"field": "none", "target_type": "unix"}),
    ):
        assert changed(made(name, **settings, **also), schema, value)[1]["a"] == expected
    moved = made(HEADERS, fields="a", headers="h", operation="copy", **also)
    record = source(value, value_schema=schema)
    assert moved.apply(record).headers[0].value == expected
    key = made("value_to_key:ValueToKey", fields="a", **also).apply(record).key
    assert key == {"a": expected}


def test_x_25_flattened_fields_take_over_defaults_from_around_them() -> None:
    inner = struct({"req": data.STRING, "opt": OPT.with_default("own")}, optional=True)
    schema = struct({"in": inner.with_default({"req": "outer"})})
    found = changed(made(FLATTEN), schema, {"in": None})
    assert found == (
        struct({"in.req": OPT.with_default("outer"), "in.opt": OPT.with_default("own")}),
        {"in.req": "outer", "in.opt": "own"},
    )


def test_x_25_defaults_are_cast_too() -> None:
    schema = struct({"a": data.INT32.with_default(7)}).with_default({"a": 9})
    found, value = changed(made(CAST, spec="a:string"), schema, {"a": 1})
    assert (found.fields[0].schema.default, found.default, value) == ("7", {"a": "9"}, {"a": "1"})


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (2**31, "int32", -(2**31)),
        (-129, "int8", 127),
        (1e20, "int64", 2**63 - 1),
        (1e20, "int8", -1),
        (float("nan"), "int32", 0),
        (-1.9, "int16", -1),
        (True, "int8", 1),
        ("+7", "int64", 7),
        ("128", "int8", NO),
        ("1.5", "int8", NO),
        (" 1", "int8", NO),
        ("1_0", "int32", NO),
        (" 1.5e3 ", "float64", 1500.0),
        ("1.5f", "float32", 1.5),
        ("-Infinity", "float64", float("-inf")),
        ("abc", "float64", NO),
        (0.1, "float32", to_float32(0.1)),
        (10**400, "float64", float("inf")),
        (0.5, "boolean", False),
        (-3, "boolean", True),
        ("True", "boolean", True),
        ("yes", "boolean", False),
        (1e7, "string", "1.0E7"),
        (True, "string", "true"),
        (b"ab", "string", "YWI="),
        (b"ab", "int8", NO),
        (Decimal("1E+9999"), "int8", NO),
        (time(0, 0, 1), "int32", 1000),
    ],
)
def test_x_27_values_are_cast_with_the_bounds_of_java(
    value: Any, target: str, expected: Any
) -> None:
    found = changed(made(CAST, spec=target), None, value)
    assert found == (NO if expected is NO else (None, expected))


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        (CAST, {}, '"spec"'),
        (CAST, {"spec": ""}, "at least one field"),
        (CAST, {"spec": "int5"}, "none of int8"),
        (CAST, {"spec": "a:bytes"}, "none of int8"),
        (CAST, {"spec": "a:int8,int8"}, "not of the form"),
        (EXTRACT, {"field": "`a", "field_syntax_version": "V2"}, "Incomplete backtick pair"),
        (EXTRACT, {"field": "a", "field_syntax_version": "V3"}, "V1, V2"),
        (HEADERS, {"fields": "a", "headers": "a,b", "operation": "move"}, "same number"),
        (HEADERS, {"fields": "a", "headers": "a", "operation": "drop"}, "move, copy"),
        (INSERT, {}, "No field insertion configured"),
        (INSERT, {"static_field": "a"}, "needs static.value"),
        (MASK, {"fields": ""}, "at least one"),
        (MASK, {"fields": "a", "replacement": ""}, "not be empty"),
        (NAME, {}, "Neither schema name nor version"),
        (REPLACE, {"renames": "a"}, "not of the form"),
        (TIMES, {"target_type": "date"}, "string, unix"),
        (TIMES, {"target_type": "string"}, "needs a format"),
        (TIMES, {"target_type": "unix", "unix_precision": "hours"}, "seconds"),
        ("insert_header:InsertHeader", {"header": "", "value_literal": "x"}, "not be empty"),
    ],
)
def test_a_wrong_setting_is_refused(name: str, settings: dict[str, str], why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        made(name, **settings)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ["a"]),
        ("a.b.c", ["a", "b", "c"]),
        ("`a.b`.c", ["a.b", "c"]),
        ("a.`b.c`", ["a", "b.c"]),
        ("`a`b`.c", ["a`b", "c"]),
        (r"`a\`.b`.c", ["a`.b", "c"]),
        ("a.", ["a", ""]),
        ("", [""]),
    ],
)
def test_x_25_a_path_leads_into_nested_fields(path: str, names: list[str]) -> None:
    transformation = made(EXTRACT, field=path, field_syntax_version="V2")
    value: Any = 7
    for name in reversed(names):
        value = {name: value}
    assert changed(transformation, None, value) == (None, 7)
