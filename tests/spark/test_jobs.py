"""Spark's own view, with a JVM and a broker: batch and streaming, restarts, losses, refusals."""

import datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructType,
)

from minikafka import AclOperation, AclResource
from tests.spark.conftest import Pipeline

pytestmark = pytest.mark.slow

HEADER = StructType().add("key", StringType()).add("value", BinaryType())
ROWS = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", ArrayType(HEADER))
    .add("topic", StringType())
    .add("partition", IntegerType())
)


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def numbered(*between: int) -> list[bytes]:
    return [b"%04d" % n for n in range(*between)]


def json_of(topic: str, *offsets: int) -> str:
    inner = ",".join(f'"{p}":{offset}' for p, offset in enumerate(offsets))
    return f'{{"{topic}":{{{inner}}}}}'


# -- batch


def test_every_column_goes_there_and_back(pipeline: Pipeline) -> None:
    pipeline.broker.create("columns", 2)
    headers = [("h", b"x"), ("h", None)]
    rows: list[tuple[Any, ...]] = [
        (b"k", b"v", headers, "columns", 1),
        (None, None, None, "columns", 1),
        (b"", b"", [], "columns", 0),
    ]
    pipeline.write(pipeline.spark.createDataFrame(rows, ROWS).coalesce(1))
    read = pipeline.read(subscribe="columns", includeHeaders="true")
    assert [field.name for field in read.schema] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    found = read.orderBy("partition", "offset").collect()
    assert [(r.key, r.value, r.topic, r.partition, r.offset) for r in found] == [
        (b"", b"", "columns", 0, 0),
        (b"k", b"v", "columns", 1, 0),
        (None, None, "columns", 1, 1),
    ]
    assert [[tuple(h) for h in r.headers or ()] for r in found] == [[], headers, []]
    age = datetime.datetime.now() - found[0].timestamp
    assert datetime.timedelta(0) <= abs(age) < datetime.timedelta(days=1)
    assert {r.timestampType for r in found} == {0}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_compression(pipeline: Pipeline, codec: str) -> None:
    topic = pipeline.broker.create(f"codec-{codec}", 2)
    rows = pipeline.spark.range(500).select(
        F.format_string("%04d", "id").alias("key"), F.format_string("%04d", "id").alias("value")
    )
    pipeline.write(rows, **{"topic": topic, "kafka.compression.type": codec})
    assert values(pipeline.read(subscribe=topic)) == numbered(500)


def test_offsets_of_a_batch_and_partitions_added_later(pipeline: Pipeline) -> None:
    broker = pipeline.broker
    topic = broker.create("ranges", 2)
    broker.send(topic, numbered(10), partition=0)
    broker.send(topic, numbered(10, 20), partition=1)
    found = pipeline.read(
        subscribe=topic,
        startingOffsets=json_of(topic, 7, -2),
        endingOffsets=json_of(topic, -1, 2),
    )
    assert values(found) == [*numbered(7, 10), *numbered(10, 12)]
    assert values(pipeline.read(assign='{"ranges":[1]}')) == numbered(10, 20)
    broker.admin.create_partitions({topic: 3})
    broker.send(topic, numbered(20, 25), partition=2)
    assert values(pipeline.read(subscribe=topic)) == numbered(25)


def test_an_empty_topic_has_no_rows_and_the_schema(pipeline: Pipeline) -> None:
    pipeline.broker.create("empty", 2)
    assert pipeline.read(subscribe="empty").count() == 0


