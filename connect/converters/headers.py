"""SimpleHeaderConverter: headers as texts, of which the type is inferred."""

from typing import Any

from ..data import BYTES, DataError, Schema
from ..values import NOTHING, parse, text_of
from .converter import HeaderConverter, SchemaAndValue


class SimpleHeaderConverter(HeaderConverter):
    """Writes texts and infers types by `values.parse` (org.apache.kafka.connect.storage)."""

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of the value in UTF-8; bytes are base64."""
        if value is None:
            return None
        try:
            return text_of(value, schema).encode()
        except UnicodeEncodeError:
            raise DataError("a text with half a surrogate pair has no UTF-8") from None

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the text means; bytes that are no UTF-8 stay bytes."""
        if data is None:
            return NOTHING
        try:
            return parse(data.decode())
        except UnicodeDecodeError:
            return BYTES, data
