"""Rows of PostgreSQL, whose values are texts, as keys and values of records."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, time
from decimal import InvalidOperation
from typing import Any, NamedTuple

from ..api import ConnectError
from ..data import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    decimal,
    struct,
)
from .pgoutput import Column, Relation, Tuple, Unchanged
from .sql_types import with_scale

_NUMERIC = 1700
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _moment(text: str) -> datetime:
    """Return a time in UTC; infinity, and years that Python lacks, are the first and the last."""
    if text.endswith("BC") or text == "-infinity":
        return _FIRST
    if text == "infinity" or text[4:5] != "-":
        return _LAST
    value = datetime.fromisoformat(text)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _time(text: str) -> time:
    """Return a time; the end of the day, which Python lacks, is the last one."""
    return time.max if text.startswith("24") else time.fromisoformat(text)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


_TYPES: Mapping[int, tuple[Schema, Callable[[str], Any]]] = {
    16: (BOOLEAN, lambda text: text.startswith("t")),
    17: (BYTES, _bytes),
    20: (INT64, int),
    21: (INT16, int),
    23: (INT32, int),
    26: (INT64, int),
    700: (FLOAT32, float),
    701: (FLOAT64, float),
    1082: (DATE_SCHEMA, lambda text: _moment(text).date()),
    1083: (TIME_SCHEMA, _time),
    1114: (TIMESTAMP_SCHEMA, _moment),
    1184: (TIMESTAMP_SCHEMA, _moment),
}
"""By the type's OID, which PostgreSQL does not change. All others stay texts."""


class RowForm(NamedTuple):
    """A relation as records have it."""

    relation: Relation
    schema: Schema
    """The schema of a row; all but the key's columns are optional."""
    key_schema: Schema | None
    """None if there is no primary key."""
    reads: tuple[Callable[[str], Any], ...]

    def row(self, values: Tuple, old: Tuple | None, placeholder: str) -> dict[str, Any]:
        """Return a row. A value that is not told is the old one, or `placeholder`."""
        row = {}
        for index, (column, read) in enumerate(zip(self.relation.columns, self.reads, strict=True)):
            value = values[index]
            if isinstance(value, Unchanged) and old is not None:
                value = old[index]
            if isinstance(value, Unchanged):
                row[column.name] = self._unavailable(column.name, placeholder)
            else:
                row[column.name] = None if value is None else self._read(column, read, value)
        return row

    def key(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the key of a row."""
        if self.key_schema is None:
            return None
        return {name: row[name] for name, _ in self.key_schema.fields}

    def _read(self, column: Column, read: Callable[[str], Any], value: str) -> Any:
        try:
            return read(value)
        except (ValueError, InvalidOperation) as error:
            relation = self.relation
            raise ConnectError(
                f"column {column.name} of {relation.schema}.{relation.name} has a value that has "
                f"no form in Connect: {error}"
            ) from None

    def _unavailable(self, name: str, placeholder: str) -> Any:
        field = self.schema.field(name)
        if field is not None and field.schema.type is SchemaType.STRING:
            return placeholder
        if field is not None and field.schema.type is SchemaType.BYTES and not field.schema.name:
            return placeholder.encode()
        raise ConnectError(
            f"a large value of column {name} did not change and is not told; set "
            f"ALTER TABLE {self.relation.schema}.{self.relation.name} REPLICA IDENTITY FULL"
        )


def form_of(relation: Relation) -> RowForm:
    """Return the form of a relation's rows."""
    found = [_type(each) for each in relation.columns]
    fields = {
        each.name: schema if each.is_key else schema.as_optional()
        for each, (schema, _) in zip(relation.columns, found, strict=True)
    }
    name = f"{relation.schema}.{relation.name}"
    keys = {each.name: fields[each.name] for each in relation.columns if each.is_key}
    key_schema = struct(keys, name=f"{name}.Key") if keys else None
    return RowForm(
        relation, struct(fields, name=name), key_schema, tuple(read for _, read in found)
    )


def _type(column: Column) -> tuple[Schema, Callable[[str], Any]]:
    if column.type_oid == _NUMERIC and column.type_modifier >= 4:
        scale = (((column.type_modifier - 4) & 0x7FF) ^ 1024) - 1024
        return decimal(scale), with_scale(scale)
    return _TYPES.get(column.type_oid, (STRING, str))
