"""Reads OpenTelemetry MetricsData v1 in protobuf: gauges and sums, within bounds.

The bytes come from any client. The reader opens only the messages that it knows and skips other
fields, so the depth is fixed. It stops after the number of fields or samples that the caller sets.
Source: opentelemetry-proto, metrics.proto and common.proto; the protobuf encoding guide.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from .errors import RemoteProtocolError
from .types import Buffer

TEXT_MAX: Final = 255
"""The most bytes of a metric's name, and of the key or value of an attribute."""
ATTRIBUTES_MAX: Final = 16
"""The most attributes of one sample, and of one resource.

A sample with more is left out; of a resource with more, all attributes are left out.
"""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_SIGN: Final = 1 << 63

# Tags: the number of a field and its wire type. A field of another wire type is not known.
_RESOURCE_METRICS: Final = 1 << 3 | _LENGTH
_RESOURCE: Final = 1 << 3 | _LENGTH
_SCOPE_METRICS: Final = 2 << 3 | _LENGTH
_RESOURCE_ATTRIBUTE: Final = 1 << 3 | _LENGTH
_METRIC: Final = 2 << 3 | _LENGTH
_NAME: Final = 1 << 3 | _LENGTH
_GAUGE: Final = 5 << 3 | _LENGTH
_SUM: Final = 7 << 3 | _LENGTH
_POINT: Final = 1 << 3 | _LENGTH
_TEMPORALITY: Final = 2 << 3 | _VARINT
_IS_MONOTONIC: Final = 3 << 3 | _VARINT
_AS_DOUBLE: Final = 4 << 3 | _FIXED64
_AS_INT: Final = 6 << 3 | _FIXED64
_POINT_ATTRIBUTE: Final = 7 << 3 | _LENGTH
_KEY: Final = 1 << 3 | _LENGTH
_VALUE: Final = 2 << 3 | _LENGTH
_STRING: Final = 1 << 3 | _LENGTH
_BOOL: Final = 2 << 3 | _VARINT
_INT: Final = 3 << 3 | _VARINT
_FLOAT: Final = 4 << 3 | _FIXED64
_DELTA: Final = 1


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    attributes: dict[str, str]
    value: float
    is_counter: bool
    """True if the value is a sum that only grows."""
    is_delta: bool
    """True if the value is only the increase since the last push."""


class Pushed(NamedTuple):
    """The resource and the samples of one MetricsData."""

    resource: dict[str, str]
    """The attributes of the resource, which is the client."""
    samples: list[Sample]
    is_whole: bool
    """False if something was left out because a bound was reached."""


def read_metrics(data: Buffer, *, samples_max: int, fields_max: int) -> Pushed:
    """Read the gauges and sums of MetricsData; other kinds of metrics are skipped.

    At most `fields_max` fields are read, in about a microsecond each. Raises RemoteProtocolError if
    the bytes are no protobuf message.
    """
    reader = _Reader(samples_max, fields_max)
    try:
        reader.read(memoryview(data))
    except _BeyondBound:
        reader.is_whole = False
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"OTLP: a text is not UTF-8: {error}") from error
    return Pushed(reader.resource, reader.samples, reader.is_whole)


class _BeyondBound(Exception):
    """Raised when a bound is reached, so that reading ends."""


