"""The partition of a key: murmur2 of its bytes, as Java's default partitioner computes it.

Pure. Source: `Utils.murmur2` and DefaultPartitioner of Java's client.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from .records import record_backend

KEPT_BYTES: Final = 64
"""The longest key whose hash is kept."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


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
def _hash_of_short(key: bytes) -> int:
    return _murmur2(key) & 0x7FFFFFFF


def key_hash(key: bytes) -> int:
    """Hash a key to a non-negative number.

    Short keys are kept with their hashes, because hashing is slow in Python. Long ones are not:
    some thousands of them may be gigabytes.
    """
    return _hash_of_short(key) if len(key) <= KEPT_BYTES else _murmur2(key) & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as Java's default partitioner does."""
    return key_hash(key) % partition_count
