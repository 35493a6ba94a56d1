"""Compression of record batches: gzip, snappy, lz4 and zstd, through cramjam, within bounds.

Output is decompressed into a buffer that grows to at most the caller's limit, which bounds the cost
of a decompression bomb. Compressed output is in formats that every Kafka client reads: raw snappy
(not snappy's own stream format) and lz4 frames of independent blocks without checksums.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, Final

import cramjam

from .errors import RemoteProtocolError
from .types import Buffer


class Codec(IntEnum):
    """The compression codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""The default limit of decompressed bytes: enough for 1 MB at the highest ratios of real data."""

# No codec can expand further than this; zstd has no useful limit of its own.
_HIGHEST_RATIO: Final = {Codec.GZIP: 1_033, Codec.SNAPPY: 32, Codec.LZ4: 256, Codec.ZSTD: 1 << 30}
_WRITE_INTO: Final[dict[Codec, Callable[[Buffer, bytearray], int]]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_INT32: Final = struct.Struct(">i")

# magic, FLG = version 1 + independent blocks (Java refuses linked ones), BD = block size, checksum
# byte: the second byte of xxh32(FLG, BD), a constant for each of these two.
_LZ4_SMALL: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_LARGE: Final = bytes.fromhex("04224d18 60 70 73")
_LZ4_SMALL_BLOCK: Final = 64 * 1024
_LZ4_LARGE_BLOCK: Final = 4 * 1024 * 1024
_LZ4_STORED: Final = 1 << 31


class ExpandsTooFar(RemoteProtocolError):
    """The output is larger than the caller's limit; the data need not be damaged."""


def compress(codec: Codec, data: Buffer) -> Buffer:
    """Compress the records of a batch; with NONE, return `data` itself."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return _view(cramjam.gzip.compress(data, level=1))
    if codec == Codec.SNAPPY:
        return _view(cramjam.snappy.compress_raw(data))
    if codec == Codec.LZ4:
        return _lz4_frame(data)
    return _view(cramjam.zstd.compress(data, level=1))


def decompress(codec: Codec, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress the output of `compress` or of any Kafka client.

    Raises RemoteProtocolError if the data is damaged, and its subclass ExpandsTooFar if the output
    is larger than `max_bytes`. Time and memory are bounded by `max_bytes`.
    """
    if codec == Codec.NONE:
        return bytes(data)
    try:
        if codec == Codec.SNAPPY:
            return _snappy(memoryview(data), max_bytes)
        return _grow_until_it_fits(codec, data, max_bytes)
    except cramjam.DecompressionError as error:
        raise RemoteProtocolError(f"{codec.name.lower()}: {error}") from error


def _view(compressed: Any) -> memoryview:
    return memoryview(compressed)


def _lz4_frame(data: Buffer) -> bytes:
    view = memoryview(data)
    small = len(view) <= _LZ4_SMALL_BLOCK
    block_size = _LZ4_SMALL_BLOCK if small else _LZ4_LARGE_BLOCK
    parts: list[Buffer] = [_LZ4_SMALL if small else _LZ4_LARGE]
    for start in range(0, len(view), block_size):
        block = view[start : start + block_size]
        packed = _view(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(block) | _LZ4_STORED).to_bytes(4, "little"), block)
    parts.append(bytes(4))
    return b"".join(parts)


def _grow_until_it_fits(codec: Codec, data: Buffer, max_bytes: int) -> bytes:
    """Decompress into a buffer of the likely size.

    If the buffer is too small, begin again with a buffer four times as large, up to `max_bytes`.
    Raise ExpandsTooFar if the output is larger.
    """
    limit = min(max_bytes, _HIGHEST_RATIO[codec] * len(data) + 64)
    size = min(limit, _likely_size(codec, data))
    while True:
        out = bytearray(size)
        try:
            written = _WRITE_INTO[codec](data, out)
        except cramjam.DecompressionError as error:
            if str(error) != _message_when_full(codec):
                raise
            if size == max_bytes:
                raise ExpandsTooFar(f"{codec.name.lower()}: more than {max_bytes} bytes") from error
            if size == limit:
                raise
            size = min(limit, 4 * size)
        else:
            return bytes(memoryview(out)[:written])


@cache
def _message_when_full(codec: Codec) -> str:
    """Return the error message by which the library reports that the output buffer is full.

    Nothing else distinguishes a full buffer from damaged data.
    """
    try:
        _WRITE_INTO[codec](bytes(compress(codec, b"two")), bytearray(1))
    except cramjam.DecompressionError as error:
        return str(error)
    raise AssertionError(f"{codec.name} writes past the end of a buffer")


def _likely_size(codec: Codec, data: Buffer) -> int:
    """Guess the output's size, at least the size that the frame states, which may be false."""
    guess = 4 * len(data) + 1024
    if codec == Codec.GZIP and len(data) >= 18:
        return max(guess, int.from_bytes(data[-4:], "little"))
    if codec == Codec.ZSTD and len(data) >= 14:
        return max(guess, _zstd_content_size(data))
    return guess


def _zstd_content_size(data: Buffer) -> int:
    """Read the frame's content size (RFC 8878, 3.1.1.1); 0 if the frame does not state it."""
    descriptor = data[4]
    size_flag, single_segment = descriptor >> 6, descriptor >> 5 & 1
    size_bytes = (single_segment, 2, 4, 8)[size_flag]
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(data[start : start + size_bytes], "little")
    return size + 256 if size_flag == 1 else size


def _snappy(data: memoryview, max_bytes: int) -> bytes:
    """Decompress raw snappy, or the chunks of Java's xerial format.

    Xerial's format is a magic number, two versions, then (int32 size, raw snappy)*. Raise
    RemoteProtocolError if the announced size is impossible, ExpandsTooFar if the output is larger
    than `max_bytes`.
    """
    chunks = [data]
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        chunks = _xerial_chunks(data)
    sizes = [cramjam.snappy.decompress_raw_len(chunk) for chunk in chunks]
    total = sum(sizes)
    limit = _HIGHEST_RATIO[Codec.SNAPPY] * len(data)
    if total > limit:
        raise RemoteProtocolError(f"snappy: {total} bytes announced, {limit} allowed")
    if total > max_bytes:
        raise ExpandsTooFar(f"snappy: {total} bytes announced, {max_bytes} taken")
    out = bytearray(total)
    view = memoryview(out)
    position = 0
    for chunk, size in zip(chunks, sizes, strict=True):
        cramjam.snappy.decompress_raw_into(chunk, view[position : position + size])
        position += size
    return bytes(out)


def _xerial_chunks(data: memoryview) -> list[memoryview]:
    chunks = []
    position = _XERIAL_HEADER_SIZE
    while position < len(data):
        if position + 4 > len(data):
            raise RemoteProtocolError("snappy: cut off inside a chunk's size")
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise RemoteProtocolError(f"snappy: a chunk of {size} bytes")
        chunks.append(data[position : position + size])
        position += size
    return chunks
