"""Arrow's types as schemas of Connect, and batches of rows as the values that fit them."""

from typing import TYPE_CHECKING, Any, Final

from ..api import ConnectError
from ..data import (
    BOOLEAN,
    BYTES,
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
    Schema,
    array,
    decimal,
    map_of,
    struct,
)
from .ruled import needed

if TYPE_CHECKING:
    import pyarrow

_SIMPLE: Final = {
    "int8": ("int8", INT8),
    "int16": ("int16", INT16),
    "int32": ("int32", INT32),
    "int64": ("int64", INT64),
    "uint8": ("int16", INT16),
    "uint16": ("int32", INT32),
    "uint32": ("int64", INT64),
    "halffloat": ("float32", FLOAT32),
    "float": ("float32", FLOAT32),
    "double": ("float64", FLOAT64),
    "bool": ("bool_", BOOLEAN),
    "string": ("string", STRING),
    "large_string": ("string", STRING),
    "string_view": ("string", STRING),
    "null": ("string", STRING),
    "binary": ("binary", BYTES),
    "large_binary": ("binary", BYTES),
    "binary_view": ("binary", BYTES),
    "date32[day]": ("date32", DATE_SCHEMA),
    "date64[ms]": ("date32", DATE_SCHEMA),
}
"""By the text of Arrow's type: the type that Python's value is made of, and the schema."""


class Rows:
    """Makes values of the batches of one file, whose Arrow schema it is given.

    Unsigned types become the next larger one, times microseconds, times without a zone are UTC.
    Raise ConnectError for a type that Connect does not have, or two columns of one name.
    """

    def __init__(self, arrow: "pyarrow.Schema", where: str) -> None:
        pa = needed("pyarrow")
        if len(dict.fromkeys(arrow.names)) < len(arrow.names):
            raise ConnectError(f"{where}: two columns have one name: {', '.join(arrow.names)}")
        try:
            fields = [(field, *_converted(pa, field.type)) for field in arrow]
        except TypeError as error:
            raise ConnectError(f"{where}: {error}") from error
        self._target = pa.schema([field.with_type(target) for field, target, _ in fields])
        self.schema = struct({field.name: _nullable(field, of) for field, _, of in fields})
        has_maps = any("map<" in str(field.type) for field in arrow)
        self._options: dict[str, Any] = {"maps_as_pydicts": "strict"} if has_maps else {}

    def values(self, batch: "pyarrow.RecordBatch") -> list[dict[str, Any]]:
        """Return a dict per row."""
        rows: list[dict[str, Any]] = batch.cast(self._target, safe=False).to_pylist(**self._options)
        return rows


def _nullable(field: "pyarrow.Field", schema: Schema) -> Schema:
    return schema.as_optional() if field.nullable else schema


def _converted(pa: Any, kind: "pyarrow.DataType") -> tuple["pyarrow.DataType", Schema]:
    simple = _SIMPLE.get(str(kind))
    if simple is not None:
        return getattr(pa, simple[0])(), simple[1]
    is_a = pa.types
    if is_a.is_uint64(kind):
        return pa.decimal128(20, 0), decimal(0)
    if is_a.is_decimal(kind):
        return kind, decimal(kind.scale)
    if is_a.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC"), TIMESTAMP_SCHEMA
    if is_a.is_time(kind):
        return pa.time64("us"), TIME_SCHEMA
    if is_a.is_fixed_size_binary(kind):
        return pa.binary(), BYTES
    if is_a.is_dictionary(kind):
        return _converted(pa, kind.value_type)
    if is_a.is_map(kind):
        keys, key_schema = _converted(pa, kind.key_type)
        items, item_schema = _converted(pa, kind.item_type)
        return pa.map_(keys, items), map_of(key_schema, item_schema.as_optional())
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        items, item_schema = _converted(pa, kind.value_type)
        return pa.list_(items), array(item_schema.as_optional())
    if is_a.is_struct(kind):
        fields = [(field, *_converted(pa, field.type)) for field in kind]
        target = pa.struct([field.with_type(each) for field, each, _ in fields])
        return target, struct({field.name: _nullable(field, of) for field, _, of in fields})
    raise TypeError(f"Arrow's type {kind} has no schema in Connect")
