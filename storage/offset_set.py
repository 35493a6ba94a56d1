"""A set of offsets as bitmaps of 65,536, for offsets that fill up from the oldest on.

Pure. A block costs 8 KiB while it fills; blocks below the lowest missing offset cost nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

BLOCK: Final = 1 << 16
_BYTES: Final = BLOCK // 8
_NONE: Final = bytes(_BYTES)


class FinishedOffsets(Protocol):
    """The offsets of a log whose records nobody needs any more."""

    def count(self, start: int, end: int) -> int:
        """Return about how many there are from `start` on, below `end`."""

    def part(self, start: int, end: int) -> "OffsetSet":
        """Return those from `start` on, below `end`."""


class OffsetSet:
    """Offsets that were added; all below `lowest`, the lowest one that is missing, are in it."""

    __slots__ = ("_blocks", "lowest")

    def __init__(self, lowest: int = 0) -> None:
        self._blocks: dict[int, bytearray] = {}
        self.lowest = lowest

    def __contains__(self, offset: int) -> bool:
        if offset < self.lowest:
            return True
        bits = self._blocks.get(offset // BLOCK)
        at = offset % BLOCK
        return bits is not None and bool(bits[at >> 3] & 1 << (at & 7))

    def part(self, start: int, end: int, but: Iterable[int] = ()) -> "OffsetSet":
        """Return a copy of the part from `start` to `end`, without the offsets in `but`.

        Offsets below `start` are in the copy, those from `end` on perhaps.
        """
        made = OffsetSet(start)
        for number in range(start // BLOCK, (max(start, end - 1)) // BLOCK + 1):
            bits = bytearray(self._blocks.get(number, _NONE))
            full = min(max(0, self.lowest - number * BLOCK), BLOCK)
            bits[: full >> 3] = b"\xff" * (full >> 3)
            if full & 7:
                bits[full >> 3] |= (1 << (full & 7)) - 1
            made._blocks[number] = bits
        for offset in but:
            at = offset % BLOCK
            made._blocks[offset // BLOCK][at >> 3] &= ~(1 << (at & 7))
        return made

    def count(self, start: int, end: int) -> int:
        """Return how many offsets from `start` on, below `end`, are in the set."""
        found = max(0, min(end, self.lowest) - start)
        first = max(start, self.lowest)
        for number in range(first // BLOCK, (end - 1) // BLOCK + 1) if first < end else ():
            bits = int.from_bytes(self._blocks.get(number, b""), "little")
            base = number * BLOCK
            low, high = max(first - base, 0), min(end - base, BLOCK)
            found += (bits >> low & (1 << (high - low)) - 1).bit_count()
        return found

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return the blocks that are not full, each with its number, for `put_block`."""
        return ((number, bytes(bits)) for number, bits in self._blocks.items())

    def put_block(self, number: int, bits: bytes) -> None:
        """Add the offsets of one block; raise ValueError if it has another size."""
        if len(bits) != _BYTES:
            raise ValueError(f"a block of {len(bits)} bytes")
        self._blocks[number] = bytearray(bits)

    def add(self, offset: int) -> None:
        """Add an offset; adding it again changes nothing."""
        if offset == self.lowest:
            self.rise_to(offset + 1)
        elif offset > self.lowest:
            bits = self._blocks.get(offset // BLOCK)
            if bits is None:
                bits = self._blocks[offset // BLOCK] = bytearray(_BYTES)
            at = offset % BLOCK
            bits[at >> 3] |= 1 << (at & 7)

    def add_all(self, offsets: Iterable[int]) -> None:
        """Add every offset."""
        for offset in offsets:
            self.add(offset)

    def rise_to(self, offset: int) -> None:
        """Add every offset below `offset`."""
        if offset <= self.lowest:
            return
        before, self.lowest = self.lowest, offset
        while (bits := self._blocks.get(self.lowest // BLOCK)) is not None:
            at = self.lowest % BLOCK
            if not at & 7 and bits[at >> 3] == 0xFF:
                self.lowest += 8
            elif bits[at >> 3] & 1 << (at & 7):
                self.lowest += 1
            else:
                break
        if before // BLOCK != self.lowest // BLOCK:
            full = self.lowest // BLOCK
            self._blocks = {at: bits for at, bits in self._blocks.items() if at >= full}
