"""OTLP metrics as a client writes them: protobuf built by hand, valid and invalid."""

import struct
from collections.abc import Iterable

DELTA, CUMULATIVE = 1, 2


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value % (1 << 64))


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def fixed(field: int, value: int) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<q", value)


def part(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: str | int | float | bool) -> bytes:
    if isinstance(value, str):
        told = part(1, value)
    elif isinstance(value, bool):
        told = number(2, value)
    elif isinstance(value, int):
        told = number(3, value)
    else:
        told = double(4, value)
    return part(1, key) + part(2, told)


def point(value: float, **attributes: str | int | float | bool) -> bytes:
    """Build a data point, with the times that clients write."""
    told = b"".join(part(7, attribute(key, one)) for key, one in attributes.items())
    measured = fixed(6, value) if isinstance(value, int) else double(4, value)
    return told + fixed(2, 1) + fixed(3, 2) + measured


def gauge(name: str, *points: bytes) -> bytes:
    described = part(1, name) + part(2, "a description") + part(3, "ms")
    return described + part(5, b"".join(part(1, each) for each in points))


def total(name: str, *points: bytes, temporality: int = CUMULATIVE, grows: bool = True) -> bytes:
    """Build a sum; as in clients' bytes, its kind comes after its points."""
    told = b"".join(part(1, each) for each in points)
    kind = number(2, temporality) + number(3, grows)
    return part(1, name) + part(7, told + kind)


def metrics_data(*metrics: bytes, resource: Iterable[tuple[str, str]] = ()) -> bytes:
    who = part(1, b"".join(part(1, attribute(key, value)) for key, value in resource))
    scope = part(1, part(1, "a client") + part(2, "1.0"))
    return part(1, who + part(2, scope + b"".join(part(2, each) for each in metrics)))
