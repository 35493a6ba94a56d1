"""Joins and cuts the bytes of writes with TLS, where each write begins a record of its own."""

from collections.abc import Iterable, Iterator
from typing import Final

from ..protocol.types import Buffer

RECORD_BYTES: Final = 16 << 10
"""The most bytes of a TLS record."""
WRITE_MAX: Final = 256 << 10
"""The most bytes of a write. While the peer takes nothing, a transport with TLS counts all that is
written but the first write."""


def in_records(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """Join small parts and cut large ones, so that each piece is good for one write.

    A piece has at most WRITE_MAX bytes. Small parts are joined to more than RECORD_BYTES,
    unless a large one follows or there are no more.
    """
    small: list[Buffer] = []
    size = 0
    for part in parts:
        if len(part) < RECORD_BYTES:
            small.append(part)
            size += len(part)
            if size <= RECORD_BYTES:
                continue
        if small:
            yield b"".join(small)
            small, size = [], 0
        if len(part) >= RECORD_BYTES:
            view = memoryview(part)
            for start in range(0, len(view), WRITE_MAX):
                yield view[start : start + WRITE_MAX]
    if small:
        yield b"".join(small)
