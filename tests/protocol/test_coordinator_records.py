"""Records of the internal topics, byte for byte as Kafka lays them out; written by hand below."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol import codec
from minikafka.protocol import coordinator_records as cr
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.schema import shape_of

from .strategies import messages_of

OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000005".replace(" ", ""))
OFFSET_V3 = bytes.fromhex(
    "0003" + "000000000000002a" + "00000007" + "00026d64" + "0000018bcfe5687b"
)
OFFSET = cr.OffsetCommitRecord(
    cr.OffsetCommitKey(group="g", topic="t", partition=5),
    cr.OffsetCommitValue(
        offset=42, leader_epoch=7, metadata="md", commit_timestamp=1_700_000_000_123
    ),
)
GROUP_KEY = bytes.fromhex("0002 0001 67".replace(" ", ""))
GROUP_V3 = bytes.fromhex(
    "0003"
    + "0008636f6e73756d6572"  # consumer
    + "00000003"
    + "000572616e6765"  # range
    + "00026d31"  # leader m1
    + "0000018bcfe5687b"
    + "00000001"
    + "00026d31"
    + "ffff"  # no instance id
    + "000163"  # client id
    + "00022f68"  # host
    + "0000ea60"  # rebalance timeout
    + "0000afc8"  # session timeout
    + "00000002aabb"
    + "00000001cc"
)
GROUP = cr.GroupMetadataRecord(
    cr.GroupMetadataKey(group="g"),
    cr.GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m1",
        current_state_timestamp=1_700_000_000_123,
        members=[
            cr.MemberMetadata(
                member_id="m1",
                client_id="c",
                client_host="/h",
                rebalance_timeout=60_000,
                session_timeout=45_000,
                subscription=b"\xaa\xbb",
                assignment=b"\xcc",
            )
        ],
    ),
)
TXN_KEY = bytes.fromhex("0000 0003 747831".replace(" ", ""))
TXN_FIELDS = {
    "producer_id": 4_000,
    "producer_epoch": 2,
    "transaction_timeout_ms": 60_000,
    "transaction_status": 2,
    "transaction_last_update_timestamp_ms": 1_700_000_000_123,
    "transaction_start_timestamp_ms": 1_700_000_000_000,
}
TXN_V0 = bytes.fromhex(
    "0000"
    + "0000000000000fa0"
    + "0002"
    + "0000ea60"
    + "02"
    + "00000001"
    + "000174"
    + "00000002"
    + "00000000"
    + "00000009"
    + "0000018bcfe5687b"
    + "0000018bcfe56800"
)
TXN_V1 = bytes.fromhex(
    "0001"
    + "0000000000000fa0"
    + "0002"
    + "0000ea60"
    + "02"
    + "02"  # one topic, compact
    + "0274"
    + "03"
    + "00000000"
    + "00000009"
    + "00"  # no tags in the topic
    + "0000018bcfe5687b"
    + "0000018bcfe56800"
    + "02"  # two tagged fields
    + "00"
    + "08"
    + "0000000000000f9f"
    + "02"
    + "02"
    + "0002"
)
COMMIT_GROUP = cr.CommitGroupRecord(
    cr.CommitGroupKey(group="sink"),
    cr.CommitGroupValue(
        generation=2, batch_id=41, runs=["a", "bc"], last_used_timestamp_ms=1_700_000_000_123
    ),
)
COMMIT_GROUP_KEY = bytes.fromhex("7530" + "0004" + "73696e6b")
COMMIT_GROUP_V0 = bytes.fromhex(
    "0000"
    + "0000000000000002"
    + "0000000000000029"
    + "03"  # two runs, compact
    + "0261"
    + "036263"
    + "0000018bcfe5687b"
    + "00"  # no tags
)


def transaction(**more: int) -> cr.TransactionRecord:
    partitions = [cr.TransactionPartitions(topic="t", partition_ids=[0, 9])]
    value = cr.TransactionLogValue(transaction_partitions=partitions, **TXN_FIELDS, **more)
    return cr.TransactionRecord(cr.TransactionLogKey(transactional_id="tx1"), value)


def test_an_offset_is_the_bytes_of_kafka() -> None:
    assert cr.encode_record(OFFSET) == (OFFSET_KEY, OFFSET_V3)
    assert cr.decode_group_record(OFFSET_KEY, OFFSET_V3) == OFFSET


def test_an_offset_with_an_expiry_of_its_own_is_written_as_version_1() -> None:
    assert OFFSET.value is not None
    value = cr.OffsetCommitValue(offset=42, commit_timestamp=1, expire_timestamp=9, metadata="")
    key, written = cr.encode_record(cr.OffsetCommitRecord(OFFSET.key, value))
    assert written == bytes.fromhex("0001" + "000000000000002a" + "0000") + struct.pack(">qq", 1, 9)
    assert cr.decode_group_record(key, written) == cr.OffsetCommitRecord(OFFSET.key, value)


def test_a_flexible_offset_is_read_and_its_tags_are_passed_over() -> None:
    value = (
        bytes.fromhex("0004" + "000000000000002a" + "00000007" + "036d64" + "0000018bcfe5687b")
        + b"\x01\x00\x02hi"
    )
    assert cr.decode_group_record(OFFSET_KEY, value) == OFFSET


def test_the_oldest_offset_keys_are_read() -> None:
    assert cr.decode_group_record(b"\0\0" + OFFSET_KEY[2:], OFFSET_V3) == OFFSET


def test_a_group_is_the_bytes_of_kafka() -> None:
    assert cr.encode_record(GROUP) == (GROUP_KEY, GROUP_V3)
    assert cr.decode_group_record(GROUP_KEY, GROUP_V3) == GROUP


def test_a_transaction_is_the_bytes_of_kafka() -> None:
    assert cr.encode_record(transaction(), version=0) == (TXN_KEY, TXN_V0)
    assert cr.decode_transaction_record(TXN_KEY, TXN_V0) == transaction()
    newer = transaction(previous_producer_id=3_999, client_transaction_version=2)
    assert cr.encode_record(newer) == (TXN_KEY, TXN_V1)
    assert cr.decode_transaction_record(TXN_KEY, TXN_V1) == newer


def test_a_commit_group_is_written_behind_kafka_s_kinds() -> None:
    key, value = cr.encode_record(COMMIT_GROUP)
    assert (key, value) == (COMMIT_GROUP_KEY, COMMIT_GROUP_V0)
    assert cr.decode_transaction_record(key, value) == COMMIT_GROUP
    newer = b"\0\1" + COMMIT_GROUP_V0[2:]
    assert cr.decode_transaction_record(key, newer) == cr.UnknownRecord(30_000, key, newer)


@pytest.mark.parametrize("record", [OFFSET, GROUP, transaction(), COMMIT_GROUP])
def test_no_value_is_a_tombstone(record: cr.Record) -> None:
    gone = type(record)(record.key, None)  # type: ignore[arg-type]
    key, value = cr.encode_record(gone)
    assert value is None
    is_transactional = isinstance(record, (cr.TransactionRecord, cr.CommitGroupRecord))
    decode = cr.decode_transaction_record if is_transactional else cr.decode_group_record
    assert decode(key, None) == gone


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\0\3" + GROUP_KEY[2:], GROUP_V3), (GROUP_KEY, b"\0\5" + GROUP_V3[2:]), (b"\0\x63", None)],
    ids=["another kind", "a newer value", "only a kind"],
)
def test_what_a_newer_broker_wrote_is_left_alone(key: bytes, value: bytes | None) -> None:
    found = cr.decode_group_record(key, value)
    assert found == cr.UnknownRecord(int.from_bytes(key[:2]), key, value)


@pytest.mark.parametrize(
    ("decode", "key", "value"),
    [
        (cr.decode_group_record, OFFSET_KEY, OFFSET_V3),
        (cr.decode_group_record, GROUP_KEY, GROUP_V3),
        (cr.decode_transaction_record, TXN_KEY, TXN_V0),
        (cr.decode_transaction_record, TXN_KEY, TXN_V1),
        (cr.decode_transaction_record, COMMIT_GROUP_KEY, COMMIT_GROUP_V0),
    ],
)
def test_m_05_records_cut_off_anywhere_are_refused(
    decode: Callable[[bytes, bytes | None], object], key: bytes, value: bytes
) -> None:
    for end in range(len(key)):
        with pytest.raises(RemoteProtocolError):
            decode(key[:end], value)
    for end in range(len(value)):
        with pytest.raises(RemoteProtocolError):
            decode(key, value[:end])
    with pytest.raises(RemoteProtocolError):
        decode(key, value + b"\0")


RECORDS = (
    (cr.OffsetCommitRecord, cr.OffsetCommitKey, cr.OffsetCommitValue, range(5)),
    (cr.GroupMetadataRecord, cr.GroupMetadataKey, cr.GroupMetadataValue, range(5)),
    (cr.TransactionRecord, cr.TransactionLogKey, cr.TransactionLogValue, range(2)),
    (cr.CommitGroupRecord, cr.CommitGroupKey, cr.CommitGroupValue, range(1)),
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_record_comes_back_in_every_version(data: st.DataObject) -> None:
    record_type, key_type, value_type, versions = data.draw(st.sampled_from(RECORDS))
    version = data.draw(st.sampled_from(versions))
    key = data.draw(messages_of(key_type, shape_of(key_type).versions.last))
    record = record_type(key, data.draw(messages_of(value_type, version)))
    written = cr.encode_record(record, version=version)
    transactional = record_type in (cr.TransactionRecord, cr.CommitGroupRecord)
    decode = cr.decode_transaction_record if transactional else cr.decode_group_record
    assert decode(*written) == record
    assert codec.decode(key_type, shape_of(key_type).versions.last, written[0][2:]) == key