def test_tls_and_a_login(pipeline: Pipeline) -> None:
    """A batch and a stream, exactly once, with the connector's options and few ACLs."""
    topic, copied = pipeline.broker.create("secured", 2), pipeline.broker.create("secured-2", 2)
    pipeline.broker.allow(AclResource.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    pipeline.broker.allow(AclResource.TRANSACTIONAL_ID, "spark-", AclOperation.WRITE)
    secure = pipeline.broker.secure
    rows = pipeline.spark.range(50).select(F.format_string("%04d", "id").alias("value"))
    pipeline.write(rows, **secure, topic=topic, delivery="exactly_once")
    frame = pipeline.stream(**secure, subscribe=topic, startingOffsets="earliest").select("value")
    own = {**secure, "delivery": "exactly_once"}
    pipeline.run_available(frame, "secured", copied, **own)
    assert values(pipeline.read(**secure, subscribe=copied)) == numbered(50)
    wrong = secure["kafka.sasl.jaas.config"].replace("s,e=cret", "no")
    with pytest.raises(AnalysisException, match="invalid credentials with SASL mechanism"):
        pipeline.read(**{**secure, "kafka.sasl.jaas.config": wrong}, subscribe=topic).collect()


def test_a_row_out_of_range_fails_the_job(pipeline: Pipeline) -> None:
    pipeline.broker.create("narrow", 2)
    rows = pipeline.spark.createDataFrame([(None, b"v", None, "narrow", 2)], ROWS).coalesce(1)
    with pytest.raises(PythonException, match="row 0 of the task: partition 2, but narrow has 2"):
        pipeline.write(rows)
    assert pipeline.broker.records("narrow") == []


# -- refusals


def test_a_wrong_write_is_refused_before_any_job(pipeline: Pipeline) -> None:
    rows = pipeline.spark.range(1).select(F.lit("v").alias("value"))
    with pytest.raises(AnalysisException, match=r"kafka\.acks"):
        pipeline.write(rows, **{"topic": "empty", "kafka.acks": "2"})
    with pytest.raises(AnalysisException, match="a column 'value' is needed"):
        pipeline.write(rows.withColumnRenamed("value", "key"), topic="empty")
    overwriting = rows.write.format("minikafka").mode("overwrite").option("topic", "empty")
    with pytest.raises(AnalysisException, match="only appended to"):
        overwriting.option("kafka.bootstrap.servers", pipeline.broker.bootstrap).save()


# -- streaming


def test_a_query_goes_on_from_its_checkpoint(pipeline: Pipeline) -> None:
    broker = pipeline.broker
    source, target = broker.create("in", 2), broker.create("out", 2)
    broker.send(source, numbered(40), partition=0)
    broker.send(source, numbered(40, 60), partition=1)

    def run() -> list[Any]:
        frame = pipeline.stream(
            subscribe=source, startingOffsets=json_of(source, 5, -2), maxOffsetsPerTrigger="20"
        )
        return pipeline.run_available(frame.select("key", "value"), "restarted", target)

    first = run()
    assert [each.numInputRows <= 20 for each in first] == [True] * len(first)
    assert len(first) >= 3
    assert sorted(r.value or b"" for r in broker.records(target)) == numbered(5, 60)

    broker.send(source, numbered(60, 70), partition=1)
    broker.admin.create_partitions({source: 3})
    broker.send(source, numbered(70, 80), partition=2)
    second = run()
    assert sum(each.numInputRows for each in second) == 20
    assert sorted(r.value or b"" for r in broker.records(target)) == numbered(5, 80)
    assert run() == []


@pytest.mark.parametrize("tolerant", [False, True])
def test_records_that_retention_deleted(pipeline: Pipeline, tolerant: bool) -> None:
    broker = pipeline.broker
    source = broker.create(f"aged-{tolerant}", 1, segment_bytes="1000")
    target = broker.create(f"aged-out-{tolerant}", 1)
    broker.send(source, [b"first"])

    def run() -> list[Any]:
        frame = pipeline.stream(
            subscribe=source,
            startingOffsets="earliest",
            failOnDataLoss="false" if tolerant else "true",
        )
        return pipeline.run_available(frame.select("value"), f"aged-{tolerant}", target)

    run()
    large = [b"%04d" % n + b"x" * 600 for n in range(10)]
    for value in large:
        broker.send(source, [value])
    start = broker.forget(source, 5)
    if not tolerant:
        with pytest.raises(StreamingQueryException, match=f"offsets 1 to {start} were deleted"):
            run()
        return
    run()
    found = [record.value for record in broker.records(target)]
    assert found == [b"first", *large[start - 1 :]]


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_topic_made_anew(pipeline: Pipeline, tolerant: bool) -> None:
    broker = pipeline.broker
    source = broker.create(f"anew-{tolerant}", 1)
    target = broker.create(f"anew-out-{tolerant}", 1)
    broker.send(source, numbered(5))

    def run() -> list[Any]:
        frame = pipeline.stream(
            subscribe=source,
            startingOffsets="earliest",
            failOnDataLoss="false" if tolerant else "true",
        )
        return pipeline.run_available(frame.select("value"), f"anew-{tolerant}", target)

    run()
    broker.admin.delete_topics([source])
    broker.create(source, 1)
    broker.send(source, numbered(100, 102))
    if not tolerant:
        with pytest.raises(StreamingQueryException, match="read up to 5 and now ends at 2"):
            run()
        return
    run()
    broker.send(source, numbered(102, 104))
    run()
    found = [record.value for record in broker.records(target)]
    assert found == [*numbered(5), *numbered(102, 104)]


def test_a_wrong_stream_is_refused(pipeline: Pipeline) -> None:
    frame = pipeline.stream(subscribe="empty", endingOffsets="latest")
    with pytest.raises((AnalysisException, StreamingQueryException), match="has no end"):
        pipeline.run_available(frame.select("value"), "refused", "empty")
