"""Turns records into lines, as Kafka's message formatters do.

A line has those of the following columns that were requested, in this order: CreateTime:123,
Partition:0, Offset:5, Delivery:NOT_PRESENT, Epoch:NOT_PRESENT, headers, key, value. The callers
print the line.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Protocol

from ...runtime.config import config_table, from_mapping, setting, settings_of
from ...runtime.errors import ConfigError
from ..records import ConsumerRecord
from .common import by_java_name

Deserializer = Callable[[bytes], bytes]


def _number(code: str) -> Deserializer:
    layout = struct.Struct(f">{code}")

    def deserialize(data: bytes) -> bytes:
        if len(data) != layout.size:
            raise ValueError(f"{len(data)} bytes, not the {layout.size} of a number")
        return str(layout.unpack(data)[0]).encode()

    return deserialize


def _text(data: bytes) -> bytes:
    return data.decode(errors="replace").encode()


DESERIALIZERS: dict[str, Deserializer] = {
    "ByteArrayDeserializer": bytes,
    "DoubleDeserializer": _number("d"),
    "IntegerDeserializer": _number("i"),
    "LongDeserializer": _number("q"),
    "ShortDeserializer": _number("h"),
    "StringDeserializer": _text,
}


@config_table
class FormatterConfig:
    """The columns to print."""

    print_timestamp: bool = setting(
        "print.timestamp", False, doc="Print the timestamp: CreateTime:123 or LogAppendTime:123."
    )
    print_partition: bool = setting(
        "print.partition", False, doc="Print the partition: Partition:0."
    )
    print_offset: bool = setting("print.offset", False, doc="Print the offset: Offset:5.")
    print_delivery: bool = setting(
        "print.delivery", False, doc="Print the delivery count, which only share groups have."
    )
    print_epoch: bool = setting("print.epoch", False, doc="Print the leader epoch.")
    print_headers: bool = setting(
        "print.headers", False, doc="Print the headers: name:value,name:value."
    )
    print_key: bool = setting("print.key", False, doc="Print the key.")
    print_value: bool = setting("print.value", True, doc="Print the value.")


SEPARATORS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ","}
"""Defaults of separators, kept outside the table because settings lose their blanks."""
NULL_LITERAL = "null.literal"
DESERIALIZER_KEYS = ("key.deserializer", "value.deserializer", "headers.deserializer")
KEYS = (
    *(row.key for row in settings_of(FormatterConfig)),
    *SEPARATORS,
    NULL_LITERAL,
    *DESERIALIZER_KEYS,
)


class Formatter(Protocol):
    """An object that turns a record into the bytes to print."""

    def format(self, record: ConsumerRecord) -> bytes:
        """Return the bytes to print; raise ValueError if a deserializer cannot read the record."""
        ...


class DefaultFormatter:
    """Kafka's DefaultMessageFormatter: it prints the requested columns."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        for key, value in properties.items():
            if key not in KEYS:
                why = f"no such property; known are {', '.join(KEYS)}"
                raise ConfigError(f"--formatter-property {key}", value, why)
        self._config = from_mapping(FormatterConfig, properties)
        separators = {k: properties.get(k, usual).encode() for k, usual in SEPARATORS.items()}
        self._column_separator = separators["key.separator"]
        self._line_separator = separators["line.separator"]
        self._headers_separator = separators["headers.separator"]
        self._null = properties.get(NULL_LITERAL, "null").encode()
        self._key, self._value, self._header = (
            find_deserializer(key, properties.get(key)) for key in DESERIALIZER_KEYS
        )

    def format(self, record: ConsumerRecord) -> bytes:
        """Return the wanted columns of a record as one line."""
        config = self._config
        columns: list[bytes] = []
        if config.print_timestamp:
            columns.append(_timestamp(record))
        if config.print_partition:
            columns.append(b"Partition:%d" % record.partition)
        if config.print_offset:
            columns.append(b"Offset:%d" % record.offset)
        if config.print_delivery:
            columns.append(b"Delivery:NOT_PRESENT")
        if config.print_epoch:
            epoch: int | None = getattr(record, "leader_epoch", None)
            columns.append(b"Epoch:NOT_PRESENT" if epoch is None else b"Epoch:%d" % epoch)
        if config.print_headers:
            columns.append(self._headers(record))
        if config.print_key:
            columns.append(self._shown(record.key, self._key))
        if config.print_value:
            columns.append(self._shown(record.value, self._value))
        if not columns:
            return b""
        return self._column_separator.join(columns) + self._line_separator

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            name.encode() + b":" + self._shown(value, self._header)
            for name, value in record.headers
        )

    def _shown(self, data: bytes | None, deserialize: Deserializer) -> bytes:
        return self._null if data is None else deserialize(data)


class LoggingFormatter(DefaultFormatter):
    """Kafka's LoggingMessageFormatter: it logs a line, and returns the default line."""

    def format(self, record: ConsumerRecord) -> bytes:
        """Log the record, and return the default formatter's line."""
        stamp = b"" if record.timestamp_ms < 0 else _timestamp(record) + b", "
        key = self._shown(record.key, self._key)
        value = self._shown(record.value, self._value)
        logged = stamp + b"key:" + key + b", value:" + value
        return super().format(record) + logged + b"\n"


class NoOpFormatter:
    """Kafka's NoOpMessageFormatter, which prints nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Accept any properties, and use none."""

    def format(self, record: ConsumerRecord) -> bytes:
        """Return no bytes: the record is not printed."""
        return b""


FORMATTERS: dict[str, Callable[[Mapping[str, str]], Formatter]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": NoOpFormatter,
}


def make_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """Make the formatter of this (Java class) name."""
    return by_java_name(FORMATTERS, name, "--formatter")(properties)


def find_deserializer(key: str, name: str | None) -> Deserializer:
    """Return the deserializer of this (Java class) name; without a name, the bytes unchanged."""
    return bytes if name is None else by_java_name(DESERIALIZERS, name, key)


def _timestamp(record: ConsumerRecord) -> bytes:
    if record.timestamp_ms < 0:
        return b"NO_TIMESTAMP"
    kind = b"LogAppendTime" if record.timestamp_type else b"CreateTime"
    return kind + b":%d" % record.timestamp_ms
