"""Rows become records, in order, each acknowledged, or the task fails with the row's position."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from minikafka.client.errors import DeliveryTimeout
from minikafka.client.records import ProducerRecord
from minikafka.protocol.types import TopicPartition
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.header_columns import HEADERS_TYPE
from minikafka.spark.options import OptionError
from minikafka.spark.rows import RowError
from minikafka.spark.sink import Written
from tests.spark.fake_cluster import SERVERS, FakeCluster, cluster

__all__ = ["cluster"]

HEADER = StructType().add("key", StringType()).add("value", BinaryType())
TYPES: dict[str, Any] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.string(),
    "headers": HEADERS_TYPE,
}


def write(rows: list[dict[str, Any]], schema: StructType | None = None, **options: str) -> Any:
    source = MinikafkaDataSource({**SERVERS, **options})
    schema = schema or StructType().add("value", StringType()).add("topic", StringType())
    writer: Any = pickle.loads(pickle.dumps(source.writer(schema, False)))
    arrow = pa.schema([(name, TYPES[name]) for name in rows[0]])
    batches = [pa.RecordBatch.from_pylist([row], schema=arrow) for row in rows]
    return writer.write(iter(batches))


def test_rows_go_where_they_say(cluster: FakeCluster) -> None:
    written = write(
        [
            {"topic": "a", "partition": 2, "key": b"k", "value": "v", "headers": None},
            {"topic": "b", "partition": None, "key": None, "value": None, "headers": []},
            {
                "topic": "a",
                "partition": 2,
                "key": b"",
                "value": "",
                "headers": [{"key": "h", "value": None}, {"key": "h", "value": b"x"}],
            },
        ]
    )
    assert written == Written(3)
    assert cluster.written.sent == [
        ("a", 2, [ProducerRecord(b"v", b"k", [])]),
        ("b", None, [ProducerRecord(None, None, [])]),
        ("a", 2, [ProducerRecord(b"", b"", [("h", None), ("h", b"x")])]),
    ]
    assert cluster.written.flushes == 1


def test_the_option_topic_is_stronger_than_the_column(cluster: FakeCluster) -> None:
    write([{"topic": None, "value": "v"}], topic="all")
    assert [topic for topic, _, _ in cluster.written.sent] == ["all"]


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"topic": None, "value": "v"}, "row 1 of the task: the topic is None"),
        ({"topic": "", "value": "v"}, "row 1 of the task: the topic is ''"),
        ({"topic": "a", "value": "v", "partition": 3}, "row 1 .* partition 3, but a has 3"),
        ({"topic": "a", "value": "v", "partition": -1}, "row 1 .* partition -1, but a has 3"),
        ({"topic": "a", "value": "v", "headers": [{"key": None, "value": b""}]}, "row 1 .*key"),
        ({"topic": "a", "value": "v", "headers": [None]}, "row 1 .*key"),
    ],
)
def test_a_row_that_cannot_be_written_fails_the_task(
    cluster: FakeCluster, row: dict[str, Any], match: str
) -> None:
    fine = {**dict.fromkeys(row), "topic": "a", "value": "fine"}
    with pytest.raises(RowError, match=match):
        write([fine, row])


def test_a_record_that_is_not_acknowledged_fails_the_task(cluster: FakeCluster) -> None:
    cluster.written.error = DeliveryTimeout(TopicPartition("a", 0), 1, "no leader")
    with pytest.raises(DeliveryTimeout):
        write([{"topic": "a", "value": "v"}])


def columns(*named: tuple[str, Any]) -> StructType:
    schema = StructType()
    for name, data_type in named:
        schema = schema.add(name, data_type)
    return schema


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        (columns(("key", StringType())), "a column 'value' is needed"),
        (columns(("value", LongType())), "value bigint"),
        (columns(("value", StringType()), ("offset", LongType())), "'offset'"),
        (columns(("value", StringType()), ("partition", LongType())), "an int is needed"),
        (columns(("value", StringType()), ("topic", BinaryType())), "a string is needed"),
        (columns(("value", StringType()), ("headers", ArrayType(StringType()))), "array<struct"),
        (columns(("value", StringType()), ("value", StringType())), "twice"),
    ],
)
def test_columns_are_checked_before_any_job(schema: StructType, match: str) -> None:
    source = MinikafkaDataSource({**SERVERS, "topic": "a"})
    for plan in (source.writer, source.streamWriter):
        with pytest.raises(OptionError, match=match):
            plan(schema, False)


def test_a_topic_must_come_from_somewhere() -> None:
    with pytest.raises(OptionError, match="give the option topic, or a column"):
        MinikafkaDataSource(SERVERS).writer(columns(("value", StringType())), False)


def test_all_columns_are_accepted() -> None:
    schema = columns(
        ("key", BinaryType()),
        ("value", BinaryType()),
        ("headers", ArrayType(HEADER)),
        ("topic", StringType()),
        ("partition", IntegerType()),
    )
    MinikafkaDataSource(SERVERS).writer(schema, False)


def test_overwriting_a_log_is_refused() -> None:
    source = MinikafkaDataSource({**SERVERS, "topic": "a"})
    with pytest.raises(OptionError, match="only appended to"):
        source.writer(columns(("value", StringType())), True)


def test_commit_and_abort_take_what_spark_gives(cluster: FakeCluster) -> None:
    source: Any = MinikafkaDataSource({**SERVERS, "topic": "a"})
    schema = columns(("value", StringType()))
    source.writer(schema, False).abort([None, Written(1)])
    source.streamWriter(schema, True).abort([None], 3)
    source.streamWriter(schema, False).commit([], 3)
