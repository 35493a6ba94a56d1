"""Tables of varints by number, so that a codec in Python looks up what it would compute."""

from typing import Final

from ..primitives import encode_varint

VARINTS: Final = [bytes((n << 1,)) for n in range(64)] + [
    bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 8192)
]
"""Zigzag varints of 0..8191, the lengths and deltas of almost every record: one or two bytes."""


class VarintTable(dict[int, bytes]):
    """The varint of each length between fixed bytes, made on first use.

    `map` looks entries up without a call in Python.
    """

    def __init__(self, before: bytes, after: bytes = b"", plus: int = 0) -> None:
        super().__init__()
        self.parts = before, after, plus

    def __missing__(self, size: int) -> bytes:
        before, after, plus = self.parts
        made = before + varint(size + plus) + after
        if len(self) < 1 << 16:
            self[size] = made
        return made


class SizedTable(dict[int, int]):
    """The size of a key or value together with its length varint, by its length."""

    def __missing__(self, size: int) -> int:
        made = size + len(varint(size))
        if len(self) < 1 << 16:
            self[size] = made
        return made


def varint(value: int) -> bytes:
    """Return a number as a zigzag varint."""
    return VARINTS[value] if 0 <= value < 8192 else encode_varint(value)
