"""Batches of any records: there and back; any bytes: records or a refusal."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.compression import compress, decompress
from minikafka.protocol.errors import ApiError, RemoteProtocolError
from minikafka.protocol.records import record_batch
from minikafka.protocol.records.record_batch import Codec, NewRecord

pytestmark = pytest.mark.slow

BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), BYTES), max_size=3).map(tuple)
TIMESTAMPS = st.integers(-1, 2**45) | st.integers(1_000, 1_200)
NEW_RECORDS = st.builds(NewRecord, timestamp=TIMESTAMPS, key=BYTES, value=BYTES, headers=HEADERS)
CODECS = st.sampled_from(list(Codec))


@settings(deadline=None, max_examples=300)
@given(st.lists(NEW_RECORDS, min_size=1, max_size=30), CODECS, st.integers(0, 2**62))
def test_there_and_back(new: list[NewRecord], codec: Codec, base_offset: int) -> None:
    data = record_batch.build(new, compression=codec)
    header = record_batch.read_header(data)
    assert header.max_timestamp == max(record.timestamp for record in new)
    record_batch.validate_for_append(data, header)
    record_batch.stamp(data, header, base_offset, 3)
    found = record_batch.records(data, check_crc=True)
    assert [NewRecord(r.timestamp, r.key, r.value, r.headers) for r in found] == new
    assert [r.offset for r in found] == list(range(base_offset, base_offset + len(new)))


@settings(deadline=None, max_examples=600)
@given(st.data())
def test_damaged_batches_are_records_or_a_refusal(data: st.DataObject) -> None:
    new = data.draw(st.lists(NEW_RECORDS, min_size=1, max_size=3))
    batch = record_batch.build(new, compression=data.draw(CODECS))
    for position in data.draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=4)):
        batch[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        record_batch.records(batch, max_bytes=1_000_000)
    header = record_batch.read_header(batch)
    with contextlib.suppress(ApiError):
        record_batch.validate_for_append(batch, header)
    with contextlib.suppress(RemoteProtocolError):
        list(record_batch.headers(batch))


@settings(deadline=None, max_examples=1_000)
@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_a_refusal(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        record_batch.records(data, max_bytes=1_000_000)
    with contextlib.suppress(RemoteProtocolError):
        list(record_batch.headers(data))


@settings(deadline=None, max_examples=1_000)
@given(CODECS, st.binary(max_size=500), st.binary(max_size=20), st.integers(0, 500))
def test_damaged_compression_is_bytes_or_a_refusal(
    codec: Codec, plain: bytes, damage: bytes, position: int
) -> None:
    packed = bytearray(compress(codec, plain))
    packed[position : position + len(damage)] = damage
    with contextlib.suppress(RemoteProtocolError):
        assert len(decompress(codec, packed, max_bytes=100_000)) <= 100_000
