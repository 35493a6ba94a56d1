"""Spark's own view of the source's options, with a JVM and a broker."""

import threading

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from minikafka.spark.threads import use_session
from tests.spark.conftest import Pipeline

pytestmark = pytest.mark.slow


def numbers(*between: int) -> list[bytes]:
    return [b"%d" % n for n in range(*between)]


def test_ranges_are_cut_and_columns_left_out(pipeline: Pipeline) -> None:
    pipeline.broker.create("cut", 2)
    pipeline.broker.send("cut", numbers(40))
    frame = pipeline.read(subscribe="cut", minPartitions="4", columns="offset,value")
    assert frame.schema.names == ["offset", "value"]
    read = frame.withColumn("task", F.spark_partition_id()).collect()
    assert sorted(row.offset for row in read) == list(range(40))
    assert len({row.task for row in read}) == 4


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "give exactly one of subscribe"),
        ({"subscribe": "cut", "subscribePattern": "c"}, "give exactly one of subscribe"),
        ({"subscribe": "cut", "startingOffset": "latest"}, "did you mean startingOffsets"),
        ({"subscribe": "cut", "kafka.fetch.min.bytes": "few"}, r"kafka\.fetch\.min\.bytes"),
        ({"subscribePattern": "("}, r"'subscribePattern' = '\('.*regular expression"),
        ({"subscribe": "cut", "minPartitions": "0"}, "'minPartitions' = '0'.*at least 1"),
        ({"subscribe": "cut", "startingTimestamp": "9", "endingTimestamp": "8"}, "endingTimestamp"),
        ({"subscribe": "cut", "columns": "valeu"}, "'columns' = 'valeu'.*name some of key, value"),
        (
            {"subscribe": "cut", "kafka.ssl.client.auth": "none"},
            "'kafka.ssl.client.auth' .*unknown",
        ),
        (
            {
                "subscribe": "cut",
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.location": "/no.pem",
            },
            "ssl.truststore.location=/no.pem: No such file",
        ),
        ({"subscribe": "cut", "minOffsetsPerTrigger": "5"}, "only a streaming query has triggers"),
        ({"subscribe": "no-such-topic"}, "'no-such-topic': the cluster does not have it"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_job(
    pipeline: Pipeline, options: dict[str, str], match: str
) -> None:
    with pytest.raises(AnalysisException, match=f"(?s){match}"):
        pipeline.read(**options).collect()


def test_what_no_stream_can_read_is_refused_when_the_frame_is_made(pipeline: Pipeline) -> None:
    for wrong in ({"subscribePattern": "("}, {"subscribe": "t", "startingTimestamp": "noon"}):
        with pytest.raises(AnalysisException, match=next(reversed(wrong))):
            pipeline.stream(**wrong)


def test_a_schema_of_ones_own_is_refused(pipeline: Pipeline) -> None:
    reader = pipeline.spark.read.schema("value STRING").format("minikafka")
    options = {"kafka.bootstrap.servers": pipeline.broker.bootstrap, "subscribe": "cut"}
    with pytest.raises(AnalysisException, match="'schema' = 'struct<value:string>'"):
        reader.options(**options).load().collect()


def test_a_pattern_finds_new_topics_across_restarts(pipeline: Pipeline) -> None:
    pipeline.broker.create("found")
    pipeline.broker.create("pat-1")
    pipeline.broker.send("pat-1", numbers(3))
    frame = pipeline.stream(subscribePattern="^pat-", startingOffsets="earliest").select("value")
    first = pipeline.run_available(frame, "pattern", "found")
    pipeline.broker.create("pat-2", 2)
    pipeline.broker.send("pat-2", numbers(3, 8), partition=1)
    second = pipeline.run_available(frame, "pattern", "found")
    assert [sum(each.numInputRows for each in run) for run in (first, second)] == [3, 5]
    assert sorted(r.value or b"" for r in pipeline.broker.records("found")) == numbers(8)


def test_queries_from_a_thread(pipeline: Pipeline) -> None:
    pipeline.broker.create("threaded", 2)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            use_session(pipeline.spark)
            rows = pipeline.spark.range(3).select(F.col("id").cast("string").alias("value"))
            pipeline.write(rows, topic="threaded")
            frame = pipeline.stream(subscribe="threaded", startingOffsets="earliest")
            pipeline.run_available(frame.select("value"), "threaded", "threaded")
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
    assert len(pipeline.broker.records("threaded")) == 6
