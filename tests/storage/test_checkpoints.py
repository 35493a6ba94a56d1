from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.types import TopicPartition
from minikafka.storage import checkpoints
from minikafka.storage.checkpoints import MetaProperties
from minikafka.storage.indexes import OffsetIndex, TimeIndex
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.producer_snapshots import decode_producers

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


def test_an_offset_checkpoint_is_kafkas() -> None:
    offsets = {TopicPartition("flights", 0): 12, TopicPartition("a-b", 3): 0}
    data = checkpoints.encode_offsets(offsets)
    assert data == b"0\n3\nflights 0 12\na-b 3 0\n#crc32c 0 3572413244\n"
    assert checkpoints.decode_offsets(data) == offsets
    assert checkpoints.decode_offsets(b"0\n2\nflights 0 12\na-b 3 0\n") == offsets, "Kafka's own"
    assert checkpoints.decode_offsets(b"0\n0\n") == {}


@given(
    st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 99)), st.integers(0, 2**62)),
    st.integers(0, 200),
)
def test_a_torn_checkpoint_is_none(offsets: dict[TopicPartition, int], cut: int) -> None:
    data = checkpoints.encode_offsets(offsets)
    assert checkpoints.decode_offsets(data) == offsets
    if cut < len(data):
        assert checkpoints.decode_offsets(data[:cut]) is None


@given(
    st.dictionaries(
        st.builds(TopicPartition, NAMES, st.integers(0, 99)), st.integers(0, 2**62), min_size=1
    ),
    st.integers(0, 10_000),
    st.integers(0, 7),
)
def test_a_checkpoint_with_one_bit_wrong_says_nothing_else(
    offsets: dict[TopicPartition, int], place: int, bit: int
) -> None:
    data = bytearray(checkpoints.encode_offsets(offsets))
    data[place % len(data)] ^= 1 << bit
    read = checkpoints.decode_offsets(bytes(data))
    assert read is None or {name: read.get(name) for name in offsets} == offsets


@pytest.mark.parametrize(
    "data",
    [None, b"", b"1\n0\n", b"0\nx\n", b"0\n1\nt 0 -5\n", b"0\n2\nt 0 1\nt 0 1\n", b"\xff" * 9],
)
def test_a_damaged_checkpoint_is_none(data: bytes | None) -> None:
    assert checkpoints.decode_offsets(data) is None


def test_meta_properties() -> None:
    meta = MetaProperties(bytes(range(16)), 3, "AAECAwQFBgcICQoLDA0ODw")
    text = meta.encode().decode()
    assert text.splitlines() == [
        "version=1",
        "node.id=3",
        "cluster.id=AAECAwQFBgcICQoLDA0ODw",
        "directory.id=AAECAwQFBgcICQoLDA0ODw",
    ]
    assert MetaProperties.decode(text.encode()) == meta
    unjoined = MetaProperties(bytes(16), 3, None)
    assert MetaProperties.decode(unjoined.encode()) == unjoined
    for damaged in (b"", b"node.id=3\n", b"node.id=x\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"):
        with pytest.raises(ValueError, match=r"missing|invalid"):
            MetaProperties.decode(damaged)


@pytest.mark.parametrize("version", ["version=9\n", "version=\n", ""])
def test_meta_properties_of_another_version_are_not_believed(version: str) -> None:
    text = MetaProperties(bytes(16), 3, None).encode().decode()
    with pytest.raises(checkpoints.OtherVersion):
        MetaProperties.decode(text.replace("version=1\n", version).encode())


def test_the_mark_of_a_clean_stop() -> None:
    data = checkpoints.encode_clean_shutdown(42)
    assert data == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.decode_clean_shutdown(data) == 42
    for damaged in (None, b"", data[:9], b"[]", b'{"version":9,"brokerEpoch":1}'):
        assert checkpoints.decode_clean_shutdown(damaged) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_small_file_or_none(data: bytes) -> None:
    """No bytes on a disk end a start: the caller takes its safe assumption."""
    for prefix in (b"", b"0\n1\n", b"0\n1\nt 0 ", b'{"version":0,"brokerEpoch":', b"version: 0\n"):
        some = prefix + data
        offsets = checkpoints.decode_offsets(some)
        assert offsets is None or all(0 <= each < 2**63 for each in offsets.values())
        epoch = checkpoints.decode_clean_shutdown(some)
        assert epoch is None or -1 <= epoch < 2**63
        topic_id = checkpoints.decode_partition_metadata(some)
        assert topic_id is None or len(topic_id) == 16
        known = LeaderEpochs.decode(some)
        assert known is None or all(start >= 0 for _, start in known)
        decode_producers(some, 0)
        OffsetIndex.decode(some, 0, 1000)
        TimeIndex.decode(some, 0, 1000)
        with suppress(ValueError, checkpoints.OtherVersion):
            MetaProperties.decode(some)


@pytest.mark.parametrize(
    "text",
    ["1_0", "+1", " 1", "-1", "1.5", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 19, "9" * 5000, ""],
)
def test_only_plain_numbers_are_offsets(text: str) -> None:
    assert checkpoints.decode_offsets(f"0\n1\nt 0 {text}\n".encode()) is None


@pytest.mark.parametrize("epoch", ["true", '"5"', "1.5", "Infinity", "NaN", "null", "-2", "9" * 19])
def test_only_whole_numbers_are_epochs(epoch: str) -> None:
    data = f'{{"version":0,"brokerEpoch":{epoch}}}'.encode()
    assert checkpoints.decode_clean_shutdown(data) is None
    assert checkpoints.decode_clean_shutdown(b"[" * 100_000) is None


def test_partition_metadata() -> None:
    data = checkpoints.encode_partition_metadata(bytes(range(16)))
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert checkpoints.decode_partition_metadata(data) == bytes(range(16))
    for damaged in (None, b"", data[:20], b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"):
        assert checkpoints.decode_partition_metadata(damaged) is None
