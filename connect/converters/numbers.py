"""Converters of single numbers and booleans: big-endian, of fixed width, as Java's serializers."""

import struct
from typing import Any, ClassVar

from ..data import BOOLEAN, FLOAT32, FLOAT64, INT16, INT32, INT64, DataError, Schema, SchemaType
from ..logical import wrong_type
from .converter import Converter, SchemaAndValue


class _NumberConverter(Converter):
    schema: ClassVar[Schema]
    form: ClassVar[struct.Struct]
    kinds: ClassVar[tuple[type, ...]] = (int,)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a number; raise DataError if it is none or does not fit."""
        if value is None:
            return None
        if type(value) not in self.kinds:
            raise wrong_type(self.schema.type.value, value)
        try:
            return self.form.pack(value)
        except (struct.error, OverflowError):
            raise DataError(f"{value} does not fit into {self.schema.type.value}") from None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the number; raise DataError if the bytes are too few or too many."""
        if data is None:
            return self.schema, None
        if len(data) != self.form.size:
            raise DataError(
                f"{self.schema.type.value} has {self.form.size} bytes, found {len(data)}"
            )
        return self.schema, self.form.unpack(data)[0]


class ShortConverter(_NumberConverter):
    """An integer of 16 bits."""

    schema, form = INT16.as_optional(), struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """An integer of 32 bits."""

    schema, form = INT32.as_optional(), struct.Struct(">i")


class LongConverter(_NumberConverter):
    """An integer of 64 bits."""

    schema, form = INT64.as_optional(), struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """A float of 32 bits."""

    schema, form, kinds = FLOAT32.as_optional(), struct.Struct(">f"), (float, int)


class DoubleConverter(_NumberConverter):
    """A float of 64 bits."""

    schema, form, kinds = FLOAT64.as_optional(), struct.Struct(">d"), (float, int)


class BooleanConverter(Converter):
    """A boolean as one byte, 0 or 1 (KIP-907)."""

    _schema = BOOLEAN.as_optional()

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the byte of a boolean."""
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise DataError(f"BooleanConverter writes booleans, not {schema.type.value}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise wrong_type("boolean", value)
        return b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the boolean; raise DataError if the bytes are neither 0 nor 1."""
        if data is None:
            return self._schema, None
        if data not in (b"\x00", b"\x01"):
            raise DataError("a boolean is one byte, 0 or 1")
        return self._schema, data == b"\x01"
