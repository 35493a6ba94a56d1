"""The bytes of MM2's records, written out by hand from Kafka's schemas."""

import pytest

from minikafka.connect.mirror.codec import BadMirrorRecord, Checkpoint, Heartbeat, OffsetSync
from minikafka.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 3)
SYNC = OffsetSync(ORDERS, 1234, 99)
CHECKPOINT = Checkpoint("billing", TopicPartition("A.orders", 3), 1234, 99, "note é")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)

GOLDEN = {
    SYNC: (
        "0006" + b"orders".hex() + "00000003",
        "00000000000004d2" + "0000000000000063",
    ),
    CHECKPOINT: (
        "0007" + b"billing".hex() + "0008" + b"A.orders".hex() + "00000003",
        "0000" + "00000000000004d2" + "0000000000000063" + "0007" + "note é".encode().hex(),
    ),
    HEARTBEAT: ("000141" + "000142", "0000" + "0000018bcfe56800"),
}


@pytest.mark.parametrize("record", GOLDEN)
def test_records_have_the_bytes_of_kafkas_mm2(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    key, value = (bytes.fromhex(text) for text in GOLDEN[record])
    assert (record.key(), record.value()) == (key, value)
    assert type(record).decode(key, value) == record


@pytest.mark.parametrize(
    ("record", "key", "value", "why"),
    [
        (OffsetSync, b"\x00\x06ord", b"", "a text of 6 bytes at byte 0 is cut off"),
        (OffsetSync, SYNC.key(), b"\x00", "1 bytes are no record of MM2"),
        (Checkpoint, CHECKPOINT.key(), b"\x00\x01", "version 1 is not known; known is 0"),
        (Heartbeat, b"\x00\x01\xff\x00\x01B", HEARTBEAT.value(), "are no record of MM2"),
        (Heartbeat, HEARTBEAT.key(), b"", "0 bytes are no record of MM2"),
        (OffsetSync, b"\xff\xff", b"", "a text of -1 bytes"),
    ],
)
def test_other_bytes_are_refused(
    record: type[OffsetSync | Checkpoint | Heartbeat], key: bytes, value: bytes, why: str
) -> None:
    with pytest.raises(BadMirrorRecord, match=why):
        record.decode(key, value)
