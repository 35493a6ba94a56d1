"""JSON texts of values, with a schema or without, and values of parsed JSON.

Of each schema a writer and a reader are made once. A reader takes what `json` has parsed, with
Decimal for numbers that have a point; it refuses a value of another type, where Java's converter
puts 0, false or a number cut to size in its place.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from ..data import DECIMAL, DataError, Schema, SchemaType
from ..logical import LOGICAL, rescaled, scale_of, wrong_type
from ..values import INTEGERS, float_text, iso_text, to_float32

Writer = Callable[[Any], str]
Reader = Callable[[Any], Any]

quoted: Callable[[str], str] = encode_basestring
"""Returns a text as JSON, with characters beyond ASCII as they are."""

_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_NAMED_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonOptions(NamedTuple):
    """The settings that change texts and values."""

    numeric_decimals: bool = False
    """Decimals with a schema are JSON numbers, not base64 (KIP-481)."""
    replace_null: bool = True
    """A null is the schema's default, if it has one (KIP-581)."""


# --------------------------------------------------------------------------------- without schema


def plain_text(value: Any) -> str:
    """Return the JSON of a value without schema.

    Bytes are base64, dates and times ISO 8601, Decimals numbers; a map with keys that are no texts
    is an array of pairs.
    """
    writer = _PLAIN.get(type(value))
    if writer is not None:
        return writer(value)
    for kind, writer in _PLAIN.items():
        if isinstance(value, kind):
            return writer(value)
    raise DataError(f"a value of type {type(value).__name__} has no JSON form")


def _plain_map(value: Mapping[Any, Any]) -> str:
    for key in value:
        if not isinstance(key, str):
            pairs = (f"[{plain_text(k)},{plain_text(v)}]" for k, v in value.items())
            return f"[{','.join(pairs)}]"
    return f"{{{','.join([f'{quoted(k)}:{plain_text(v)}' for k, v in value.items()])}}}"


def _plain_list(value: Any) -> str:
    return f"[{','.join([plain_text(each) for each in value])}]"


def _float(value: float) -> str:
    text = float_text(value)
    return f'"{text}"' if text in _NAMED_FLOATS else text


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise DataError(f"{value} is no finite decimal")
    return str(value)


def _base64(value: Any) -> str:
    return f'"{b64encode(value).decode()}"'


_PLAIN: dict[Any, Writer] = {
    str: quoted,
    bool: lambda value: "true" if value else "false",
    int: str,
    type(None): lambda value: "null",
    float: _float,
    dict: _plain_map,
    list: _plain_list,
    bytes: _base64,
    Decimal: _number,
    date: lambda value: f'"{iso_text(value)}"',
    time: lambda value: f'"{iso_text(value)}"',
    tuple: _plain_list,
    Mapping: _plain_map,
    bytearray: _base64,
    memoryview: _base64,
}
"""Looked up by type; else the first that the value is an instance of."""


def plain_value(parsed: Any) -> Any:
    """Return parsed JSON with floats in place of Decimals."""
    if isinstance(parsed, Decimal):
        return float(parsed)
    if isinstance(parsed, list):
        return [plain_value(each) for each in parsed]
    if isinstance(parsed, dict):
        return {key: plain_value(each) for key, each in parsed.items()}
    return parsed


# --------------------------------------------------------------------------------------- writing


def writer(schema: Schema | None, options: JsonOptions) -> Writer:
    """Return the function that makes JSON of values of `schema`. It raises DataError."""
    if schema is None:
        return plain_text
    write = _typed_writer(schema, options)
    null = "null" if schema.optional else None
    if schema.default is not None and options.replace_null:
        null = write(schema.default)

    def checked(value: Any) -> str:
        if value is not None:
            return write(value)
        if null is None:
            raise DataError(f"null in place of a required {schema.type.value}")
        return null

    return checked


def _typed_writer(schema: Schema, options: JsonOptions) -> Writer:
    base = _base_writer(schema, options)
    logical = LOGICAL.get(schema.name or "")
    if logical is None:
        return base
    if schema.name == DECIMAL and options.numeric_decimals:
        return lambda value: str(rescaled(_decimal(value), scale_of(schema)))
    return lambda value: base(logical.encode(schema, value))


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        raise wrong_type("Decimal", value)
    return value


def _base_writer(schema: Schema, options: JsonOptions) -> Writer:
    if schema.type in INTEGERS:
        reader = _integer_reader(schema.type)
        return lambda value: str(reader(value))
    if schema.type in _FLOATS:
        single = schema.type is SchemaType.FLOAT32

        def write_float(value: Any) -> str:
            if type(value) not in (float, int):
                raise wrong_type(schema.type.value, value)
            if single and abs(value) != float("inf") == abs(to_float32(value)):
                raise DataError(f"{value} does not fit into {schema.type.value}")
            text = float_text(float(value), single=single)
            return f'"{text}"' if text in _NAMED_FLOATS else text

        return write_float
    if schema.type is SchemaType.ARRAY:
        item = writer(schema.value_schema, options)
        return lambda value: f"[{','.join([item(each) for each in _sequence(value)])}]"
    if schema.type is SchemaType.MAP:
        return _map_writer(schema, options)
    if schema.type is SchemaType.STRUCT:
        return _struct_writer(schema, options)
    kind, text = {
        SchemaType.BOOLEAN: (bool, _PLAIN[bool]),
        SchemaType.STRING: (str, quoted),
        SchemaType.BYTES: (bytes | bytearray | memoryview, _base64),
    }[schema.type]

    def write(value: Any) -> str:
        if not isinstance(value, kind):
            raise wrong_type(schema.type.value, value)
        return text(value)

    return write


