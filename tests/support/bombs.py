"""Batches that are small on the wire and large in memory, and a check of who opens them."""

from typing import Any

import pytest

from minikafka.protocol import compression
from minikafka.protocol.compression import Codec
from minikafka.protocol.records.record_batch import BatchBuilder, build

LARGE = 8 << 20


def one_large(
    timestamp: int, key: bytes | None = b"k", size: int = LARGE, codec: Codec = Codec.ZSTD
) -> bytearray:
    """Build a batch of one record of zeros, which is a thousand times smaller on the wire."""
    return build([(timestamp, key, bytes(size))], compression=codec)


def many_small(timestamp: int, count: int, key: bytes | None = b"k") -> bytearray:
    """Build a batch of `count` records of some bytes each."""
    builder = BatchBuilder(Codec.ZSTD)
    keys = None if key is None else [key] * count
    builder.extend(timestamp, [b""] * count, keys, 0, 1 << 30)
    return builder.build()


class Expanded:
    """The sizes of the buffers that this process gave to zstd to decompress into."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        real: Any = compression._WRITE_INTO[Codec.ZSTD]

        def write_into(data: Any, out: bytearray) -> int:
            self.sizes.append(len(out))
            written: int = real(data, out)
            return written

        monkeypatch.setitem(compression._WRITE_INTO, Codec.ZSTD, write_into)

    @property
    def largest(self) -> int:
        return max(self.sizes, default=0)
