"""Texts of values, and values of texts: the rules by which headers are written and understood.

`parse` infers a schema as Kafka's Connect does (org.apache.kafka.connect.data.Values): the smallest
integer type, float before double, ISO 8601 dates and times, arrays and maps; all else is a string.
It differs in one thing: a text of which only the beginning is a number or an array stays a string,
where Kafka drops the rest.
"""

import base64
import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from .data import (
    BOOLEAN,
    DATE_SCHEMA,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    DataError,
    Schema,
    SchemaType,
    decimal,
)
from .logical import from_milliseconds, to_milliseconds

SchemaAndValue = tuple[Schema | None, Any]
NOTHING: SchemaAndValue = (None, None)

INTEGERS = {
    SchemaType.INT8: 2**7,
    SchemaType.INT16: 2**15,
    SchemaType.INT32: 2**31,
    SchemaType.INT64: 2**63,
}
"""The integer types, the smallest first. Their values are at least -limit and below the limit."""

_TRIM = "".join(map(chr, range(33)))
_TOKEN = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\]|\\$)+', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_HUGE_EXPONENT = 1_000_000
_MAX_DEPTH = 100
_TEMPORAL = (DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA)
_LADDER = [*INTEGERS, SchemaType.FLOAT32, SchemaType.FLOAT64]


def to_float32(value: float) -> float:
    """Return the nearest number of 32 bits; infinity beyond its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def float_text(value: float, *, single: bool = False) -> str:
    """Return the text that Java gives a double, or with `single` a float."""
    if 1e-3 <= value < 1e7 and not single:
        return repr(value)
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    shortest = repr(value)
    if single:
        texts = (f"{value:.{digits}g}" for digits in range(1, 10))
        shortest = next(text for text in texts if to_float32(float(text)) == to_float32(value))
    exact = Decimal(shortest)
    sign = "-" if value < 0 else ""
    digits = "".join(map(str, exact.as_tuple().digits)).rstrip("0") or "0"
    exponent = exact.adjusted()
    if 1e-3 <= abs(value) < 1e7:
        text = f"{exact:f}"
        return text if "." in text else f"{text}.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def iso_text(value: date | time) -> str:
    """Return a date, a time of day or a time in UTC as ISO 8601, with milliseconds."""
    if isinstance(value, time):
        return f"{value:%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if not isinstance(value, datetime):
        return value.isoformat()
    utc = from_milliseconds(to_milliseconds(value))
    return f"{utc.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def text_of(value: Any, schema: Schema | None = None) -> str:
    """Return the text of a value, of which `parse` makes the value again where it can."""
    return value if isinstance(value, str) else _text(value, schema)


def _text(value: Any, schema: Schema | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value, single=schema is not None and schema.type is SchemaType.FLOAT32)
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, date | time):
        return iso_text(value)
    return _compound_text(value, schema)


def _compound_text(value: Any, schema: Schema | None) -> str:
    items = schema.value_schema if schema is not None else None
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return f"[{','.join(_embedded(each, items) for each in value)}]"
    if not isinstance(value, Mapping):
        raise DataError(f"a value of type {type(value).__name__} has no text")
    pairs: list[tuple[Any, Schema | None, Any, Schema | None]]
    if schema is not None and schema.type is SchemaType.STRUCT:
        pairs = [(field.name, None, value.get(field.name), field.schema) for field in schema.fields]
    else:
        keys = schema.key_schema if schema is not None else None
        pairs = [(key, keys, each, items) for key, each in value.items()]
    inner = (f"{_embedded(key, of)}:{_embedded(each, to)}" for key, of, each, to in pairs)
    return f"{{{','.join(inner)}}}"


def _embedded(value: Any, schema: Schema | None) -> str:
    text = text_of(value, schema)
    if not isinstance(value, str | bytes | bytearray | memoryview):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# -------------------------------------------------------------------------------------- parsing


def parse(text: str) -> SchemaAndValue:
    """Return the schema and the value of a text. It is never refused: at worst it is a string."""
    if not text:
        return STRING, text
    tokens = _Tokens(text)
    try:
        found = _value(tokens, 0)
    except DataError:
        return STRING, text
    return (STRING, text) if tokens.rest().strip(_TRIM) else found


class _Tokens:
    """The text in tokens: delimiters that no backslash escapes, and what is between them."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def rest(self) -> str:
        return "".join(self.tokens[self.at :])

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise DataError("the text ends too early")
        self.at += 1
        return str(self.tokens[self.at - 1])

    def take(self, expected: str) -> bool:
        """Go behind `expected` and blanks before it, if it is next."""
        at = self.at
        while at + 1 < len(self.tokens) and not self.tokens[at].strip(_TRIM):
            at += 1
        if at < len(self.tokens) and self.tokens[at].strip(_TRIM) == expected:
            self.at = at + 1
            return True
        return False


