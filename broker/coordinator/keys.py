"""The partition of an internal topic that keeps a key, computed as Kafka computes it.

Pure. Java's hash of a group id or transactional id chooses the partition that keeps it; the leader
of that partition is its coordinator.
"""

from functools import lru_cache
from typing import Final

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INT32_MIN: Final = -(2**31)
KEY_BYTES_MAX: Final = 2**15 - 1
"""The most bytes of UTF-8 in a string of a record's key; strings in requests may be longer."""
CACHED_MAX: Final = 256
"""The longest name, in characters, whose hash is cached; the bound keeps the cache small."""


def is_key(text: str) -> bool:
    """True if the text fits into a record's key."""
    return len(text) <= KEY_BYTES_MAX // 4 or len(text.encode()) <= KEY_BYTES_MAX


def java_hash(text: str) -> int:
    """Compute Java's `String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(key: str, count: int) -> int:
    """Return the key's partition among `count`: `abs(java_hash(key)) % count`, abs(MIN) being 0."""
    return (_absolute(key) if len(key) <= CACHED_MAX else _absolute.__wrapped__(key)) % count


@lru_cache(maxsize=16_384)
def _absolute(key: str) -> int:
    value = java_hash(key)
    return 0 if value == INT32_MIN else abs(value)
