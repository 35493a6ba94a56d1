"""Writes OpenTelemetry MetricsData v1 in protobuf: gauges and sums of one point each.

Source: opentelemetry-proto, metrics.proto and common.proto; the protobuf encoding guide.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_FIXED: Final = struct.Struct("<BQ")
_DOUBLE: Final = struct.Struct("<Bd")
_DELTA, _CUMULATIVE = 1, 2


def metrics_data(resource: Mapping[str, str], scope: tuple[str, str], metrics: bytes) -> bytes:
    """Write MetricsData of one resource and one scope; `scope` is the library's name and version.

    `metrics` has the joined results of calls of `metric`.
    """
    described = _part(1, _part(1, scope[0].encode()) + _part(2, scope[1].encode()))
    return _part(1, _part(1, _attributes(1, resource.items())) + _part(2, described + metrics))


def metric(name: str, unit: str, point: bytes, *, is_total: bool, is_delta: bool) -> bytes:
    """Write a metric of one `point`: a monotonic sum if `is_total`, else a gauge.

    With `is_delta`, the sum's value is the increase since the start time of the point.
    """
    named = _part(1, name.encode()) + _part(3, unit.encode())
    if not is_total:
        return _part(2, named + _part(5, _part(1, point)))
    kind = _number(2, _DELTA if is_delta else _CUMULATIVE) + _number(3, 1)
    return _part(2, named + _part(7, _part(1, point) + kind))


def number_point(
    value: float, start_ns: int, now_ns: int, attributes: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Write a point: a value with its start time and its time, both in ns since the epoch."""
    times = _FIXED.pack(2 << 3 | _FIXED64, start_ns) + _FIXED.pack(3 << 3 | _FIXED64, now_ns)
    return times + _DOUBLE.pack(4 << 3 | _FIXED64, value) + _attributes(7, attributes)


def _attributes(field: int, attributes: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(
        _part(field, _part(1, key.encode()) + _part(2, _part(1, value.encode())))
        for key, value in attributes
    )


def _part(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | _LENGTH]) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3 | _VARINT]) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
