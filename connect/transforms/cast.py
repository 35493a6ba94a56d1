"""Cast: fields, or the whole key or value, as another type, with Java's rules for numbers."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ..config_def import BadConfig, ConfigDef
from ..data import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, DataError, Schema, SchemaType
from ..logical import LOGICAL
from ..values import INTEGERS, text_of, to_float32
from .parts import REPLACE_NULL, PartTransformation, a_list, both, pairs, with_fields
from .transformation import R

_TARGETS = [
    *INTEGERS,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
    SchemaType.BOOLEAN,
    SchemaType.STRING,
]
_NAMES = {each.name: each for each in _TARGETS}
_COMPOUND = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)


def _casts(spec: list[str]) -> dict[str, SchemaType]:
    """Return the type of each field; under the empty name the type of the whole value."""
    whole = len(spec) == 1 and ":" not in spec[0]
    named = {"": spec[0]} if whole else pairs(spec)
    if not named:
        raise BadConfig("must name at least one field to cast")
    wrong = [text for text in named.values() if text.upper() not in _NAMES]
    if wrong:
        raise BadConfig(f"{wrong[0]} is none of {', '.join(_NAMES).lower()}")
    return {field: _NAMES[text.upper()] for field, text in named.items()}


def _is_no_spec(spec: list[str]) -> str | None:
    try:
        _casts(spec)
    except BadConfig as error:
        return str(error)
    return None


class Cast(PartTransformation):
    """Casts to integers, floats, booleans and texts; bytes become base64."""

    config = ConfigDef(
        [
            a_list(
                "spec",
                "field:type pairs, or one type for the whole value: int8, int16, int32, int64,"
                " float32, float64, boolean, string.",
                check=_is_no_spec,
            ),
            REPLACE_NULL,
        ]
    )
    purpose = "cast types"

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._casts = _casts(settings["spec"])
        self._whole = self._casts.get("")

    def apply(self, record: R) -> R:
        """Return the record with the whole value or its fields cast."""
        value = self.value_of(record)
        if self._whole is None or value is None:
            return super().apply(record)
        schema = self.schema_of(record)
        new_schema = None if schema is None else self._schemas.get(schema)
        return self.changed(record, new_schema, cast(value, self._whole, schema))

    def _new_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            return _cast_schema(schema, self._whole)
        fields = {}
        for name, of in schema.fields:
            target = self._casts.get(name)
            fields[name] = of if target is None else _cast_schema(_bare(of), target)
        changed = with_fields(schema, fields)
        default = schema.default
        if default is not None:
            default = self._new_struct(schema, default, None)
        return replace(changed, optional=schema.optional, default=default)

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        found = {}
        for each in schema.fields:
            target, was = self._casts.get(each.name), self.field(value, each)
            found[each.name] = was if target is None else _at(each.name, was, target, each.schema)
        return found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        changes = {
            name: _at(name, value.get(name), target, None) for name, target in self._casts.items()
        }
        return {**value, **changes}


def _bare(schema: Schema) -> Schema:
    return Schema(schema.type, schema.optional, schema.name, default=schema.default)


def _cast_schema(schema: Schema, target: SchemaType) -> Schema:
    """Return the schema with another type; a logical type's name says nothing of the new one."""
    logical = schema.name in LOGICAL
    changed = replace(
        schema,
        type=target,
        name=None if logical else schema.name,
        version=None if logical else schema.version,
        parameters={} if logical else schema.parameters,
        fields=(),
        key_schema=None,
        value_schema=None,
    )
    default = schema.default
    return replace(changed, default=None if default is None else cast(default, target, schema))


def _at(name: str, value: Any, target: SchemaType, schema: Schema | None) -> Any:
    try:
        return cast(value, target, schema)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def cast(value: Any, target: SchemaType, schema: Schema | None = None) -> Any:
    """Return `value` as a `target`; null stays null. Raise DataError if it cannot be cast."""
    if value is None:
        return None
    if (schema is not None and schema.type in _COMPOUND) or isinstance(value, Mapping | list):
        kind = schema.type.value if schema is not None else type(value).__name__
        raise DataError(f"Cast transformation does not support casting from {kind}")
    if target is SchemaType.STRING:
        if isinstance(value, bytes | bytearray | memoryview):
            return b64encode(value).decode()
        return text_of(value, schema)
    number = _number(value, target)
    if target is SchemaType.BOOLEAN:
        return _whole_part(number, 64) != 0
    if target in INTEGERS:
        bits = INTEGERS[target].bit_length()
        return _wrapped(_whole_part(number, max(bits, 32)), bits)
    try:
        return to_float32(float(number)) if target is SchemaType.FLOAT32 else float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _number(value: Any, target: SchemaType) -> int | float | Decimal:
    if isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, str):
        return _parsed(value, target)
    for kind, of in (
        (datetime, TIMESTAMP_SCHEMA),
        (date, DATE_SCHEMA),
        (time, TIME_SCHEMA),
    ):
        if isinstance(value, kind):
            found: int = LOGICAL[of.name or ""].encode(of, value)
            return found
    name = type(value).__name__
    raise DataError(f"Cast transformation does not support casting from {name} to {target.value}")


def _parsed(text: str, target: SchemaType) -> int | float:
    if target is SchemaType.BOOLEAN:
        return text.lower() == "true"
    if target in INTEGERS:
        if _INTEGER.fullmatch(text) and -INTEGERS[target] <= int(text) < INTEGERS[target]:
            return int(text)
    elif _FLOAT.fullmatch(text.strip()):
        plain = text.strip()
        return float(plain if plain.endswith(("NaN", "Infinity")) else plain.rstrip("fFdD"))
    raise DataError(f"Value ({text[:100]}) was out of range for requested data type")


def _whole_part(number: int | float | Decimal, bits: int) -> int:
    """Return the number without its fraction; a float beyond the range is its end, as in Java."""
    if not isinstance(number, float):
        if isinstance(number, Decimal) and (
            not number.is_finite() or abs(number.adjusted()) > 4000
        ):
            raise DataError(f"{number} has no integer")
        return int(number)
    if number != number:
        return 0
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return least if number <= least else most if number >= most else int(number)


def _wrapped(number: int, bits: int) -> int:
    """Return the lowest bits of a number, as a signed one."""
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


CastKey, CastValue = both(Cast)
