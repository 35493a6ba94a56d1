"""Blackhole: records and bytes are counted, by rows and by columns."""

import logging

import pyarrow as pa
import pytest

from minikafka import TopicPartition
from minikafka.connect.connectors.blackhole import Blackhole, BlackholeTask

from .support import FakeSink, sink_record

T0 = TopicPartition("t", 0)


def test_records_and_columns_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    task = BlackholeTask()
    task.start({"name": "hole", "log.interval.ms": "0"}, FakeSink(T0))
    task.put([sink_record(0, "abc"), sink_record(1, b"de"), sink_record(2, {"a": 1})])
    assert (task.records, task.bytes) == (3, 5)
    batch = pa.record_batch(
        {
            "offset": pa.array([3, 4, 5]),
            "timestamp_ms": pa.array([0, 0, 0]),
            "key": pa.array([b"k", None, None]),
            "value": pa.array([b"1234", b"x", None]),
        }
    )
    task.put_columns(T0, batch)
    assert (task.records, task.bytes) == (6, 11)
    task.put_columns(T0, batch.slice(1, 1))
    task.put_columns(T0, batch.slice(0, 0))
    assert (task.records, task.bytes) == (7, 12)
    task.flush({T0: 6})
    task.stop()
    assert [record.message for record in caplog.records] == ["hole: 7 records, 12 bytes"]


def test_it_says_how_many_there_were_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    task = BlackholeTask()
    task.start({"name": "hole", "log.interval.ms": "1000"}, FakeSink(T0))
    task.flush({})
    assert caplog.records == []
    task._said_at -= 1
    task.flush({})
    assert [record.message for record in caplog.records] == ["hole: 0 records, 0 bytes"]


def test_there_are_as_many_tasks_as_there_may_be() -> None:
    connector = Blackhole()
    connector.props = {"topics": "t"}
    assert connector.task_configs(3) == [{"topics": "t"}] * 3
