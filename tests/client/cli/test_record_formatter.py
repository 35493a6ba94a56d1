import struct

import pytest

from minikafka.client.cli.record_formatter import make_formatter
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.records.record_batch import TimestampType
from minikafka.runtime.errors import ConfigError

DEFAULT = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
EVERYTHING = {
    f"print.{name}": "true"
    for name in ("timestamp", "key", "offset", "delivery", "epoch", "partition", "headers", "value")
}


def record(
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: tuple[tuple[str, bytes | None], ...] = (("h1", b"v1"), ("h2", None)),
    timestamp_ms: int = 123,
    kind: TimestampType = TimestampType.CREATE_TIME,
) -> ConsumerRecord:
    return ConsumerRecord(
        topic="t",
        partition=0,
        offset=5,
        timestamp_ms=timestamp_ms,
        timestamp_type=kind,
        key=key,
        value=value,
        headers=headers,
    )


def show(properties: dict[str, str], shown: ConsumerRecord, formatter: str = DEFAULT) -> bytes:
    return make_formatter(formatter, properties).format(shown)


def test_the_value_alone_by_default() -> None:
    assert show({}, record()) == b"value\n"
    assert show({}, record(value=None)) == b"null\n"
    assert show({}, record(value=b"\xff")) == b"\xff\n"


def test_every_column_in_kafkas_order() -> None:
    before = b"CreateTime:123\tPartition:0\tOffset:5\tDelivery:NOT_PRESENT\tEpoch:"
    shown = show(EVERYTHING, record())
    assert shown.startswith(before)
    assert shown.endswith(b"\th1:v1,h2:null\tkey\tvalue\n")


def test_separators_and_literals() -> None:
    properties = {
        "print.key": "true",
        "print.headers": "true",
        "key.separator": " | ",
        "line.separator": ";",
        "headers.separator": "&",
        "null.literal": "NIL",
    }
    assert show(properties, record(key=None)) == b"h1:v1&h2:NIL | NIL | value;"
    assert show(properties, record(headers=())) == b"NO_HEADERS | key | value;"


def test_timestamps() -> None:
    properties = {"print.timestamp": "true", "print.value": "false"}
    assert show(properties, record(timestamp_ms=-1)) == b"NO_TIMESTAMP\n"
    appended = record(kind=TimestampType.LOG_APPEND_TIME)
    assert show(properties, appended) == b"LogAppendTime:123\n"


def test_nothing_asked_prints_nothing() -> None:
    assert show({"print.value": "false"}, record()) == b""


def test_deserializers() -> None:
    prefix = "org.apache.kafka.common.serialization."
    properties = {
        "print.key": "true",
        "key.deserializer": prefix + "IntegerDeserializer",
        "value.deserializer": prefix + "LongDeserializer",
    }
    number = record(key=struct.pack(">i", -7), value=struct.pack(">q", 1 << 40))
    assert show(properties, number) == b"-7\t1099511627776\n"
    with pytest.raises(ValueError, match="5 bytes, not the 8"):
        show(properties, record(key=b"\0\0\0\1"))


def test_other_formatters() -> None:
    assert show({}, record(), "NoOpMessageFormatter") == b""
    logged = b"value\nCreateTime:123, key:key, value:value\n"
    assert show({}, record(), "LoggingMessageFormatter") == logged


@pytest.mark.parametrize(
    ("formatter", "properties"),
    [
        ("com.acme.Formatter", {}),
        (DEFAULT, {"print.keys": "true"}),
        (DEFAULT, {"print.key": "1"}),
        (DEFAULT, {"key.deserializer": "com.acme.Avro"}),
    ],
)
def test_bad_arguments(formatter: str, properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        make_formatter(formatter, properties)
