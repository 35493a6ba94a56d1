"""The partition of an internal topic that keeps a key, as every Kafka client computes it.

Pure. A group or a transactional id lives on the partition that Java's hash of its name gives; the
leader of that partition is its coordinator.
"""

from functools import lru_cache
from typing import Final

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INT32_MIN: Final = -(2**31)
KEY_BYTES_MAX: Final = 2**15 - 1
"""The most bytes of UTF-8 in a string of a record's key; requests carry longer strings."""
CACHED_MAX: Final = 256
"""Longer names are hashed each time, so that strangers cannot fill the memory with them."""


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
    """Return the key's partition of `count`: `Utils.abs(hash) % count`, with abs(MIN) = 0."""
    return (_absolute(key) if len(key) <= CACHED_MAX else _absolute.__wrapped__(key)) % count


@lru_cache(maxsize=16_384)
def _absolute(key: str) -> int:
    value = java_hash(key)
    return 0 if value == INT32_MIN else abs(value)
