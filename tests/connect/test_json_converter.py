"""JsonConverter: the bytes of Kafka's, both ways, and what is refused."""

import json
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect import data
from minikafka.connect.config_def import BadConfig
from minikafka.connect.converters.json import JsonConverter
from minikafka.connect.data import DataError, Schema, SchemaType, array, decimal, map_of, struct
from minikafka.connect.logical import from_milliseconds
from minikafka.connect.schema_cache import SchemaCache
from minikafka.connect.values import to_float32

POINT = struct({"x": data.INT32, "label": data.STRING.as_optional()}, name="Point")


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({key.replace("_", "."): value for key, value in settings.items()})
    return made


WITH_SCHEMA = converter()
PLAIN = converter(schemas_enable="false")
NUMERIC = converter(decimal_format="numeric")


def envelope(data_: bytes | None) -> tuple[Any, Any]:
    assert data_ is not None
    found = json.loads(data_, parse_float=str)
    return found["schema"], found["payload"]


@pytest.mark.parametrize(
    ("schema", "value", "schema_json", "payload"),
    [
        (data.BOOLEAN, True, {"type": "boolean", "optional": False}, True),
        (data.INT8, -12, {"type": "int8", "optional": False}, -12),
        (data.INT16, 12, {"type": "int16", "optional": False}, 12),
        (data.INT32, 12, {"type": "int32", "optional": False}, 12),
        (
            data.INT64,
            4398046511104,
            {"type": "int64", "optional": False},
            4398046511104,
        ),
        (data.FLOAT32, to_float32(12.34), {"type": "float", "optional": False}, "12.34"),
        (data.FLOAT64, 1e10, {"type": "double", "optional": False}, "1.0E10"),
        (data.FLOAT32, float("-inf"), {"type": "float", "optional": False}, "-Infinity"),
        (data.BYTES, b"test-string", {"type": "bytes", "optional": False}, "dGVzdC1zdHJpbmc="),
        (data.STRING, "tëst", {"type": "string", "optional": False}, "tëst"),
        (
            array(data.INT32),
            [1, 2, 3],
            {
                "type": "array",
                "items": {"type": "int32", "optional": False},
                "optional": False,
            },
            [1, 2, 3],
        ),
        (
            map_of(data.STRING, data.INT32),
            {"key1": 12},
            {
                "type": "map",
                "keys": {"type": "string", "optional": False},
                "values": {"type": "int32", "optional": False},
                "optional": False,
            },
            {"key1": 12},
        ),
        (
            map_of(data.INT32, data.INT32),
            {1: 12, 2: 15},
            {
                "type": "map",
                "keys": {"type": "int32", "optional": False},
                "values": {"type": "int32", "optional": False},
                "optional": False,
            },
            [[1, 12], [2, 15]],
        ),
        (
            POINT,
            {"x": 1, "label": None},
            {
                "type": "struct",
                "fields": [
                    {"type": "int32", "optional": False, "field": "x"},
                    {"type": "string", "optional": True, "field": "label"},
                ],
                "optional": False,
                "name": "Point",
            },
            {"x": 1, "label": None},
        ),
        (
            decimal(2),
            Decimal("1.56"),
            {
                "type": "bytes",
                "optional": False,
                "name": data.DECIMAL,
                "version": 1,
                "parameters": {"scale": "2"},
            },
            "AJw=",
        ),
        (
            data.DATE_SCHEMA,
            date(1997, 1, 1),
            {"type": "int32", "optional": False, "name": data.DATE, "version": 1},
            9862,
        ),
        (
            data.TIME_SCHEMA,
            time(0, 0, 14, 400_000),
            {"type": "int32", "optional": False, "name": data.TIME, "version": 1},
            14_400,
        ),
        (
            data.TIMESTAMP_SCHEMA,
            datetime(1970, 1, 24, 20, 31, 23, 647_000, UTC),
            {"type": "int64", "optional": False, "name": data.TIMESTAMP, "version": 1},
            2_061_083_647,
        ),
    ],
    ids=lambda value: value.name or value.type.value if isinstance(value, Schema) else "",
)
def test_x_28_each_type_travels_in_an_envelope_and_back(
    schema: Schema, value: Any, schema_json: Any, payload: Any
) -> None:
    written = WITH_SCHEMA.from_connect("t", schema, value)
    assert envelope(written) == (schema_json, payload)
    assert list(envelope(written)[0]) == list(schema_json)
    for _ in range(2):  # parsed, then known by its first bytes
        assert WITH_SCHEMA.to_connect("t", written) == (schema, value)


def test_x_28_numeric_decimals_are_exact() -> None:
    schema = decimal(4)
    value = Decimal("12345678901234567890123456789012345.6789")
    written = NUMERIC.from_connect("t", schema, value)
    assert envelope(written)[1] == str(value)
    assert NUMERIC.to_connect("t", written) == (schema, value)
    assert WITH_SCHEMA.to_connect("t", written) == (schema, value)  # either form is read
    assert NUMERIC.to_connect("t", WITH_SCHEMA.from_connect("t", schema, value))[1] == value


