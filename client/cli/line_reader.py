"""Turns lines of text into records, as Kafka's LineMessageReader does.

    line:    [headers headers.delimiter] [key key.separator] value
    headers: name headers.key.separator value (headers.separator ...)*

Lines are bytes, and need not be UTF-8. The callers read the lines and send the records.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ...runtime.config import config_table, from_mapping, setting, settings_of
from ...runtime.errors import ConfigError, MinikafkaError


class BadLine(MinikafkaError):
    """Raised if a line lacks a part that the properties require, or a header's name is null."""


class LineRecord(NamedTuple):
    """The record that one line describes."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@config_table
class ReaderConfig:
    """The keys of `--reader-property`."""

    parse_key: bool = setting("parse.key", False, doc="Each line begins with a key.")
    parse_headers: bool = setting("parse.headers", False, doc="Each line begins with headers.")
    ignore_error: bool = setting(
        "ignore.error", False, doc="A line without the required parts becomes a value as a whole."
    )


SEPARATORS = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
"""The default separators. They are not declared as settings, because a setting's blanks are
stripped."""
NULL_MARKER = "null.marker"
KEYS = (*(row.key for row in settings_of(ReaderConfig)), *SEPARATORS, NULL_MARKER)


class LineReader:
    """Parses lines into records, as the properties of --reader-property say."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        for key, value in properties.items():
            if key not in KEYS:
                why = f"no such property; known are {', '.join(KEYS)}"
                raise ConfigError(f"--reader-property {key}", value, why)
            if key in SEPARATORS and not value:
                raise ConfigError(f"--reader-property {key}", None, "must not be empty")
        self._config = from_mapping(ReaderConfig, properties)
        separators = {key: properties.get(key, usual) for key, usual in SEPARATORS.items()}
        if separators["headers.separator"] == separators["headers.key.separator"]:
            raise ConfigError(
                "--reader-property headers.separator",
                separators["headers.separator"],
                "must differ from headers.key.separator",
            )
        encoded = {key: text.encode() for key, text in separators.items()}
        self._key_separator = encoded["key.separator"]
        self._headers_delimiter = encoded["headers.delimiter"]
        self._headers_separator = encoded["headers.separator"]
        self._header_key_separator = encoded["headers.key.separator"]
        marker = properties.get(NULL_MARKER)
        self._null = None if marker is None else marker.encode()

    def read(self, line: bytes, number: int) -> LineRecord:
        """Parse one line, given without its line end. `number` is for the message of an error.

        Raise BadLine if a separator is missing, unless ignore.error is set, or if a header's name
        is the null marker.
        """
        headers, key, value = None, None, line
        if self._config.parse_headers:
            what = "headers delimiter"
            headers, value = self._part(value, self._headers_delimiter, what, (line, number))
        if self._config.parse_key:
            key, value = self._part(value, self._key_separator, "key separator", (line, number))
        return LineRecord(
            self._nullable(key),
            self._nullable(value),
            self._headers(headers, number) if self._nullable(headers) else (),
        )

    def _part(
        self, text: bytes, separator: bytes, what: str, line: tuple[bytes, int]
    ) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._config.ignore_error:
            return None, text
        shown = line[0].decode(errors="replace")
        raise BadLine(f"No {what} found on line number {line[1]}: '{shown}'")

    def _nullable(self, text: bytes | None) -> bytes | None:
        return None if text == self._null else text

    def _headers(self, text: bytes | None, number: int) -> tuple[tuple[str, bytes | None], ...]:
        pairs: list[tuple[str, bytes | None]] = []
        for pair in (text or b"").split(self._headers_separator):
            name, found, value = pair.partition(self._header_key_separator)
            if not found and not self._config.ignore_error:
                shown = pair.decode(errors="replace")
                raise BadLine(
                    f"No header key separator found in pair '{shown}' on line number {number}"
                )
            if name == self._null:
                raise BadLine(f"A header key on line number {number} is the null marker")
            pairs.append((name.decode(errors="replace"), self._nullable(value) if found else None))
        return tuple(pairs)