def _sequence(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise wrong_type("array", value)
    return value


def _map_writer(schema: Schema, options: JsonOptions) -> Writer:
    key, item = writer(schema.key_schema, options), writer(schema.value_schema, options)
    texts = schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING

    def write(value: Any) -> str:
        if not isinstance(value, Mapping):
            raise wrong_type("map", value)
        if texts:
            return f"{{{','.join([f'{key(k)}:{item(v)}' for k, v in value.items()])}}}"
        return f"[{','.join([f'[{key(k)},{item(v)}]' for k, v in value.items()])}]"

    return write


def _struct_writer(schema: Schema, options: JsonOptions) -> Writer:
    parts = [
        (field.name, f"{quoted(field.name)}:", writer(field.schema, options))
        for field in schema.fields
    ]
    names = frozenset(name for name, _, _ in parts)

    def write(value: Any) -> str:
        if not isinstance(value, Mapping):
            raise wrong_type("struct", value)
        if not value.keys() <= names:
            raise DataError(f"the schema has no field {sorted(value.keys() - names)[0]!r}")
        texts = []
        get = value.get
        name = ""
        try:
            for name, prefix, text in parts:
                texts.append(prefix + text(get(name)))
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        return f"{{{','.join(texts)}}}"

    return write


# --------------------------------------------------------------------------------------- reading


def reader(schema: Schema | None, options: JsonOptions) -> Reader:
    """Return the function that makes values of `schema` of parsed JSON. It raises DataError."""
    if schema is None:
        return plain_value
    read = _typed_reader(schema, options)
    default = schema.default if options.replace_null else None
    optional = schema.optional or default is not None

    def checked(parsed: Any) -> Any:
        if parsed is not None:
            return read(parsed)
        if not optional:
            raise DataError(f"null in place of a required {schema.type.value}")
        return default

    return checked


def _typed_reader(schema: Schema, options: JsonOptions) -> Reader:
    base = _base_reader(schema, options)
    logical = LOGICAL.get(schema.name or "")
    if logical is None:
        return base
    if schema.name != DECIMAL:
        return lambda parsed: logical.decode(schema, base(parsed))

    def read_decimal(parsed: Any) -> Decimal:
        if type(parsed) in (int, Decimal):
            return rescaled(Decimal(parsed), scale_of(schema))
        found: Decimal = logical.decode(schema, base(parsed))
        return found

    return read_decimal


def _base_reader(schema: Schema, options: JsonOptions) -> Reader:
    if schema.type in INTEGERS:
        return _integer_reader(schema.type)
    if schema.type in _FLOATS:
        rounded = to_float32 if schema.type is SchemaType.FLOAT32 else float
        return lambda parsed: rounded(_to_float(parsed, schema))
    if schema.type is SchemaType.ARRAY:
        item = reader(schema.value_schema, options)
        return lambda parsed: [item(each) for each in _sequence(parsed)]
    if schema.type is SchemaType.MAP:
        return _map_reader(schema, options)
    if schema.type is SchemaType.STRUCT:
        return _struct_reader(schema, options)
    kind = bool if schema.type is SchemaType.BOOLEAN else str
    decode: Reader | None = _from_base64 if schema.type is SchemaType.BYTES else None

    def read(parsed: Any) -> Any:
        if type(parsed) is not kind:
            raise wrong_type(schema.type.value, parsed)
        return parsed if decode is None else decode(parsed)

    return read


def _integer_reader(size: SchemaType) -> Callable[[Any], int]:
    limit = INTEGERS[size]

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(size.value, value)
        if not -limit <= value < limit:
            raise DataError(f"{value} does not fit into {size.value}")
        return value

    return read


def _to_float(parsed: Any, schema: Schema) -> float:
    if type(parsed) in (Decimal, int, float):
        try:
            return float(parsed)
        except OverflowError:
            raise DataError(f"a number that does not fit into {schema.type.value}") from None
    if isinstance(parsed, str) and parsed in _NAMED_FLOATS:
        return _NAMED_FLOATS[parsed]
    raise wrong_type(schema.type.value, parsed)


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("bytes must be in base64") from None


def _map_reader(schema: Schema, options: JsonOptions) -> Reader:
    key, item = reader(schema.key_schema, options), reader(schema.value_schema, options)
    texts = schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING

    def read(parsed: Any) -> Any:
        if texts:
            if not isinstance(parsed, dict):
                raise wrong_type("an object", parsed)
            return {name: item(each) for name, each in parsed.items()}
        if not isinstance(parsed, list):
            raise wrong_type("an array of pairs", parsed)
        try:
            return {key(k): item(v) for k, v in parsed}
        except (TypeError, ValueError):
            raise DataError("a map without text keys is an array of pairs") from None

    return read


def _struct_reader(schema: Schema, options: JsonOptions) -> Reader:
    parts = [(field.name, reader(field.schema, options)) for field in schema.fields]

    def read(parsed: Any) -> dict[str, Any]:
        if not isinstance(parsed, dict):
            raise wrong_type("an object", parsed)
        found = {}
        get = parsed.get
        name = ""
        try:
            for name, value in parts:
                found[name] = value(get(name))
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        return found

    return read
