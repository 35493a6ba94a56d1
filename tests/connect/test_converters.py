"""The converters of texts, bytes, numbers, booleans and headers."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect import data
from minikafka.connect.config_def import BadConfig
from minikafka.connect.converters.converter import Converter
from minikafka.connect.converters.headers import SimpleHeaderConverter
from minikafka.connect.converters.numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from minikafka.connect.converters.raw import ByteArrayConverter
from minikafka.connect.converters.text import StringConverter
from minikafka.connect.data import DataError, Schema, SchemaType, array, map_of, struct
from minikafka.connect.values import float_text, parse, text_of, to_float32

STRUCT = struct({"a": data.INT32, "b": data.STRING.as_optional()})


@pytest.mark.parametrize(
    ("converter", "value", "sent"),
    [
        (StringConverter(), "tëxt", "tëxt".encode()),
        (ByteArrayConverter(), b"\x00\xff", b"\x00\xff"),
        (ShortConverter(), -2, b"\xff\xfe"),
        (IntegerConverter(), 1, b"\x00\x00\x00\x01"),
        (LongConverter(), 2**40, b"\x00\x00\x01\x00\x00\x00\x00\x00"),
        (FloatConverter(), 1.5, b"\x3f\xc0\x00\x00"),
        (DoubleConverter(), 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (BooleanConverter(), True, b"\x01"),
        (BooleanConverter(), False, b"\x00"),
    ],
)
def test_a_value_travels_as_javas_serializer_writes_it(
    converter: Converter, value: Any, sent: bytes
) -> None:
    assert converter.from_connect("t", None, value) == sent
    schema, found = converter.to_connect("t", sent)
    assert (found, schema is not None and schema.optional) == (value, True)
    assert converter.from_connect("t", schema, None) is None
    assert converter.to_connect("t", None) == (schema, None)
    assert converter.to_header("t", "h", sent) == (schema, value)
    assert converter.from_header("t", "h", schema, value) == sent


@pytest.mark.parametrize(
    ("converter", "schema", "value"),
    [
        (ByteArrayConverter(), data.STRING, "a"),
        (ByteArrayConverter(), None, "a"),
        (StringConverter(), None, b"a"),
        (StringConverter(), None, object()),
        (StringConverter(), None, "\ud800"),
        (ShortConverter(), None, 2**15),
        (IntegerConverter(), None, "1"),
        (IntegerConverter(), None, True),
        (FloatConverter(), None, 1e300),
        (BooleanConverter(), data.INT8, 1),
        (BooleanConverter(), None, 1),
    ],
)
def test_other_values_are_refused(converter: Converter, schema: Schema | None, value: Any) -> None:
    with pytest.raises(DataError):
        converter.from_connect("t", schema, value)


@pytest.mark.parametrize(
    ("converter", "sent"),
    [
        (StringConverter(), b"a\xff"),
        (IntegerConverter(), b"\x00"),
        (LongConverter(), b""),
        (BooleanConverter(), b"\x02"),
        (BooleanConverter(), b"\x00\x00"),
    ],
)
def test_other_bytes_are_refused(converter: Converter, sent: bytes) -> None:
    with pytest.raises(DataError):
        converter.to_connect("t", sent)


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        (12, None, "12"),
        (True, None, "true"),
        (1e7, None, "1.0E7"),
        (0.1, None, "0.1"),
        (to_float32(0.1), data.FLOAT32, "0.1"),
        (Decimal("1.50"), None, "1.50"),
        ({"a": 1, "b": [1, 2]}, None, "{a=1, b=[1, 2]}"),
        ({"a": 1, "b": None}, STRUCT, "Struct{a=1}"),
        ({"a": 1, "b": "x"}, STRUCT, "Struct{a=1,b=x}"),
    ],
)
def test_a_string_converter_writes_the_text_that_java_has(
    value: Any, schema: Schema | None, text: str
) -> None:
    assert StringConverter().from_connect("t", schema, value) == text.encode()


def test_a_string_converter_has_an_encoding() -> None:
    converter = StringConverter()
    converter.configure({"converter.encoding": "ISO-8859-1"})
    assert converter.from_connect("t", None, "ë") == b"\xeb"
    assert converter.to_connect("t", b"\xeb")[1] == "ë"
    for name in ("no-such", "hex"):
        with pytest.raises(BadConfig, match=r"converter\.encoding"):
            converter.configure({"converter.encoding": name})


# -------------------------------------------------------------------------- headers (Values)


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("", data.STRING, ""),
        ("   ", data.STRING, "   "),
        ("null", None, None),
        ("true", data.BOOLEAN, True),
        (" false ", data.BOOLEAN, False),
        ("true}", data.STRING, "true}"),
        ("True", data.STRING, "True"),
        ("1", data.INT8, 1),
        ("-128", data.INT8, -128),
        ("128", data.INT16, 128),
        ("32768", data.INT32, 32768),
        ("2147483648", data.INT64, 2**31),
        ("+7", data.INT8, 7),
        ("1.0", data.INT8, 1),
        ("1e2", data.INT8, 100),
        ("9223372036854775808", data.decimal(0), Decimal(2**63)),
        ("1.5", data.FLOAT32, 1.5),
        ("3.14159", data.FLOAT32, to_float32(3.14159)),
        ("1e100", data.FLOAT64, 1e100),
        ("1e400", data.decimal(-400), Decimal("1e400")),
        ("0e999999999", data.INT8, 0),
        ("1e9999999999", data.STRING, "1e9999999999"),
        ("2019-08-23", data.DATE_SCHEMA, date(2019, 8, 23)),
        ("14:34:54.346Z", data.TIME_SCHEMA, time(14, 34, 54, 346_000)),
        ("14\\:34\\:54.346Z", data.TIME_SCHEMA, time(14, 34, 54, 346_000)),
        (
            "2019-08-23T14:34:54.346Z",
            data.TIMESTAMP_SCHEMA,
            datetime(2019, 8, 23, 14, 34, 54, 346_000, UTC),
        ),
        ("2019-02-30", data.STRING, "2019-02-30"),
        ("[]", Schema(SchemaType.ARRAY), []),
        ("[null]", Schema(SchemaType.ARRAY), [None]),
        ("[1, 2, 300]", array(data.INT16), [1, 2, 300]),
        ("[1, 2.5]", array(data.FLOAT32), [1.0, 2.5]),
        ('[1, "a"]', Schema(SchemaType.ARRAY), [1, "a"]),
        (
            '["2019-08-23", "2019-08-24"]',
            array(data.DATE_SCHEMA),
            [date(2019, 8, 23 + i) for i in (0, 1)],
        ),
        ('[1, "2019-08-23"]', Schema(SchemaType.ARRAY), [1, date(2019, 8, 23)]),
        ("[1, null]", data.STRING, "[1, null]"),
        ("[1,,2]", data.STRING, "[1,,2]"),
        ("[a, b]", data.STRING, "[a, b]"),
        ("[1", data.STRING, "[1"),
        ("{}", Schema(SchemaType.MAP), {}),
        ('{"a": 1, "b": 2000}', map_of(data.STRING, data.INT16), {"a": 1, "b": 2000}),
        ('{"a": null}', Schema(SchemaType.MAP, key_schema=data.STRING), {"a": None}),
        ('{"a": [1]}', map_of(data.STRING, array(data.INT8)), {"a": [1]}),
        ("{[1]: 2}", data.STRING, "{[1]: 2}"),
        ('{"a" 1}', data.STRING, '{"a" 1}'),
        ("three blind mice", data.STRING, "three blind mice"),
        # Here Kafka keeps only what it has understood, and loses the rest.
        ("12,abc", data.STRING, "12,abc"),
        ("[1] and more", data.STRING, "[1] and more"),
        ("2019-08-23, a Friday", data.STRING, "2019-08-23, a Friday"),
        ("[" * 5000, data.STRING, "[" * 5000),
    ],
)
def test_the_type_of_a_header_is_inferred_as_by_kafka(
    text: str, schema: Schema | None, value: Any
) -> None:
    assert SimpleHeaderConverter().to_header("t", "h", text.encode()) == (schema, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (b"ab", "YWI="),
        (1.0, "1.0"),
        (True, "true"),
        (None, "null"),
        ([1, 'a"b\\', None], '[1,"a\\"b\\\\",null]'),
        ({"a": {"b": b"ab"}}, '{"a":{"b":"YWI="}}'),
        (date(2019, 8, 23), "2019-08-23"),
        (time(1, 2, 3), "01:02:03.000Z"),
        (datetime(2019, 8, 23, 1), "2019-08-23T01:00:00.000Z"),
    ],
)
def test_a_header_is_written_as_a_text(value: Any, text: str) -> None:
    assert text_of(value) == text
    written = SimpleHeaderConverter().from_header("t", "h", None, value)
    assert written == (None if value is None else text.encode())


def test_header_bytes_that_are_no_text_stay_bytes() -> None:
    converter = SimpleHeaderConverter()
    assert converter.to_header("t", "h", b"\xff") == (data.BYTES, b"\xff")
    assert converter.to_header("t", "h", None) == (None, None)
    with pytest.raises(DataError, match="surrogate"):
        converter.from_header("t", "h", None, "\ud800")


def test_a_struct_is_written_in_the_order_of_its_schema() -> None:
    assert text_of({"b": "x", "a": 1}, STRUCT) == '{"a":1,"b":"x"}'


@given(st.floats(allow_nan=False))
def test_the_text_of_a_float_has_its_value(value: float) -> None:
    assert float(float_text(value)) == value
    single = to_float32(value)
    assert to_float32(float(float_text(single, single=True))) == single


@given(st.text(alphabet='[]{}:,"\\ 0129-.eTZnulltrue', max_size=40))
def test_a_text_is_never_refused_and_never_cut(text: str) -> None:
    schema, value = parse(text)
    assert schema != data.STRING or value == text


@given(st.integers() | st.booleans() | st.dates() | st.lists(st.integers()))
def test_what_was_written_is_understood_again(value: Any) -> None:
    assert parse(text_of(value))[1] == value
