"""A set of offsets as bitmaps of 65,536, for offsets that fill up from the oldest on.

Pure. A block costs 8 KiB while it fills; blocks below the lowest missing offset cost nothing.
"""

from collections.abc import Iterable
from typing import Final

BLOCK: Final = 1 << 16
_BYTES: Final = BLOCK // 8


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
