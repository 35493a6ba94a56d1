"""Chooses the partitions of records without a key: a sticky one, for some bytes at a time.

Pure: the random numbers are passed in. Source: KIP-480 and KIP-794. The partition of a key is
`protocol.partitioning`'s.
"""

from collections.abc import Sequence
from typing import Protocol


class Dice(Protocol):
    """The part of `random.Random` that `StickyChoice` needs."""

    def randrange(self, stop: int, /) -> int:
        """Return a random number from 0 up to `stop` - 1."""


class StickyChoice:
    """Chooses the partitions of records without a key, a new one after `per_turn_bytes` of records.

    Batches fill sooner than if each record went elsewhere. The next partition is the one with fewer
    waiting bytes of two drawn at random, so that a slow broker gets fewer records.
    """

    __slots__ = ("_bytes_left", "_current", "_per_turn")

    def __init__(self, per_turn_bytes: int) -> None:
        self._per_turn = per_turn_bytes
        self._bytes_left = 0
        self._current = -1

    def choose(self, size: int) -> int:
        """Return the current partition for a record of `size` bytes; -1 if `turn` is due."""
        self._bytes_left -= size
        return self._current if self._bytes_left >= 0 else -1

    def turn(self, candidates: Sequence[int], queued: Sequence[int], dice: Dice) -> int:
        """Choose one of `candidates`, whose waiting bytes are `queued`, and return it.

        The caller passes partitions without a leader only if none has one.
        """
        first = dice.randrange(len(candidates))
        second = dice.randrange(len(candidates))
        if candidates[first] == self._current or queued[second] < queued[first]:
            first = second
        self._current = candidates[first]
        self._bytes_left = self._per_turn
        return self._current

    def give_up(self) -> None:
        """Make the next `choose` return -1, so that another partition is chosen."""
        self._bytes_left = 0