def test_x_28_a_decimal_takes_the_scale_of_its_schema_or_is_refused() -> None:
    written = NUMERIC.from_connect("t", decimal(2), Decimal("1.5"))
    assert envelope(written)[1] == "1.50"
    with pytest.raises(DataError, match="more than 2 digits after the point"):
        WITH_SCHEMA.from_connect("t", decimal(2), Decimal("1.567"))
    with pytest.raises(DataError, match="no finite decimal"):
        WITH_SCHEMA.from_connect("t", decimal(2), Decimal("NaN"))
    with pytest.raises(DataError, match="more than 4000 digits"):
        WITH_SCHEMA.from_connect("t", decimal(2), Decimal("1e999999"))


def test_a_null_is_the_default_or_stays_null() -> None:
    schema = struct({"a": data.STRING.as_optional().with_default("d")})
    kept = converter(replace_null_with_default="false")
    assert envelope(WITH_SCHEMA.from_connect("t", schema, {"a": None}))[1] == {"a": "d"}
    written = kept.from_connect("t", schema, {"a": None})
    assert envelope(written)[1] == {"a": None}
    assert kept.to_connect("t", written) == (schema, {"a": None})
    assert WITH_SCHEMA.to_connect("t", written) == (schema, {"a": "d"})


def test_null_without_schema_is_a_tombstone_both_ways() -> None:
    for each in (WITH_SCHEMA, PLAIN):
        assert each.from_connect("t", None, None) is None
        assert each.to_connect("t", None) == (None, None)
    written = WITH_SCHEMA.from_connect("t", data.STRING.as_optional(), None)
    assert envelope(written) == ({"type": "string", "optional": True}, None)


