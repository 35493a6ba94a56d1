"""Plugins for tests of the pipeline, found by their Java names or `module:Class`."""

from importlib import import_module
from typing import Any

from minikafka.client.records import ConsumerRecord
from minikafka.connect.records import SourceRecord
from minikafka.protocol.records.record_batch import Headers, TimestampType

KINDS = ("converter", "header_converter", "transformation", "predicate", "config_provider")
NAMES = {
    "StringConverter": "converters.text:StringConverter",
    "ByteArrayConverter": "converters.raw:ByteArrayConverter",
    "JsonConverter": "converters.json:JsonConverter",
    "org.apache.kafka.connect.json.JsonConverter": "converters.json:JsonConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": (
        "converters.headers:SimpleHeaderConverter"
    ),
    "RegexRouter": "transforms.regex_router:RegexRouter",
    "TimestampConverter$Value": "transforms.timestamp_converter:TimestampConverterValue",
    "Filter": "transforms.filter:Filter",
    "RecordIsTombstone": "transforms.predicates:RecordIsTombstone",
    "minikafka.Python": "transforms.python:Python",
    "file": "providers:FileProvider",
    "env": "providers:EnvProvider",
    "dir": "providers:DirProvider",
}
STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
PLAIN_JSON = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def find(name: str, kind: str) -> type[Any]:
    assert kind in KINDS
    target = NAMES.get(name, name)
    module, _, cls = target.partition(":")
    full = module if module.startswith("tests.") else f"minikafka.connect.{module}"
    found: type[Any] = getattr(import_module(full), cls)
    return found


def consumed(
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    headers: Headers = (),
    *,
    offset: int = 0,
    timestamp_ms: int = 5,
) -> ConsumerRecord[bytes, bytes]:
    kind = TimestampType.CREATE_TIME
    return ConsumerRecord("orders", 1, offset, timestamp_ms, kind, key, value, headers)


def source(value: object, **fields: Any) -> SourceRecord:
    given = {"topic": "orders", "source_partition": {"f": "a"}, "source_offset": {"p": 1}}
    return SourceRecord(value=value, **(given | fields))
