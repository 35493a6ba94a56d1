"""ByteArrayConverter: bytes as they are."""

from typing import Any

from ..data import BYTES, DataError, Schema, SchemaType
from ..logical import wrong_type
from .converter import Converter, SchemaAndValue

_OPTIONAL_BYTES = BYTES.as_optional()


class ByteArrayConverter(Converter):
    """Passes bytes through (org.apache.kafka.connect.converters.ByteArrayConverter)."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return `value`, which must be bytes or None."""
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise DataError(f"ByteArrayConverter writes bytes, not {schema.type.value}")
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise wrong_type("bytes", value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the bytes."""
        return _OPTIONAL_BYTES, data
