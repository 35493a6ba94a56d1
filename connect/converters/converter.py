"""The base classes of converters. A converter keeps no record and does no I/O.

A worker makes one per task for keys, one for values and one for headers, and gives it the settings
behind `key.converter.`, `value.converter.` or `header.converter.`
(org.apache.kafka.connect.storage).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..config_def import ConfigDef
from ..data import Schema

SchemaAndValue = tuple[Schema | None, Any]


class HeaderConverter:
    """Turns the values of headers into bytes and back. Every method raises DataError."""

    config: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, props: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings; raise BadConfig if one is wrong."""
        self.config.parse(props)

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of the header `key`."""
        raise NotImplementedError

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the bytes of the header `key` mean."""
        raise NotImplementedError


class Converter(HeaderConverter):
    """Turns keys or values into bytes and back, and headers likewise."""

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value for `topic`; None is a tombstone."""
        raise NotImplementedError

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema, if there is one, and the value of bytes of `topic`."""
        raise NotImplementedError

    def from_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of the header `key`, as of a value."""
        return self.from_connect(topic, schema, value)

    def to_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the bytes of the header `key` mean, as of a value."""
        return self.to_connect(topic, data)
