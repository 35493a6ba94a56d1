"""Every codec there and back; what other clients write; bombs."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import cramjam
import pytest

from minikafka.protocol.compression import Codec, compress, decompress
from minikafka.protocol.errors import RemoteProtocolError

JSON = b"".join(b'{"id": %d, "name": "user %d"}' % (n, n % 97) for n in range(3000))
NOISE = bytes((n * n * 2654435761 >> 16) & 0xFF for n in range(200_000))
SAMPLES = [b"", b"a", b"hello" * 100, JSON, NOISE, bytes(5_000_000)]
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_there_and_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, memoryview(data))))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_compression_compresses(codec: Codec) -> None:
    assert len(compress(codec, JSON)) < len(JSON) / 3


def xerial(data: bytes, chunk: int = 32 * 1024) -> bytes:
    """What Java's SnappyOutputStream writes."""
    chunks = [data[start : start + chunk] for start in range(0, len(data), chunk)]
    packed = [bytes(cramjam.snappy.compress_raw(part)) for part in chunks]
    header = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    return header + b"".join(len(part).to_bytes(4, "big") + part for part in packed)


@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_xerial_snappy_is_read(data: bytes) -> None:
    assert decompress(Codec.SNAPPY, xerial(data)) == data


def test_snappy_is_written_raw() -> None:
    """Clients read raw and xerial snappy; the stream format of snappy itself none of them."""
    assert bytes(cramjam.snappy.decompress_raw(compress(Codec.SNAPPY, JSON))) == JSON


@pytest.mark.parametrize(("data", "block_code"), [(JSON[:60_000], 4), (JSON, 7), (NOISE, 7)])
def test_lz4_frames_have_independent_blocks_and_no_checksums(data: bytes, block_code: int) -> None:
    """Java's reader refuses linked blocks."""
    packed = bytes(compress(Codec.LZ4, data))
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] == 0b0110_0000
    assert packed[5] == block_code << 4
    assert bytes(cramjam.lz4.decompress(packed)) == data


def test_lz4_frames_with_every_checksum_are_read() -> None:
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(JSON))) == JSON


def test_zstd_without_content_size_is_read() -> None:
    stream = cramjam.zstd.Compressor(level=1)
    stream.compress(bytes(3_000_000))
    assert decompress(Codec.ZSTD, bytes(stream.finish())) == bytes(3_000_000)


def bomb(codec: Codec, size: int) -> bytes:
    zeros = bytes(size)
    return {
        Codec.GZIP: lambda: bytes(cramjam.gzip.compress(zeros, level=9)),
        Codec.SNAPPY: lambda: bytes(cramjam.snappy.compress_raw(zeros)),
        Codec.LZ4: lambda: bytes(cramjam.lz4.compress(zeros, level=1)),
        Codec.ZSTD: lambda: bytes(cramjam.zstd.compress(zeros, level=1)),
    }[codec]()


@pytest.mark.parametrize("codec", CODECS)
def test_m_04_a_bomb_costs_no_more_than_the_limit(codec: Codec) -> None:
    packed = bomb(codec, 200_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decompress(codec, packed, max_bytes=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


WITH_LITTLE_MEMORY = """
import resource
from tests.protocol.test_compression import CODECS, RemoteProtocolError, bomb, decompress

bombs = [(codec, bomb(codec, 200_000_000)) for codec in CODECS]
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64_000_000,) * 2)
for codec, packed in bombs:
    try:
        decompress(codec, packed, max_bytes=1_000_000)
    except RemoteProtocolError:
        print(codec.name)
"""


def test_m_04_a_bomb_is_refused_where_its_content_would_not_fit() -> None:
    """What the codecs allocate beside the interpreter counts here too."""
    command = [sys.executable, "-c", WITH_LITTLE_MEMORY]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == [codec.name for codec in CODECS], done.stderr


@pytest.mark.parametrize("codec", CODECS)
def test_m_04_exactly_the_limit_is_allowed(codec: Codec) -> None:
    packed = bomb(codec, 1_000_000)
    assert decompress(codec, packed, max_bytes=1_000_000) == bytes(1_000_000)
    with pytest.raises(RemoteProtocolError):
        decompress(codec, packed, max_bytes=999_999)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_m_04_an_announced_size_beyond_the_codec_is_not_allocated(codec: Codec) -> None:
    announced = {
        Codec.GZIP: b"\x1f\x8b\x08" + bytes(15) + b"\xff\xff\xff\x7f",
        Codec.SNAPPY: b"\xff\xff\xff\x3f" + bytes(20),
        Codec.LZ4: bytes.fromhex("04224d18 60 40 82") + bytes(20),
    }[codec]
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decompress(codec, announced)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("damage", [b"", b"x", b"garbage" * 10, b"\x82SNAPPY\x00" + bytes(20)])
def test_damaged_data_are_refused(codec: Codec, damage: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(codec, damage)


@pytest.mark.parametrize("codec", CODECS)
def test_data_cut_off_are_refused(codec: Codec) -> None:
    packed = bytes(compress(codec, JSON))
    for size in (1, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(RemoteProtocolError):
            decompress(codec, packed[:size])


def test_damaged_data_are_not_tried_with_ever_more_memory() -> None:
    packed = bytes(compress(Codec.ZSTD, NOISE))
    decompress(Codec.ZSTD, packed)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            decompress(Codec.ZSTD, packed[:-1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(NOISE)


@pytest.mark.parametrize("cut", [17, 19, 24, -1])
def test_xerial_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decompress(Codec.SNAPPY, xerial(JSON)[:cut])
