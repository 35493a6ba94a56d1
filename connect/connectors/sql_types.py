"""Types of SQL columns as schemas of Connect, and the way back."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import MAX_PREC, Context, Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from ..api import ConnectError
from ..data import (
    BOOLEAN,
    BYTES,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    array,
    decimal,
    struct,
)

LONG_DIGITS, DOUBLE_DIGITS = 18, 15
"""Digits that an int64, and a double, hold exactly."""
_KEY_LENGTH = 255
"""Characters of a text that is part of a primary key, where a database wants a length."""
_UNSIGNED = {"int8": INT16, "int16": INT32, "int32": INT64, "int64": decimal(0)}
Read = Callable[[Any], Any]
_EXACT = Context(prec=MAX_PREC)
"""Arithmetic with as many digits as a value has; the default of 28 is less than columns hold."""


class ExactDecimal(TypeDecorator[Decimal]):
    """A decimal of SQLite, which has none: it is written as text and read without a float."""

    impl = sa.String
    cache_ok = True

    def __init__(self, precision: int | None = None, scale: int | None = None) -> None:
        super().__init__()
        self.precision, self.scale = precision, scale

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        """Return the text of a Decimal."""
        return str(value) if isinstance(value, Decimal) else value

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        """Return the Decimal of what SQLite made of it."""
        return None if value is None else Decimal(str(value))


class ColumnReading(NamedTuple):
    """A column as a field of records."""

    schema: Schema
    read: Read | None = None
    """Makes the field's value of one of the driver's; None leaves it."""


class TypeReading(NamedTuple):
    """The choices that a configuration makes about column types."""

    dialect: str
    zone: ZoneInfo
    best_fit: bool = False
    """Decimals that fit become int64 and double (`numeric.mapping=best_fit`)."""

    def of(self, kind: TypeEngine[Any]) -> ColumnReading:
        """Return how a column of this type is read; a type without a counterpart is its text."""
        if isinstance(kind, sa.Integer):
            schema = INT64 if self.dialect == "sqlite" else _integer(kind)
            return ColumnReading(schema, Decimal if schema.name == DECIMAL else None)
        if isinstance(kind, sa.Float):
            single = isinstance(kind, sa.REAL) or (kind.precision or 53) <= 24
            return ColumnReading(FLOAT32 if single and self.dialect != "sqlite" else FLOAT64, float)
        if isinstance(kind, sa.Numeric | ExactDecimal):
            return self._decimal(kind.precision, kind.scale)
        if isinstance(kind, sa.DateTime):
            return ColumnReading(TIMESTAMP_SCHEMA, self._moment)
        if isinstance(kind, sa.ARRAY) and (kind.dimensions or 1) == 1:
            items = self.of(kind.item_type)
            read = items.read or _same
            return ColumnReading(
                array(items.schema.as_optional()),
                lambda values: [None if each is None else read(each) for each in values],
            )
        for types, reading in _READINGS:
            if isinstance(kind, types):
                return reading
        return ColumnReading(STRING, _text)

    def _decimal(self, precision: int | None, scale: int | None) -> ColumnReading:
        if scale is None:
            return ColumnReading(STRING, _plain)
        if self.best_fit and precision is not None:
            if scale == 0 and precision <= LONG_DIGITS:
                return ColumnReading(INT64, int)
            if scale > 0 and precision <= DOUBLE_DIGITS:
                return ColumnReading(FLOAT64, float)
        return ColumnReading(decimal(scale), with_scale(scale))

    def _moment(self, value: Any) -> datetime:
        zoned: datetime = value if value.tzinfo else value.replace(tzinfo=self.zone)
        return zoned.astimezone(UTC)

    def infer(self, rows: Sequence[Sequence[Any]], known: list[Schema | None]) -> None:
        """Note in `known` the type of each column of a query, as its values tell it."""
        for index, before in enumerate(known):
            values = [row[index] for row in rows if row[index] is not None]
            if not values or (before is not None and before.name != DECIMAL):
                continue
            if isinstance(values[0], Decimal):
                finite = [each.as_tuple().exponent for each in values if each.is_finite()]
                scale = max([-exponent for exponent in finite], default=0)
                was = int(before.parameters["scale"]) if before is not None else 0
                known[index] = decimal(max(scale, was, 0), optional=True)
            else:
                known[index] = _schema_of_value(values[0])

    def of_inferred(self, schema: Schema | None) -> ColumnReading:
        """Return how a column is read whose type was inferred, or is not known yet."""
        if schema is None:
            return ColumnReading(STRING.as_optional())
        read = _READ_INFERRED.get(schema.name or schema.type.value)
        if schema.name == DECIMAL:
            read = with_scale(int(schema.parameters["scale"]))
        return ColumnReading(schema, self._moment if schema.name == TIMESTAMP else read)


def with_scale(scale: int) -> Callable[[Any], Decimal]:
    """Return what makes decimals with so many digits after the point of numbers and texts."""
    unit = Decimal(1).scaleb(-scale)
    return lambda value: Decimal(value).quantize(unit, context=_EXACT)


def struct_of(name: str, columns: Sequence[tuple[str, Schema]]) -> Schema:
    """Return the schema of a row."""
    return struct(dict(columns), name=name)


def _integer(kind: sa.Integer) -> Schema:
    schema = INT32
    if isinstance(kind, sa.BigInteger):
        schema = INT64
    elif isinstance(kind, sa.SmallInteger):
        schema = INT16
    elif type(kind).__name__ == "TINYINT":
        schema = INT8
    return _UNSIGNED[schema.type.value] if getattr(kind, "unsigned", False) else schema


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _plain(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_READINGS: tuple[tuple[type[Any] | tuple[type[Any], ...], ColumnReading], ...] = (
    (sa.Boolean, ColumnReading(BOOLEAN, bool)),
    (sa.Date, ColumnReading(DATE_SCHEMA)),
    (sa.Time, ColumnReading(TIME_SCHEMA, lambda value: value.replace(tzinfo=None))),
    (sa.LargeBinary, ColumnReading(BYTES, bytes)),
    (sa.JSON, ColumnReading(STRING, _json)),
)
_READ_INFERRED: dict[str, Read] = {"string": _text, "bytes": bytes, "double": float}


def _schema_of_value(value: Any) -> Schema:
    if isinstance(value, datetime):
        return TIMESTAMP_SCHEMA.as_optional()
    for kind, schema in (
        (bool, BOOLEAN),
        (int, INT64),
        (float, FLOAT64),
        (date, DATE_SCHEMA),
        (time, TIME_SCHEMA),
        (bytes | bytearray | memoryview, BYTES),
    ):
        if isinstance(value, kind):
            return schema.as_optional()
    return STRING.as_optional()


# ---------------------------------------------------------------------------- the way back


_COLUMN_TYPES: dict[SchemaType, TypeEngine[Any]] = {
    SchemaType.INT8: sa.SmallInteger(),
    SchemaType.INT16: sa.SmallInteger(),
    SchemaType.INT32: sa.Integer(),
    SchemaType.INT64: sa.BigInteger(),
    SchemaType.FLOAT32: sa.REAL(),
    SchemaType.FLOAT64: sa.Double(),
    SchemaType.BOOLEAN: sa.Boolean(),
    SchemaType.BYTES: sa.LargeBinary(),
}
_LOGICAL_TYPES: dict[str, TypeEngine[Any]] = {
    DATE: sa.Date(),
    TIME: sa.Time().with_variant(mysql.TIME(fsp=6), "mysql", "mariadb"),
    TIMESTAMP: sa.DateTime()
    .with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    .with_variant(mssql.DATETIME2, "mssql"),
}


def column_type(schema: Schema, dialect: str, *, in_key: bool) -> TypeEngine[Any]:
    """Return the type of a new column for values of this schema.

    Raise ConnectError for a struct, a map or an array.
    """
    if schema.name == DECIMAL:
        scale = int(schema.parameters["scale"])
        return ExactDecimal(38, scale) if dialect == "sqlite" else sa.Numeric(38, scale)
    if schema.name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[schema.name]
    if schema.type is SchemaType.STRING:
        return sa.String(_KEY_LENGTH) if in_key and dialect != "sqlite" else sa.Text()
    found = _COLUMN_TYPES.get(schema.type)
    if found is None:
        raise ConnectError(
            f"a column cannot be made for a value of type {schema.type.value}; "
            "take it apart with the transformation Flatten, or drop it with ReplaceField"
        )
    return found
