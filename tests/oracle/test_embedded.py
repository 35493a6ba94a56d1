"""What travels inside other messages and in records: consumers' protocol and control records, by
our declarations, by kafka-python's and by kio's."""

import io
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from kio.serial import entity_reader, entity_writer

from minikafka.protocol import consumer_protocol
from minikafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.records import record_batch
from minikafka.protocol.records.records import (
    EndTransactionMarker,
    build_end_transaction_batch,
    end_transaction_marker,
    parse_end_transaction_marker,
)
from minikafka.protocol.schema import Versions, shape_of

from ..protocol.strategies import messages_of
from . import facts, kafka_python

BOTH = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
EACH = pytest.mark.parametrize(
    ("cls", "version"), [(cls, version) for cls in BOTH for version in range(4)]
)


def by_kio(module: str, version: int, name: str) -> Any:
    return getattr(import_module(f"kio.schema.{module}.v{version}"), name)


def in_kio(cls: type, version: int) -> Any:
    return by_kio(facts.snake(cls.__name__), version, cls.__name__)


@EACH
def test_fields_are_those_of_kafka(cls: type, version: int) -> None:
    definition = kafka_python.definition(cls.__name__)
    assert shape_of(cls).versions == Versions.parse(definition["validVersions"])
    assert facts.ours(cls, version) == facts.by_definition(definition["fields"], version)
    assert facts.ours(cls, version) == facts.by_kio(in_kio(cls, version))


@EACH
def test_kio_reads_and_writes_the_same_bytes(cls: type, version: int) -> None:
    read, write = entity_reader(in_kio(cls, version)), entity_writer(in_kio(cls, version))

    @settings(max_examples=20, deadline=None)
    @given(messages_of(cls, version))
    def check(message: Any) -> None:
        encode: Any = consumer_protocol.encode_assignment
        decode: Any = consumer_protocol.decode_assignment
        if cls is ConsumerProtocolSubscription:
            encode = consumer_protocol.encode_subscription
            decode = consumer_protocol.decode_subscription
        written = encode(message, version)
        assert written[:2] == version.to_bytes(2)
        assert decode(written) == message
        theirs, size = read(written, 2)
        assert size == len(written) - 2
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == written[2:]

    check()


def test_a_subscription_of_the_future_is_read_as_the_newest_known() -> None:
    message = ConsumerProtocolSubscription(
        topics=["t"],
        owned_partitions=[TopicPartitions(topic="t", partitions=[1])],
        generation_id=4,
        rack_id="r",
    )
    written = consumer_protocol.encode_subscription(message)
    assert consumer_protocol.decode_subscription(b"\0\x09" + written[2:] + b"more") == message


def test_no_assignment_is_an_empty_one() -> None:
    assert consumer_protocol.decode_assignment(b"").assigned_partitions == []


def test_m_05_a_subscription_cut_off_anywhere_is_refused() -> None:
    message = ConsumerProtocolSubscription(topics=["topic"], user_data=b"mine", rack_id="r")
    written = consumer_protocol.encode_subscription(message)
    for end in range(len(written)):
        with pytest.raises(RemoteProtocolError):
            consumer_protocol.decode_subscription(written[:end])
    with pytest.raises(RemoteProtocolError):
        consumer_protocol.decode_subscription(b"\xff\xff" + written[2:])


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_control_record_as_kio_reads_it(commit: bool) -> None:
    key, value = end_transaction_marker(commit, 77)
    kind, size = entity_reader(by_kio("control_record_type_schema", 0, "ControlRecordTypeSchema"))(
        key, 2
    )
    assert (kind.type_, size, key[:2]) == (int(commit), 2, b"\0\0")
    marker, size = entity_reader(by_kio("end_txn_marker", 0, "EndTxnMarker"))(value, 2)
    assert (marker.coordinator_epoch, size, value[:2]) == (77, 4, b"\0\0")
    assert parse_end_transaction_marker(key, value) == (commit, 77)


def test_a_control_batch_says_whose_transaction_ended() -> None:
    data = build_end_transaction_batch(EndTransactionMarker(True, 3), 4_000, 2, 1_234)
    assert kafka_python.RECORDS.DefaultRecordBatch(bytes(data)).is_control_batch
    header = record_batch.read_header(data)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4_000, 2, -1)
    (record,) = record_batch.records(data, check_crc=True)
    assert record.timestamp == 1_234
    assert parse_end_transaction_marker(record.key, record.value) == (True, 3)


def test_other_control_records_are_not_markers() -> None:
    assert parse_end_transaction_marker(b"\0\0\0\2", b"") is None
    assert parse_end_transaction_marker(b"\0\1\0\1more", b"\0\1\0\0\0\5more") == (True, 5)
    for key, value in (
        (None, b""),
        (b"\0\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0" * 5),
    ):
        with pytest.raises(RemoteProtocolError):
            parse_end_transaction_marker(key, value)
