"""Lag as Spark and a broker show it: in the listener, in progress reports, in a group."""

import json
import queue
import time

import pytest
from pyspark.sql import functions as F

from minikafka.protocol.types import TopicPartition
from minikafka.spark.lag import LagListener, QueryLag
from minikafka.spark.log_ends import LogEnds
from tests.spark.conftest import Broker, Pipeline

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60


def values(count: int) -> list[bytes]:
    return [b"x" * 100] * count


def test_what_a_cluster_says_of_its_logs(broker: Broker) -> None:
    topic = broker.create("ends", 3)
    before_ms = time.time_ns() // 1_000_000
    broker.send(topic, values(50), partition=0)
    broker.send(topic, values(10), partition=1)
    ends = LogEnds({"bootstrap.servers": broker.bootstrap})
    try:
        found = ends.measure({topic: {0: 20, 1: 10, 2: 0, 7: 0}, "no-such-topic": {0: 0}})
        assert sorted(found) == [TopicPartition(topic, p) for p in range(3)]
        first, second, empty = (found[TopicPartition(topic, p)] for p in range(3))
        assert (first.first, first.latest, second.latest, empty.latest) == (0, 50, 10, 0)
        assert first.size_bytes is not None
        assert first.size_bytes > 50 * 100
        assert empty.size_bytes == 0
        assert first.oldest_unread_ms is not None
        assert first.oldest_unread_ms >= before_ms
        assert second.oldest_unread_ms is None
        # The same clients again, further on.
        broker.send(topic, values(5), partition=1)
        again = ends.measure({topic: {1: 10}})[TopicPartition(topic, 1)]
        assert again.latest == 15
        assert again.oldest_unread_ms is not None
    finally:
        ends.close()


def test_lag_of_a_query_in_every_tool(pipeline: Pipeline) -> None:
    broker = pipeline.broker
    source, target = broker.create("lag-in", 2), broker.create("lag-out", 1)
    broker.admin.alter_group_offsets("another", {TopicPartition(source, 0): 0})
    broker.send(source, values(60), partition=0)
    broker.send(source, values(40), partition=1)
    heard: queue.SimpleQueue[QueryLag] = queue.SimpleQueue()
    listener = LagListener(broker.bootstrap, every_seconds=0.0, on_lag=heard.put)
    streams = pipeline.spark.streams
    streams.addListener(listener)
    try:
        frame = pipeline.stream(
            subscribe=source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="50",
            commitOffsetsGroup="lag-group",
        )
        reports = pipeline.run_available(frame.select("value"), "lag", target)
        lags: list[QueryLag] = []
        while not lags or lags[-1].is_active:
            lags.append(heard.get(timeout=PATIENCE_SECONDS))
    finally:
        streams.removeListener(listener)
        listener.close()
    assert len(reports) == 2
    latest = [json.loads(each.sources[0].latestOffset) for each in reports]
    assert latest == [{source: {"0": 60, "1": 40}}] * 2
    assert lags[-1].records == 0
    assert lags[-1].bytes == 0
    assert max(each.records for each in lags) == 50
    assert broker.admin.list_group_offsets("lag-group") == {
        TopicPartition(source, 0): (60, "", -1),
        TopicPartition(source, 1): (40, "", -1),
    }


def test_a_running_query_grows_its_lag_while_a_batch_hangs(pipeline: Pipeline) -> None:
    broker = pipeline.broker
    source = broker.create("hanging", 1)
    gate = pipeline.folder / "gate"
    broker.send(source, values(10))
    heard: queue.SimpleQueue[QueryLag] = queue.SimpleQueue()
    listener = LagListener(broker.bootstrap, every_seconds=0.2, on_lag=heard.put)
    streams = pipeline.spark.streams
    streams.addListener(listener)
    name = str(gate)

    def held(offset: int) -> bool:
        import pathlib
        import time

        while offset >= 10 and not pathlib.Path(name).exists():
            time.sleep(0.05)
        return True

    frame = pipeline.stream(
        subscribe=source, startingOffsets="earliest", commitOffsetsGroup="hanging-group"
    )
    query = (
        frame.where(F.udf(held, "boolean", useArrow=False)("offset"))
        .writeStream.format("noop")
        .queryName("hanging")
        .option("checkpointLocation", str(pipeline.folder / "hanging"))
        .start()
    )
    try:
        assert heard.get(timeout=PATIENCE_SECONDS).records == 0
        broker.send(source, values(10))
        broker.send(source, values(20))
        while (lag := heard.get(timeout=PATIENCE_SECONDS)).records < 30:
            assert lag.is_active
        (behind,) = lag.partitions
        assert behind.bytes is not None
        assert behind.bytes > 30 * 100
        assert behind.seconds is not None
        assert behind.seconds >= 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        expected = {TopicPartition(source, 0): (10, "", -1)}
        while broker.admin.list_group_offsets("hanging-group") != expected:
            assert time.monotonic() < deadline, "the group was never told"
            time.sleep(0.1)
    finally:
        gate.touch()
        query.stop()
        streams.removeListener(listener)
        listener.close()