class _Reader:
    """Reads one MetricsData."""

    def __init__(self, samples_max: int, fields_max: int) -> None:
        self.resource: dict[str, str] = {}
        self.samples: list[Sample] = []
        self.is_whole = True
        self._samples_max = samples_max
        self._fields_left = fields_max

    def read(self, view: memoryview) -> None:
        for tag, part in self._fields(view):
            if tag == _RESOURCE_METRICS:
                for inner, one in self._fields(part):
                    if inner == _RESOURCE:
                        parts = [each for k, each in self._fields(one) if k == _RESOURCE_ATTRIBUTE]
                        self.resource.update(self._attributes(parts) or {})
                    elif inner == _SCOPE_METRICS:
                        self._scope(one)

    def _scope(self, view: memoryview) -> None:
        for tag, part in self._fields(view):
            if tag == _METRIC:
                self._metric(part)

    def _metric(self, view: memoryview) -> None:
        name: str | None = ""
        data, is_sum = None, False
        for tag, part in self._fields(view):
            if tag == _NAME:
                name = _text(part)
            elif tag in (_GAUGE, _SUM):
                data, is_sum = part, tag == _SUM
        if data is None:
            return
        points: list[memoryview] = []
        temporality = is_monotonic = 0
        for tag, part in self._fields(data):
            if tag == _POINT:
                points.append(part)
            elif tag == _TEMPORALITY:
                temporality = part
            elif tag == _IS_MONOTONIC:
                is_monotonic = part
        is_counter = is_sum and bool(is_monotonic)
        for point in points:
            self._point(point, name, is_counter, is_sum and temporality == _DELTA)

    def _point(self, view: memoryview, name: str | None, is_counter: bool, is_delta: bool) -> None:
        if len(self.samples) >= self._samples_max:
            raise _BeyondBound
        value: float | None = None
        parts: list[memoryview] = []
        for tag, part in self._fields(view):
            if tag == _POINT_ATTRIBUTE:
                parts.append(part)
            elif tag == _AS_DOUBLE:
                (value,) = _DOUBLE.unpack(part)
            elif tag == _AS_INT:
                (value,) = _INT64.unpack(part)
        attributes = self._attributes(parts)
        if not name or attributes is None:
            self.is_whole = False
        elif value is not None:
            self.samples.append(Sample(name, attributes, value, is_counter, is_delta))

    def _attributes(self, parts: list[memoryview]) -> dict[str, str] | None:
        """Return the attributes by key, or None if they are too many or one is too long."""
        found: dict[str, str] = {}
        for part in parts:
            key, value = self._attribute(part)
            if key is None or value is None or len(found) == ATTRIBUTES_MAX:
                self.is_whole = False
                return None
            found[key] = value
        return found

    def _attribute(self, view: memoryview) -> tuple[str | None, str | None]:
        """Return key and value; a text too long is None, a list or map as value is empty."""
        key: str | None = ""
        value: str | None = ""
        for tag, part in self._fields(view):
            if tag == _KEY:
                key = _text(part)
            elif tag == _VALUE:
                for kind, one in self._fields(part):
                    if kind == _STRING:
                        value = _text(one)
                    elif kind == _BOOL:
                        value = "true" if one else "false"
                    elif kind == _INT:
                        value = str(one - 2 * _SIGN if one >= _SIGN else one)
                    elif kind == _FLOAT:
                        value = str(_DOUBLE.unpack(one)[0])
        return key, value

    def _fields(self, view: memoryview) -> Iterator[tuple[int, Any]]:
        """Yield tag and value of each field: an int if it is a varint, else its bytes.

        Raise RemoteProtocolError if the bytes are no protobuf message.
        """
        position, end = 0, len(view)
        while position < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _BeyondBound
            tag, position = _varint(view, position)
            wire = tag & 7
            if tag < 8:
                raise RemoteProtocolError("OTLP: a field has the number 0")
            if wire == _VARINT:
                number, position = _varint(view, position)
                yield tag, number
                continue
            if wire == _LENGTH:
                size, position = _varint(view, position)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise RemoteProtocolError(f"OTLP: a field has the wire type {wire}")
            if size > end - position:
                raise RemoteProtocolError("OTLP: the bytes end inside a field")
            yield tag, view[position : position + size]
            position += size


def _text(view: memoryview) -> str | None:
    """Decode a text; return None if it has more than TEXT_MAX bytes."""
    return str(view, "utf-8") if len(view) <= TEXT_MAX else None


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned number of up to 64 bits, and the position behind it.

    Raise RemoteProtocolError if the number has no end.
    """
    if position < len(view) and view[position] < 0x80:
        return view[position], position + 1
    value = shift = 0
    for byte in view[position : position + _VARINT_BYTES_MAX]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2 * _SIGN - 1), position
        shift += 7
    raise RemoteProtocolError("OTLP: a number has no end")
