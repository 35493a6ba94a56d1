"""The newest offset of each key, within a bound of memory: the map of one round of compaction.

Pure. A round that meets more keys than fit ends at the first key that does not fit; the next round
begins there.
"""

from hashlib import blake2b

BYTES_PER_KEY = 200
"""Bytes that one entry may cost: its key or digest, its offset, and its share of the table."""
_LONGEST = 16
# One byte more than any key that is kept as it is: the two kinds can never be equal.
_DIGEST_SIZE = _LONGEST + 1


class KeyOffsets:
    """Keys and the offset of the newest record of each."""

    __slots__ = ("_newest", "_room")

    def __init__(self, max_bytes: int) -> None:
        self._newest: dict[bytes, int] = {}
        self._room = max(max_bytes // BYTES_PER_KEY, 1)

    def __len__(self) -> int:
        return len(self._newest)

    def put(self, key: bytes, offset: int) -> bool:
        """Record the offset of a key's record; calls come in the order of offsets.

        Return False if there is no room for another key.
        """
        short = _short(key)
        if short not in self._newest and len(self._newest) >= self._room:
            return False
        self._newest[short] = offset
        return True

    def is_newest(self, key: bytes, offset: int) -> bool:
        """True if no record of the key with a greater offset is known."""
        return offset >= self._newest.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    return key if len(key) <= _LONGEST else blake2b(key, digest_size=_DIGEST_SIZE).digest()
