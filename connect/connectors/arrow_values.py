"""Schemas of Connect as types of Arrow; `arrow_schemas` goes the way back."""

from typing import Any

import pyarrow as pa

from ..api import ConnectError
from ..data import (
    DATE,
    DECIMAL,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaType,
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
