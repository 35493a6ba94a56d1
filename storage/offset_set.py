"""A set of offsets as bitmaps of 65,536, for offsets that fill up from the oldest on.

Pure. A block costs 8 KiB while it fills. Full blocks share one bitmap, and blocks below the lowest
missing offset cost nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

BLOCK: Final = 1 << 16
_BYTES: Final = BLOCK // 8
_NONE: Final = bytes(_BYTES)
_FULL: Final = b"\xff" * _BYTES


class FinishedOffsets(Protocol):
    """The offsets of a log whose records nobody needs any more."""

    def count(self, start: int, end: int) -> int:
        """Return about how many there are from `start` on, below `end`."""

    def part(self, start: int, end: int) -> "OffsetSet":
        """Return those from `start` on, below `end`."""


class OffsetSet:
    """Offsets that were added; all below `lowest`, the lowest one that is missing, are in it."""

    __slots__ = ("_above", "_blocks", "lowest")

    def __init__(self, lowest: int = 0) -> None:
        self._blocks: dict[int, bytearray | bytes] = {}
        self._above = 0
        self.lowest = lowest

    def __contains__(self, offset: int) -> bool:
        if offset < self.lowest:
            return True
        bits = self._blocks.get(offset // BLOCK)
        at = offset % BLOCK
        return bits is not None and bool(bits[at >> 3] & 1 << (at & 7))

    def missing(self, end: int) -> int:
        """Return how many offsets below `end` are missing, if none from `end` on was added."""
        return max(end - self.lowest, 0) - self._above

    def part(self, start: int, end: int, but: Iterable[int] = ()) -> "OffsetSet":
        """Return a copy of the part from `start` to `end`, without the offsets in `but`.

        Offsets below `start` are in the copy, those from `end` on perhaps. It is for looking up.
        """
        made = OffsetSet(start)
        copied: dict[int, bytearray] = {}
        for number in range(start // BLOCK, (max(start, end - 1)) // BLOCK + 1):
            bits = copied[number] = bytearray(self._blocks.get(number, _NONE))
            full = min(max(0, self.lowest - number * BLOCK), BLOCK)
            bits[: full >> 3] = b"\xff" * (full >> 3)
            if full & 7:
                bits[full >> 3] |= (1 << (full & 7)) - 1
        for offset in but:
            at = offset % BLOCK
            copied[offset // BLOCK][at >> 3] &= ~(1 << (at & 7))
        made._blocks.update(copied)
        return made

    def count(self, start: int, end: int) -> int:
        """Return how many offsets from `start` on, below `end`, are in the set."""
        return max(0, min(end, self.lowest) - start) + self._count(max(start, self.lowest), end)

    def _count(self, start: int, end: int) -> int:
        """Return how many offsets of the blocks are from `start` on, below `end`."""
        found = 0
        for number in range(start // BLOCK, (end - 1) // BLOCK + 1) if start < end else ():
            bits = self._blocks.get(number)
            if bits is not None:
                base = number * BLOCK
                low, high = max(start - base, 0), min(end - base, BLOCK)
                whole = int.from_bytes(bits, "little")
                found += (whole >> low & (1 << (high - low)) - 1).bit_count()
        return found

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Return the blocks from `lowest` on, each with its number, for `put_block`.

        A full one is told without its bits.
        """
        return (
            (number, b"" if bits is _FULL else bytes(bits)) for number, bits in self._blocks.items()
        )

    def put_block(self, number: int, bits: bytes) -> None:
        """Add the offsets of one block; raise ValueError if it has another size."""
        if len(bits) not in (0, _BYTES):
            raise ValueError(f"a block of {len(bits)} bytes")
        self._blocks[number] = bytearray(bits) if bits and bits != _FULL else _FULL
        start = number * BLOCK
        self._above += self._count(max(start, self.lowest), start + BLOCK)

    def add(self, offset: int) -> None:
        """Add an offset; adding it again changes nothing."""
        if offset == self.lowest:
            self.rise_to(offset + 1)
            return
        if offset < self.lowest:
            return
        number, at = divmod(offset, BLOCK)
        bits = self._blocks.get(number)
        if bits is None:
            bits = self._blocks[number] = bytearray(_BYTES)
        bit = 1 << (at & 7)
        byte = bits[at >> 3]
        if byte & bit:
            return
        assert isinstance(bits, bytearray)
        bits[at >> 3] = byte | bit
        self._above += 1
        if byte | bit == 0xFF and bits == _FULL:
            self._blocks[number] = _FULL

    def add_all(self, offsets: Iterable[int]) -> None:
        """Add every offset."""
        for offset in offsets:
            self.add(offset)

    def add_range(self, start: int, end: int) -> None:
        """Add every offset from `start` on, below `end`."""
        if start <= self.lowest:
            self.rise_to(end)
            return
        for number in range(start // BLOCK, (end - 1) // BLOCK + 1) if start < end else ():
            base = number * BLOCK
            low, high = max(start - base, 0), min(end - base, BLOCK)
            whole = int.from_bytes(self._blocks.get(number, b""), "little")
            self._above -= whole.bit_count()
            whole |= (1 << high) - (1 << low)
            self._above += whole.bit_count()
            bits = bytearray(whole.to_bytes(_BYTES, "little"))
            self._blocks[number] = _FULL if bits == _FULL else bits

    def rise_to(self, offset: int) -> None:
        """Add every offset below `offset`."""
        if offset <= self.lowest:
            return
        before, lowest = self.lowest, offset
        if self._above and offset - before > 1:
            self._above -= self._count(before, offset)
        while (bits := self._blocks.get(lowest // BLOCK)) is not None:
            at = lowest % BLOCK
            if not at and bits is _FULL:
                lowest += BLOCK
            elif not at & 7 and bits[at >> 3] == 0xFF:
                lowest += 8
            elif bits[at >> 3] & 1 << (at & 7):
                lowest += 1
            else:
                break
        self._above -= lowest - offset
        self.lowest = lowest
        if before // BLOCK != lowest // BLOCK:
            full = lowest // BLOCK
            self._blocks = {at: bits for at, bits in self._blocks.items() if at >= full}
