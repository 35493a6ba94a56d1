import time
from collections.abc import Iterator

import pytest

from minikafka.client.cli.performance import (
    Consumed,
    ProducerStats,
    consumer_progress,
    consumer_summary,
    java_date,
    metric_lines,
    percentiles,
)
from minikafka.client.measures import MEASURES

MEBIBYTE = 1024 * 1024


def test_producer_lines_are_kafkas() -> None:
    stats = ProducerStats.begin(1000, now_ms=5000.0)
    for latency in range(1, 101):
        stats.add(float(latency), MEBIBYTE // 100)
    assert stats.end_window(7000.0) == (
        "100 records sent, 50.0 records/sec (0.50 MB/sec), 50.5 ms avg latency, "
        "100.0 ms max latency."
    )
    stats.add(500.0, 10)
    assert stats.end_window(7500.0) == (
        "1 records sent, 2.0 records/sec (0.00 MB/sec), 500.0 ms avg latency, 500.0 ms max latency."
    )
    assert stats.summary(9000.0) == (
        "101 records sent, 25.250000 records/sec (0.25 MB/sec), 54.95 ms avg latency, "
        "500.00 ms max latency, 51 ms 50th, 96 ms 95th, 100 ms 99th, 500 ms 99.9th."
    )


def test_a_test_without_records_prints_numbers_too() -> None:
    stats = ProducerStats.begin(0, now_ms=0.0)
    assert stats.summary(0.0).startswith("0 records sent, 0.000000 records/sec (0.00 MB/sec), nan")


def test_samples_are_bounded() -> None:
    stats = ProducerStats.begin(2_000_000, now_ms=0.0)
    for _ in range(1000):
        stats.add(1.0, 1)
    assert len(stats.samples) == 200


def test_percentiles() -> None:
    assert percentiles([3.0, 1.0, 2.0], [0.0, 0.5, 0.999]) == [1.0, 2.0, 3.0]
    assert percentiles([], [0.5]) == [0.0]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_consumer_lines_are_kafkas() -> None:
    begin, middle = Consumed(1_000.0, 0, 0), Consumed(2_000.0, MEBIBYTE, 10)
    end = Consumed(5_250.0, 17 * MEBIBYTE, 170)
    pattern = "yyyy-MM-dd HH:mm:ss:SSS"
    assert consumer_summary(begin, end, 250, pattern) == (
        "1970-01-01 00:00:01:000, 1970-01-01 00:00:05:250, 17.0000, 4.0000, 170, 40.0000, "
        "250, 4000, 4.2500, 42.5000"
    )
    assert consumer_progress(middle, end, 0, pattern) == (
        "1970-01-01 00:00:05:250, 0, 17.0000, 4.9231, 170, 49.2308, 0, 3250, 4.9231, 49.2308"
    )


@pytest.mark.usefixtures("utc")
def test_dates_follow_a_java_pattern() -> None:
    moment = 1_700_000_000_123.0
    assert java_date(moment, "dd.MM.yyyy HH:mm:ss") == "14.11.2023 22:13:20"
    assert java_date(moment, "HH:mm:ss.SSS") == "22:13:20.123"


def test_metrics_are_printed_as_kafka_does() -> None:
    values = {measure.name: float("nan") for measure in MEASURES["consumer"]}
    values["records-lag-max"] = 12.3456
    lines = metric_lines("consumer", "me", values)
    assert len(lines) == len(values) + 2
    name = "consumer-fetch-manager-metrics:records-lag-max:{client-id=me}"
    (line,) = (line for line in lines if line.startswith(name))
    assert line.removeprefix(name).lstrip() == ": 12.346"
    assert lines[0] == ""
    assert lines[1].split() == ["Metric", "Name", "Value"]
    assert lines[2].startswith("consumer-coordinator-metrics:assigned-partitions:{client-id=me}")
    assert lines[2].endswith(" : NaN")
    assert len({line.index(" : ") for line in lines[2:]}) == 1