def _value(tokens: _Tokens, depth: int) -> SchemaAndValue:
    if depth > _MAX_DEPTH:
        raise DataError("nested too deep")
    if depth and tokens.take('"'):
        return _quoted(tokens)
    for literal, found in _LITERALS:
        if tokens.take(literal):
            return found
    if tokens.take("["):
        return _array(tokens, depth)
    if tokens.take("{"):
        return _map(tokens, depth)
    return _scalar(tokens, tokens.next().strip(_TRIM))


_LITERALS: list[tuple[str, SchemaAndValue]] = [
    ("null", NOTHING),
    ("true", (BOOLEAN, True)),
    ("false", (BOOLEAN, False)),
]


def _quoted(tokens: _Tokens) -> SchemaAndValue:
    content = ""
    while (token := tokens.next()) != '"':
        content += token
    return _temporal(content.replace("\\:", ":")) or (STRING, content)


def _array(tokens: _Tokens, depth: int) -> SchemaAndValue:
    found: list[SchemaAndValue] = []
    while not tokens.take("]"):
        if found and not tokens.take(","):
            raise DataError("array elements need a comma between them")
        found.append(_value(tokens, depth + 1))
    common = _common([schema for schema, _ in found])
    values = [_aligned(common, value) for _, value in found]
    return Schema(SchemaType.ARRAY, value_schema=common), values


def _map(tokens: _Tokens, depth: int) -> SchemaAndValue:
    keys: list[SchemaAndValue] = []
    values: list[SchemaAndValue] = []
    while not tokens.take("}"):
        keys.append(_value(tokens, depth + 1))
        if not tokens.take(":"):
            raise DataError("a map entry needs a colon behind its key")
        values.append(_value(tokens, depth + 1))
        tokens.take(",")
    of, to = (_common([schema for schema, _ in each]) for each in (keys, values))
    if any(isinstance(key, list | dict | None) for _, key in keys):
        raise DataError("a map's key is null, an array or a map")
    pairs = zip(keys, values, strict=True)
    aligned = {_aligned(of, key): _aligned(to, value) for (_, key), (_, value) in pairs}
    return Schema(SchemaType.MAP, key_schema=of, value_schema=to), aligned


def _common(schemas: list[Schema | None]) -> Schema | None:
    """Return the schema that all values fit, or None; numbers take the widest of their types."""
    common: Schema | None = None
    for schema in schemas:
        if schema is None or schema == common:
            continue
        if common is None:
            common = schema
        elif schema.name != common.name:
            return None
        elif schema.type is common.type:
            common = schema
        elif schema.type not in _LADDER or common.type not in _LADDER:
            return None
        elif _LADDER.index(schema.type) > _LADDER.index(common.type):
            common = schema
    return common


def _aligned(schema: Schema | None, value: Any) -> Any:
    if schema is None:
        return value
    if value is None:
        raise DataError("null among values of a type")
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return float(value)
    return value


def _scalar(tokens: _Tokens, token: str) -> SchemaAndValue:
    if token[:1].isdigit():
        several = "".join([token, *tokens.tokens[tokens.at : tokens.at + 4]]).replace("\\:", ":")
        if (temporal := _temporal(several.strip(_TRIM))) is not None:
            tokens.at += min(4, len(tokens.tokens) - tokens.at)
            return temporal
        if (temporal := _temporal(token.replace("\\:", ":"))) is not None:
            return temporal
    if _NUMBER.fullmatch(token):
        return _number(token)
    raise DataError("neither a number nor a literal")


def _temporal(text: str) -> SchemaAndValue | None:
    try:
        if _DATE.fullmatch(text):
            return DATE_SCHEMA, date.fromisoformat(text)
        if _TIME.fullmatch(text):
            return TIME_SCHEMA, time.fromisoformat(text[:-1])
        if _TIMESTAMP.fullmatch(text):
            return TIMESTAMP_SCHEMA, datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    except ValueError:  # the 31st of April
        pass
    return None


def _number(token: str) -> SchemaAndValue:
    exact = Decimal(token)
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)  # the pattern has no NaN
    if exact == 0 or abs(exact.adjusted()) < 20:
        whole = int(exact) if exact else 0
        if whole == exact and -(2**63) <= whole < 2**63:
            return next(schema for limit, schema in _INTEGERS if -limit <= whole < limit), whole
    if exponent != 0 and abs(exponent) <= _HUGE_EXPONENT:
        single, double = to_float32(float(exact)), float(exact)
        if abs(single) != float("inf"):
            return FLOAT32, single
        if abs(double) != float("inf"):
            return FLOAT64, double
    return decimal(-exponent), exact


_INTEGERS = [(2**7, INT8), (2**15, INT16), (2**31, INT32), (2**63, INT64)]
