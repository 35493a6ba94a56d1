"""Schemas of Connect as types of Arrow, and back; values of both are Python's."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

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
    map_of,
    struct,
)

_TYPES = {
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(),
    SchemaType.FLOAT64: pa.float64(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(),
    SchemaType.BYTES: pa.binary(),
}
_LOGICAL = {DATE: pa.date32(), TIME: pa.time64("us"), TIMESTAMP: pa.timestamp("us", "UTC")}
_SCHEMAS: tuple[tuple[Callable[[pa.DataType], bool], Schema], ...] = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_int8, INT8),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), INT16),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), INT32),
    (pa.types.is_integer, INT64),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), FLOAT32),
    (pa.types.is_float64, FLOAT64),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), STRING),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), BYTES),
    (pa.types.is_fixed_size_binary, BYTES),
    (pa.types.is_date, DATE_SCHEMA),
    (pa.types.is_time, TIME_SCHEMA),
    (pa.types.is_timestamp, TIMESTAMP_SCHEMA),
    (pa.types.is_null, STRING),
)


def arrow_type(schema: Schema) -> pa.DataType:
    """Return the type of a column for values of this schema. ConnectError for an empty struct."""
    if schema.name == DECIMAL:
        return pa.decimal128(38, int(schema.parameters["scale"]))
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is SchemaType.STRUCT:
        if not schema.fields:
            raise ConnectError("Parquet has no struct without fields")
        return pa.struct([pa.field(name, arrow_type(each)) for name, each in schema.fields])
    items = schema.value_schema
    if schema.type is SchemaType.ARRAY and items is not None:
        return pa.list_(arrow_type(items))
    if schema.type is SchemaType.MAP and items is not None and schema.key_schema is not None:
        return pa.map_(arrow_type(schema.key_schema), arrow_type(items))
    return _TYPES[schema.type]


def to_arrow(value: Any, schema: Schema) -> Any:
    """Return the value as Arrow takes it: maps as pairs."""
    if value is None or schema.type not in (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP):
        return value
    if schema.type is SchemaType.STRUCT:
        return {name: to_arrow(value.get(name), each) for name, each in schema.fields}
    items = schema.value_schema or STRING
    if schema.type is SchemaType.ARRAY:
        return [to_arrow(each, items) for each in value]
    return [(key, to_arrow(each, items)) for key, each in value.items()]


def connect_schema(kind: pa.DataType) -> Schema:
    """Return the optional schema of a column's values. ConnectError if there is none."""
    if pa.types.is_decimal(kind):
        return decimal(kind.scale, optional=True)
    if pa.types.is_struct(kind):
        fields = {each.name: connect_schema(each.type) for each in kind}
        return struct(fields, optional=True)
    if pa.types.is_map(kind):
        return map_of(connect_schema(kind.key_type), connect_schema(kind.item_type), optional=True)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array(connect_schema(kind.value_type), optional=True)
    if pa.types.is_dictionary(kind):
        return connect_schema(kind.value_type)
    for is_kind, schema in _SCHEMAS:
        if is_kind(kind):
            return schema.as_optional()
    raise ConnectError(f"a column of type {kind} has no counterpart in Connect")


def from_arrow(value: Any, schema: Schema) -> Any:
    """Return a value that Arrow gave: pairs as maps."""
    if value is None or schema.type not in (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP):
        return value
    if isinstance(value, Mapping):
        return {name: from_arrow(value[name], each) for name, each in schema.fields}
    items = schema.value_schema or STRING
    if schema.type is SchemaType.ARRAY:
        return [from_arrow(each, items) for each in value]
    return {key: from_arrow(each, items) for key, each in value}
