"""Batches: header, checksum, what is stamped in place, what a broker refuses."""

import dataclasses
import struct
from collections.abc import Callable

import pytest

from minikafka.protocol.compression import compress
from minikafka.protocol.errors import (
    ApiError,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
)
from minikafka.protocol.records import record_batch
from minikafka.protocol.records.batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from minikafka.protocol.records.record_batch import BatchBuilder, Codec, NewRecord, TimestampType

RECORDS = [
    NewRecord(1_000, b"k0", b"v0"),
    NewRecord(1_005, None, b"v1", (("trace", b"abc"), ("empty", None), ("ünicode", b""))),
    NewRecord(998, b"k2", None),
    NewRecord(1_003, b"", b""),
    NewRecord(1_003, b"k" * 100, b"v" * 10_000),
]

HEADER_FIELDS = (
    "base_offset",
    "batch_length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def batch(**changes: int) -> bytearray:
    """A batch of three records from a producer, its header changed and sealed again."""
    builder = BatchBuilder()
    for record in RECORDS[:3]:
        builder.append(*record)
    built = builder.build(producer_id=7, producer_epoch=1, base_sequence=40)
    fields = dict(zip(HEADER_FIELDS, HEADER.unpack_from(built, 0), strict=True)) | changes
    HEADER.pack_into(built, 0, *fields.values())
    if "batch_length" not in changes and "crc" not in changes:
        record_batch.seal(built)
    return built


def refusal(data: bytes | bytearray, max_message_bytes: int = 1_000_000) -> ErrorCode:
    header = record_batch.read_header(data)
    with pytest.raises(ApiError) as caught:
        record_batch.validate_for_append(data, header, max_message_bytes)
    return caught.value.code


def test_the_header_reads_what_was_built() -> None:
    data = batch()
    header = record_batch.read_header(data)
    assert header.size == len(data) == header.batch_length + 12
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_005)
    assert (header.producer_id, header.producer_epoch) == (7, 1)
    assert (header.base_sequence, header.last_sequence) == (40, 42)
    assert (header.record_count, header.magic, header.leader_epoch) == (3, 2, -1)
    assert header.compression is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control
    assert record_batch.crc_is_valid(data, 0, header)
    record_batch.validate_for_append(data, header, len(data))


def test_bits_of_the_attributes() -> None:
    bits = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT | Codec.ZSTD
    header = record_batch.read_header(batch(attributes=bits))
    assert header.compression is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional
    assert header.is_control
    assert header.has_delete_horizon


def test_sequence_numbers_wrap_to_zero() -> None:
    assert record_batch.read_header(batch(base_sequence=2**31 - 2)).last_sequence == 0
    assert record_batch.read_header(batch(base_sequence=2**31 - 1)).last_sequence == 1
    assert record_batch.read_header(batch(base_sequence=-1)).last_sequence == -1


def test_a_stamp_keeps_the_checksum() -> None:
    data = bytearray(b"before") + batch()
    stamped = record_batch.read_header(data, 6)
    record_batch.stamp(memoryview(data)[6:], stamped, 123_456_789_012, 5)
    header = record_batch.read_header(data, 6)
    assert repr(stamped) == repr(header)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (
        123_456_789_012,
        5,
        123_456_789_014,
    )
    assert record_batch.crc_is_valid(data, 6, header)
    assert [r.offset for r in record_batch.records(data, 6, check_crc=True)] == [
        123_456_789_012,
        123_456_789_013,
        123_456_789_014,
    ]


def test_log_append_time_is_every_records_time() -> None:
    data = batch()
    record_batch.rewrite_as_log_append_time(data, 0, 5_000)
    header = record_batch.read_header(data)
    assert record_batch.crc_is_valid(data, 0, header)
    assert header.max_timestamp == 5_000
    found = record_batch.records(data)
    assert {(r.timestamp, r.timestamp_type) for r in found} == {
        (5_000, TimestampType.LOG_APPEND_TIME)
    }


def test_a_batch_is_numbered_again() -> None:
    data = batch()
    record_batch.rewrite_producer(data, 0, producer_id=9, epoch=2, base_sequence=0)
    header = record_batch.read_header(data)
    assert record_batch.crc_is_valid(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 0)


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back(codec: Codec) -> None:
    data = record_batch.build(RECORDS, compression=codec, base_offset=100)
    found = record_batch.records(data, check_crc=True)
    assert [NewRecord(r.timestamp, r.key, r.value, r.headers) for r in found] == RECORDS
    assert [r.offset for r in found] == [100, 101, 102, 103, 104]


def test_keys_and_values_are_bytes_that_outlive_the_buffer() -> None:
    data = record_batch.build(RECORDS)
    found = record_batch.records(memoryview(data))
    data[:] = bytes(len(data))
    assert found[0].value == b"v0"
    assert type(found[0].value) is bytes


def test_the_builder_says_how_large_the_batch_is() -> None:
    builder = BatchBuilder()
    assert builder.size == 61
    sizes = [builder.append(*record) for record in RECORDS]
    assert sizes[-1] == builder.size == len(builder.build())


def test_a_builder_without_records_builds_nothing() -> None:
    with pytest.raises(LocalProtocolError):
        BatchBuilder().build()


def test_control_and_transactional_batches_say_so() -> None:
    builder = BatchBuilder(is_transactional=True, is_control=True)
    builder.append(1, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3))
    header = record_batch.read_header(builder.build(producer_id=1, producer_epoch=0))
    assert header.is_control
    assert header.is_transactional


