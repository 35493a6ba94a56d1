"""Batches against the record code of aiokafka and kafka-python 3, in both directions."""

from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import pytest

from minikafka.protocol.records import record_batch
from minikafka.protocol.records.record_batch import BatchBuilder, Codec, NewRecord

from . import kafka_python

LIBRARIES = {"aiokafka": aiokafka_records, "kafka-python": kafka_python.RECORDS}
RECORDS = [
    NewRecord(
        1_700_000_000_000 + (n * 7919) % 1000,
        None if n % 5 == 0 else b"key %d" % n,
        None if n % 7 == 0 else b"value %d " % n * (n % 40),
        (("source", b"test"), ("seq", b"%d" % n), ("none", None)) if n % 3 == 0 else (),
    )
    for n in range(700)
]
IN_EACH = pytest.mark.parametrize("library", LIBRARIES)
EVERY_CODEC = pytest.mark.parametrize("codec", Codec)


def as_new(read: Any) -> NewRecord:
    headers = tuple((name, value) for name, value in read.headers)
    return NewRecord(read.timestamp, read.key, read.value, headers)


@IN_EACH
@EVERY_CODEC
def test_they_read_what_we_build(library: str, codec: Codec) -> None:
    builder = BatchBuilder(codec, is_transactional=True)
    for record in RECORDS:
        builder.append(*record)
    data = builder.build(producer_id=77, producer_epoch=3, base_sequence=12, base_offset=5_000)
    read = LIBRARIES[library].DefaultRecordBatch(bytes(data))
    assert read.validate_crc()
    found = list(read)
    assert [as_new(record) for record in found] == RECORDS
    assert [record.offset for record in found] == list(range(5_000, 5_700))
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (77, 3, 12)
    assert read.is_transactional
    assert not read.is_control_batch


def _write(library: str, codec: Codec) -> bytes:
    make: Callable[..., Any] = LIBRARIES[library].DefaultRecordBatchBuilder
    builder = make(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        batch_size=10_000_000,
    )
    for offset, (timestamp, key, value, headers) in enumerate(RECORDS):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


@IN_EACH
@EVERY_CODEC
def test_we_read_what_they_build(library: str, codec: Codec) -> None:
    data = _write(library, codec)
    header = record_batch.read_header(data)
    record_batch.validate_for_append(data, header)
    assert header.compression is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    found = record_batch.records(data, check_crc=True)
    assert [NewRecord(r.timestamp, r.key, r.value, r.headers) for r in found] == RECORDS
    assert [r.offset for r in found] == list(range(700))


@IN_EACH
def test_an_uncompressed_batch_is_the_same_bytes(library: str) -> None:
    builder = BatchBuilder()
    for record in RECORDS:
        builder.append(*record)
    ours = builder.build(producer_id=77, producer_epoch=3, base_sequence=12, leader_epoch=0)
    theirs = bytearray(_write(library, Codec.NONE))
    # Some write -1 as leader epoch, some 0.
    record_batch.stamp(theirs, record_batch.read_header(theirs), 0, 0)
    assert ours == theirs
