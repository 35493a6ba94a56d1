"""Chooses a record's partition by murmur2 of its key, as Java's clients do, or a sticky one.

Pure: the random numbers are passed in. Source: Java's `Utils.murmur2` and DefaultPartitioner;
KIP-480 and KIP-794 for records without a key.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from ...protocol.records import record_backend

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


class Dice(Protocol):
    """The part of `random.Random` that `StickyChoice` needs."""

    def randrange(self, stop: int, /) -> int:
        """Return a random number from 0 up to `stop` - 1."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 as Java's Kafka clients compute it, as an unsigned 32-bit number."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for k in memoryview(data)[:whole].cast("I") if _IS_LITTLE_ENDIAN else _words(data, whole):
        k = k * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    rest = length - whole
    if rest:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


def _words(data: bytes, whole: int) -> Sequence[int]:
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, whole, 4)]


_IS_LITTLE_ENDIAN: Final = memoryview(b"\x01\x00\x00\x00").cast("I")[0] == 1


_murmur2: Final[Callable[[bytes], int]] = (
    murmur2 if record_backend.compiled is None else record_backend.compiled.murmur2
)


@lru_cache(maxsize=8192)
def key_hash(key: bytes) -> int:
    """Hash a key to a non-negative number; cached, because hashing is slow in Python."""
    return _murmur2(key) & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as Java's default partitioner does."""
    return key_hash(key) % partition_count


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
