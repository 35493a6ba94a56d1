"""Schemas of Connect, which say what a value is. A value alone is plain Python.

Values are int, float, bool, str, bytes, list, dict, Decimal, date, time, datetime. A Schema travels
beside a value only if a connector or a converter gave one (Kafka's Connect data model,
org.apache.kafka.connect.data; KIP-26). Never here: how values become bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from ..runtime.errors import MinikafkaError

NO_PARAMETERS: Mapping[str, str] = {}

DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""bytes: a Decimal whose scale is the parameter `scale`."""
DATE = "org.apache.kafka.connect.data.Date"
"""int32: a date, as days since 1970-01-01."""
TIME = "org.apache.kafka.connect.data.Time"
"""int32: a time of day, as milliseconds since midnight."""
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
"""int64: a datetime in UTC, as milliseconds since 1970-01-01T00:00Z."""


class DataError(MinikafkaError):
    """A value does not fit its schema, or bytes are not what a converter reads.

    `errors.tolerance` decides what becomes of the record (DataException of Kafka's Connect).
    """


class SchemaType(Enum):
    """The types of Connect; the values are the names that JsonConverter writes."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class Field(NamedTuple):
    """A field of a struct; its index is its place in `Schema.fields`."""

    name: str
    schema: "Schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """The type of a value. The value of a struct is a dict by field name, of a map any dict."""

    type: SchemaType
    optional: bool = False
    """True if None is a value."""
    name: str | None = None
    """The name of a logical type, as DECIMAL, or of a struct."""
    version: int | None = None
    doc: str | None = None
    default: Any = None
    parameters: Mapping[str, str] = field(default_factory=lambda: NO_PARAMETERS, hash=False)
    fields: tuple[Field, ...] = ()
    """The fields, if it is a struct."""
    key_schema: "Schema | None" = None
    """The schema of a map's keys."""
    value_schema: "Schema | None" = None
    """The schema of a map's values, or of an array's items."""

    def field(self, name: str) -> Field | None:
        """Return the field of that name, or None."""
        return next((each for each in self.fields if each.name == name), None)

    def as_optional(self) -> "Schema":
        """Return this schema with None as a value."""
        return self if self.optional else replace(self, optional=True)

    def with_default(self, default: Any) -> "Schema":
        """Return this schema with another default."""
        return replace(self, default=default)


INT8 = Schema(SchemaType.INT8)
INT16 = Schema(SchemaType.INT16)
INT32 = Schema(SchemaType.INT32)
INT64 = Schema(SchemaType.INT64)
FLOAT32 = Schema(SchemaType.FLOAT32)
FLOAT64 = Schema(SchemaType.FLOAT64)
BOOLEAN = Schema(SchemaType.BOOLEAN)
STRING = Schema(SchemaType.STRING)
BYTES = Schema(SchemaType.BYTES)


def array(items: Schema, *, optional: bool = False) -> Schema:
    """Return the schema of a list of `items`."""
    return Schema(SchemaType.ARRAY, optional, value_schema=items)


def map_of(keys: Schema, values: Schema, *, optional: bool = False) -> Schema:
    """Return the schema of a dict of `keys` to `values`."""
    return Schema(SchemaType.MAP, optional, key_schema=keys, value_schema=values)


def struct(
    fields: Mapping[str, Schema], *, name: str | None = None, optional: bool = False
) -> Schema:
    """Return the schema of a struct with these fields, in this order."""
    return Schema(
        SchemaType.STRUCT, optional, name, fields=tuple(Field(*each) for each in fields.items())
    )


def decimal(scale: int, *, optional: bool = False) -> Schema:
    """Return the schema of a Decimal with `scale` digits after the point."""
    return Schema(SchemaType.BYTES, optional, DECIMAL, version=1, parameters={"scale": str(scale)})


DATE_SCHEMA = Schema(SchemaType.INT32, name=DATE, version=1)
TIME_SCHEMA = Schema(SchemaType.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA = Schema(SchemaType.INT64, name=TIMESTAMP, version=1)
