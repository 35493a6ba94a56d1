"""Decodes keys and values for people: JSON, MessagePack, Avro files, text, numbers, hexadecimal.

Pure, and bounded: at most `MOST_BYTES` of a value are decoded.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from ....client.records import ConsumerRecord
from .avro import objects_in

MOST_BYTES: Final = 65_536
"""The most bytes of a key or value that are shown; larger JSON is shown as text and cut."""
BRIEF: Final = 240
"""The most characters of the one line that stands for a value in the list."""
FORMS: Final = ("auto", "json", "msgpack", "text", "hex", "avro")
_NUMBERS: Final = (4, 8)
"""The lengths in bytes of the integers and longs that Kafka's serializers write."""


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes that were decoded for display."""

    form: str
    """The form they were decoded as: null, empty, json, msgpack, text, number, hex or avro."""
    text: str
    size: int
    is_cut: bool = False

    @property
    def brief(self) -> str:
        """The text in one line, cut to BRIEF characters."""
        line = " ".join(self.text[: 2 * BRIEF].split())
        return line if len(line) <= BRIEF else line[:BRIEF] + "\u2026"


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record as it is shown."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Text
    value: Text
    headers: tuple[tuple[str, Text], ...]


Record = ConsumerRecord[bytes, bytes]


def row_of(record: Record, form: str) -> RecordRow:
    """Return the row of a record, with its value decoded in this form."""
    return RecordRow(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        text_of(record.key, "key"),
        text_of(record.value, form),
        tuple((name, text_of(value)) for name, value in record.headers),
    )


def text_of(data: bytes | None, form: str = "auto") -> Text:
    """Decode bytes; show them in hexadecimal if they are not of the wanted form."""
    if data is None:
        return Text("null", "", 0)
    if not data:
        return Text("empty", "", 0)
    for name in AUTOMATIC.get(form, (form,)):
        decoder = DECODERS.get(name)
        text = None if decoder is None else decoder(data)
        if text is not None:
            cut = text[:MOST_BYTES]
            return Text(
                name.removeprefix("auto "),
                cut,
                len(data),
                len(cut) < len(text) or len(data) > MOST_BYTES,
            )
    return Text("hex", _hex(data), len(data), len(data) > MOST_BYTES)


def json_of(data: bytes | None) -> Any:
    """Parse a JSON value; None if it is not JSON, too large, or nested too deeply."""
    if not data or len(data) > MOST_BYTES:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _json(data: bytes) -> str | None:
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    found = json_of(data)
    return None if found is None else _pretty(found)


def _any_json(data: bytes) -> str | None:
    found = json_of(data)
    return None if found is None else _pretty(found)


def _pretty(value: object) -> str | None:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=_odd)
    except (ValueError, RecursionError, TypeError):
        return None


def _odd(value: object) -> str:
    """Write a value that MessagePack or Avro can hold and JSON cannot."""
    return value.hex(" ") if isinstance(value, bytes) else str(value)


def _msgpack(data: bytes) -> str | None:
    if len(data) > MOST_BYTES:
        return None
    try:
        found = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, RecursionError, msgpack.UnpackException):
        return None
    # Any ASCII letter is a MessagePack number: only what has parts is taken for it.
    return _pretty(found) if isinstance(found, dict | list) else None


def _avro(data: bytes) -> str | None:
    found = None if len(data) > MOST_BYTES else objects_in(data)
    return None if found is None else _pretty(found)


def _text(data: bytes) -> str | None:
    try:
        text = data[:MOST_BYTES].decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        if error.start < MOST_BYTES - 3 or len(data) <= MOST_BYTES:
            return None
        text = data[: error.start].decode()
    odd = sum(not (one.isprintable() or one in "\r\n\t") for one in text)
    return text if odd == 0 else None


def _number(data: bytes) -> str | None:
    return str(int.from_bytes(data, signed=True)) if len(data) in _NUMBERS else None


def _any_text(data: bytes) -> str | None:
    return data[:MOST_BYTES].decode(errors="replace")


def _hex(data: bytes) -> str:
    return data[: MOST_BYTES // 3].hex(" ")


AUTOMATIC: Final = {
    "auto": ("auto json", "avro", "auto text", "msgpack"),
    "key": ("auto json", "auto text", "msgpack", "number"),
}
"""The forms that are tried in turn; for keys another order, because they are often numbers."""
DECODERS: Final[dict[str, Callable[[bytes], str | None]]] = {
    "auto json": _json,
    "auto text": _text,
    "avro": _avro,
    "json": _any_json,
    "msgpack": _msgpack,
    "number": _number,
    "text": _any_text,
}