def test_plain_json_has_rules_for_what_json_lacks() -> None:
    value = {
        "bytes": b"ab",
        "pairs": {1: "x"},
        "decimal": Decimal("1.10"),
        "day": date(2020, 1, 2),
        "at": datetime(2020, 1, 2, 3, 4, 5, 6000),
        "nan": float("nan"),
        "list": [1, None, True, (2.5,)],
    }
    assert PLAIN.from_connect("t", None, value) == (
        b'{"bytes":"YWI=","pairs":[[1,"x"]],"decimal":1.10,"day":"2020-01-02",'
        b'"at":"2020-01-02T03:04:05.006Z","nan":"NaN","list":[1,null,true,[2.5]]}'
    )
    assert PLAIN.to_connect("t", b'{"a": [1, 2.5, null]}') == (None, {"a": [1, 2.5, None]})
    assert PLAIN.from_connect("t", POINT, {"x": 1}) == b'{"x":1,"label":null}'


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"{", "no JSON"),
        (b"", "no JSON"),
        (b"\xff", "no UTF-8, at byte 0"),
        (b"NaN", "NaN is not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":1}', "set schemas.enable=false"),
        (b'{"schema":{"type":"int32"},"payload":1,"more":2}', "schemas.enable"),
        (b'{"schema":{"type":"int33"},"payload":1}', "int8, int16"),
        (b'{"schema":{"type":"array"},"payload":[]}', '"items"'),
        (b'{"schema":{"type":"struct"},"payload":{}}', '"fields"'),
        (b'{"schema":{"type":"struct","fields":[{"type":"int32"}]},"payload":{}}', '"field"'),
        (b'{"schema":{"type":"int32"},"payload":"1"}', "int32 expected"),
        (b'{"schema":{"type":"int32"},"payload":1.5}', "int32 expected"),
        (b'{"schema":{"type":"int8"},"payload":128}', "does not fit into int8"),
        (b'{"schema":{"type":"boolean"},"payload":0}', "boolean expected"),
        (b'{"schema":{"type":"int32"},"payload":null}', "required int32"),
        (b'{"schema":{"type":"bytes"},"payload":"?"}', "base64"),
        (
            b'{"schema":{"type":"struct","fields":[{"type":"int32","field":"x"}]},"payload":{"x":"a"}}',
            "x: int32 expected",
        ),
    ],
)
def test_bytes_that_are_no_envelope_are_refused(sent: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        WITH_SCHEMA.to_connect("t", sent)


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (data.INT8, 128, "does not fit"),
        (data.INT32, True, "int32 expected"),
        (data.FLOAT32, 1e39, "does not fit into float"),
        (data.STRING, b"a", "string expected"),
        (data.STRING, None, "required string"),
        (POINT, {"label": "a"}, "x: null in place of a required int32"),
        (POINT, {"x": 1, "y": 2}, "no field 'y'"),
        (data.DATE_SCHEMA, datetime(2020, 1, 1), "date expected"),
        (None, object(), "type object"),
        (None, "\ud800", "surrogate"),
    ],
)
def test_values_that_do_not_fit_their_schema_are_refused(
    schema: Schema | None, value: Any, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        WITH_SCHEMA.from_connect("t", schema, value)


def test_a_damaged_payload_behind_a_known_schema_is_refused() -> None:
    each = converter()
    each.to_connect("t", b'{"schema":{"type":"int32"},"payload":1}')
    assert each.to_connect("t", b'{"schema":{"type":"int32"},"payload":2}')[1] == 2
    with pytest.raises(DataError, match="alone"):
        each.to_connect("t", b'{"schema":{"type":"int32"},"payload":2,"x":1}')
    with pytest.raises(DataError, match="no JSON"):
        each.to_connect("t", b'{"schema":{"type":"int32"},"payload":22')


@pytest.mark.parametrize(
    ("value", "base64"), [("-1.28", "gA=="), ("1.27", "fw=="), ("1.28", "AIA="), ("0", "AA==")]
)
def test_x_28_a_decimal_has_as_few_bytes_as_in_java(value: str, base64: str) -> None:
    written = WITH_SCHEMA.from_connect("t", decimal(2), Decimal(value))
    assert envelope(written)[1] == base64


def test_what_is_made_of_schemas_is_kept_up_to_a_number() -> None:
    built: list[Schema] = []
    cache = SchemaCache(2, lambda schema: built.append(schema) or len(built))  # type: ignore[func-returns-value]
    one, two, three = (Schema(SchemaType.INT32, version=version) for version in range(3))
    assert [cache.get(each) for each in (one, one, Schema(SchemaType.INT32, version=0))] == [1] * 3
    assert [cache.get(each) for each in (two, three, one)] == [2, 3, 4]


def test_the_cache_of_schemas_takes_equal_ones_and_those_without_hash() -> None:
    each = converter(schemas_cache_size="2")
    for version in range(10):
        schema = Schema(SchemaType.INT32, version=version)
        assert each.to_connect("t", each.from_connect("t", schema, 1)) == (schema, 1)
    unhashable = array(data.INT32).with_default([1])
    assert each.to_connect("t", each.from_connect("t", unhashable, None)) == (unhashable, [1])


def test_a_schema_travels_to_the_process_of_a_task() -> None:
    assert pickle.loads(pickle.dumps(POINT)) == POINT


def test_settings_are_checked() -> None:
    with pytest.raises(BadConfig, match="BASE64 or NUMERIC"):
        converter(decimal_format="text")


# ---------------------------------------------------------------------------------- any value

_SIMPLE = [
    (data.BOOLEAN, st.booleans()),
    (data.INT8, st.integers(-(2**7), 2**7 - 1)),
    (data.INT64, st.integers(-(2**63), 2**63 - 1)),
    (data.FLOAT32, st.floats(width=32, allow_nan=False)),
    (data.FLOAT64, st.floats(allow_nan=False)),
    (data.STRING, st.text()),
    (data.BYTES, st.binary()),
    (decimal(3), st.decimals(allow_nan=False, allow_infinity=False, places=3)),
    (data.DATE_SCHEMA, st.dates()),
    (data.TIMESTAMP_SCHEMA, st.integers(-(10**13), 10**13).map(from_milliseconds)),
]
Pair = tuple[Schema, Any]


def _pairs(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        inner.map(lambda p: (array(p[0]), [p[1], p[1]])),
        st.tuples(st.text(), inner).map(lambda p: (map_of(data.STRING, p[1][0]), {p[0]: p[1][1]})),
        inner.map(lambda p: (map_of(data.INT64, p[0].as_optional()), {1: p[1], 2: None})),
        st.dictionaries(st.text(), inner, max_size=4).map(
            lambda fields: (
                struct({name: schema for name, (schema, _) in fields.items()}),
                {name: value for name, (_, value) in fields.items()},
            )
        ),
    )


PAIRS: st.SearchStrategy[Pair] = st.recursive(
    st.one_of(*(st.tuples(st.just(schema), values) for schema, values in _SIMPLE)), _pairs
)


@given(PAIRS, st.booleans())
def test_x_28_any_value_with_a_schema_comes_back(pair: Pair, numeric: bool) -> None:
    schema, value = pair
    each = NUMERIC if numeric else WITH_SCHEMA
    written = each.from_connect("t", schema, value)
    assert each.to_connect("t", written) == (schema, value)
    assert each.from_connect("t", *each.to_connect("t", written)) == written


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_x_28_any_json_without_schema_comes_back(value: Any) -> None:
    written = PLAIN.from_connect("t", None, value)
    assert PLAIN.to_connect("t", written) == (None, value)
    assert written is None or json.loads(written) == value


@given(st.binary())
def test_no_bytes_end_in_another_error(sent: bytes) -> None:
    for each in (PLAIN, WITH_SCHEMA):
        with suppress(DataError):
            each.to_connect("t", sent)