def test_headers_walk_whole_batches_and_stop_before_a_torn_one() -> None:
    first, second = batch(base_offset=0), batch(base_offset=3)
    data = bytes(first + second)
    found = [(pos, header.base_offset) for pos, header in record_batch.headers(data)]
    assert found == [(0, 0), (len(first), 3)]
    for cut in (1, len(second) - 60, len(second) - 1):
        assert [pos for pos, _ in record_batch.headers(data[:-cut])] == [0]
    assert list(record_batch.headers(b"")) == []


def test_headers_stop_with_an_error_where_there_is_no_way_on() -> None:
    data = batch() + batch(batch_length=-1)
    walk = record_batch.headers(data)
    assert next(walk)[0] == 0
    with pytest.raises(RemoteProtocolError):
        next(walk)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"crc": 1}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 10}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": -13}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 2**31 - 1}, ErrorCode.CORRUPT_MESSAGE),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 3}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 2**31 - 1}, ErrorCode.INVALID_RECORD),
        ({"base_offset": 5}, ErrorCode.INVALID_RECORD),
        ({"base_timestamp": -2}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": TIMESTAMP_TYPE_BIT}, ErrorCode.INVALID_TIMESTAMP),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"magic": 0}, ErrorCode.INVALID_RECORD),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE),
        ({"attributes": CONTROL_BIT}, ErrorCode.INVALID_RECORD),
        ({"attributes": CONTROL_BIT | TRANSACTIONAL_BIT}, ErrorCode.INVALID_RECORD),
        ({"attributes": DELETE_HORIZON_BIT}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x80}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_epoch": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": -1, "attributes": TRANSACTIONAL_BIT}, ErrorCode.INVALID_RECORD),
    ],
    ids=str,
)
def test_m_05_a_malformed_batch_is_refused(changes: dict[str, int], code: ErrorCode) -> None:
    assert refusal(batch(**changes)) is code


def test_m_05_every_bit_flipped_is_noticed() -> None:
    """All of a batch is under the checksum but base offset, length, epoch, magic and the crc."""
    good = bytes(batch())
    for position in range(len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            if 12 <= position < 16:
                continue  # leader epoch: the broker writes its own
            assert refusal(data) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_m_05_a_batch_cut_off_is_refused() -> None:
    data = batch()
    assert refusal(data[:-1]) is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(RemoteProtocolError):
        record_batch.read_header(data[:60])


def test_m_05_bytes_behind_the_batch_are_refused() -> None:
    assert refusal(batch() + batch()) is ErrorCode.INVALID_RECORD
    assert refusal(batch() + b"x") is ErrorCode.INVALID_RECORD


def test_m_05_a_batch_above_the_limit_is_refused() -> None:
    data = batch()
    assert refusal(data, len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@dataclasses.dataclass
class Damage:
    """A batch whose checksum is right and whose records are not."""

    name: str
    harm: Callable[[bytearray], None]


def _set(position: int, value: int) -> Callable[[bytearray], None]:
    def harm(data: bytearray) -> None:
        data[position] = value

    return harm


def _count(value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(">i", data, 57, value)


# The first record: length, attributes, timestamp delta, offset delta, key length (2), key, value
# length (2), value, header count. The second one has headers.
@pytest.mark.parametrize(
    "damage",
    [
        Damage("negative record length", _set(61, 0x01)),
        Damage("record length past the end", _set(61, 0x7E)),
        Damage("record length shorter than its fields", _set(61, 0x02)),
        Damage("key length past the end", _set(65, 0x7E)),
        Damage("key length -2", _set(65, 0x03)),
        Damage("value length past the end", _set(68, 0x7E)),
        Damage("header count past the end", _set(71, 0x7E)),
        Damage("negative header count", _set(71, 0x01)),
        Damage("more records than there are", _count(2**31 - 1)),
        Damage("fewer records than there are", _count(1)),
        Damage("endless varint", lambda data: data.__setitem__(slice(63, 74), b"\xff" * 11)),
    ],
    ids=lambda damage: damage.name,
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_m_05_records_that_do_not_add_up_are_refused(damage: Damage, codec: Codec) -> None:
    plain = record_batch.build(RECORDS[:3])
    damage.harm(plain)
    header = bytearray(plain[:61])
    body = bytes(_compressed(codec, plain[61:]))
    data = header + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    record_batch.seal(data)
    with pytest.raises(RemoteProtocolError):
        record_batch.records(data, check_crc=True)


def _compressed(codec: Codec, body: bytes | bytearray) -> bytes:
    return bytes(compress(codec, bytes(body)))


def test_m_04_records_of_a_bomb_are_refused() -> None:
    data = record_batch.build([NewRecord(0, None, bytes(5_000_000))], compression=Codec.ZSTD)
    assert len(data) < 2_000
    with pytest.raises(RemoteProtocolError):
        record_batch.records(data, max_bytes=1_000_000)
    assert len(record_batch.records(data)) == 1


@pytest.mark.parametrize("changes", [{"magic": 1}, {"attributes": 6}, {"batch_length": 5}])
def test_records_of_an_unreadable_batch_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(RemoteProtocolError):
        record_batch.records(batch(**changes))


def test_a_header_key_that_is_not_utf8_does_not_stop_its_reader() -> None:
    data = record_batch.build([NewRecord(0, None, None, (("kk", b""),))])
    position = data.index(b"kk")
    data[position] = 0xFF
    (found,) = record_batch.records(data)
    assert found.headers == (("\ufffdk", b""),)
