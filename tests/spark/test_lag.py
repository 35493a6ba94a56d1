"""What lag means, and when the listener tells of it; no JVM, no cluster."""

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
)

from minikafka.client.errors import RequestTimedOut
from minikafka.protocol.types import TopicPartition
from minikafka.spark import lag as lag_module
from minikafka.spark.lag import LagListener, PartitionLag, QueryLag, behind, progress_offsets
from minikafka.spark.log_ends import LogEnd
from minikafka.spark.options import Offsets

PATIENCE_SECONDS = 60
ID = uuid.UUID(int=1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def source_progress(end: str, latest: str) -> dict[str, Any]:
    return {
        "description": "minikafka",
        "startOffset": "null",
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 1,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
    }


def progressed(
    *sources: dict[str, Any], batch: int = 0, query: uuid.UUID = ID, name: str | None = "q"
) -> QueryProgressEvent:
    return QueryProgressEvent.fromJson(
        {
            "progress": {
                "id": str(query),
                "runId": str(query),
                "name": name,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "batchId": batch,
                "batchDuration": 10,
                "stateOperators": [],
                "sources": list(sources),
                "sink": {"description": "s", "numOutputRows": -1},
            }
        }
    )


def ended(query: uuid.UUID = ID) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(query, query, None, None)


# -- what lag means


def test_without_a_cluster_only_records_are_known() -> None:
    assert behind({"t": {0: 5, 1: 7}}, {"t": {0: 9, 1: 7}}, {}, 0) == (
        PartitionLag("t", 0, 5, 9),
        PartitionLag("t", 1, 7, 7),
    )


def test_the_cluster_knows_better_than_the_last_report() -> None:
    ends = {T0: LogEnd(0, 20, 2000, 400), T1: LogEnd(0, 7, 700, None)}
    first, second = behind({"t": {0: 5, 1: 7}}, {"t": {0: 9, 1: 7}}, ends, 3400)
    assert (first.latest, first.records, first.bytes, first.seconds) == (20, 15, 1500, 3.0)
    assert (second.records, second.bytes, second.seconds) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("position", "end", "records", "size", "seconds"),
    [
        (5, LogEnd(0, 10, None, None), 5, None, None),  # neither size nor age is told
        (5, LogEnd(8, 10, 200, 0), 5, 200, 1.0),  # deleted records are behind, without bytes
        (50, LogEnd(0, 10, 200, None), 0, 0, 0.0),  # made anew: nothing is behind
        (5, LogEnd(10, 10, 0, None), 5, 0, None),  # everything was deleted
        (0, LogEnd(0, 1, 90, 9999), 1, 90, 0.0),  # a producer's clock is ahead
    ],
)
def test_bytes_and_seconds(
    position: int, end: LogEnd, records: int, size: int | None, seconds: float | None
) -> None:
    (found,) = behind({"t": {0: position}}, {}, {T0: end}, 1000)
    assert (found.records, found.bytes, found.seconds) == (records, size, seconds)


def test_a_partition_not_begun_is_behind_by_all_it_has() -> None:
    latest = {"t": {0: 5, 1: 30}}
    assert behind({"t": {0: 5}}, latest, {}, 0)[1].records == 30
    ends = {T1: LogEnd(10, 30, None, None)}
    assert behind({"t": {0: 5}}, latest, ends, 0)[1].records == 20


def query_lag(*partitions: PartitionLag, name: str | None = "q") -> QueryLag:
    return QueryLag("id", name, 3, 0, True, partitions)


def test_metrics_have_the_connectors_names() -> None:
    found = query_lag(PartitionLag("t", 0, 0, 4, 400, 1.5), PartitionLag("t", 1, 0, 2, 100, 2.5))
    assert found.metrics() == {
        "minOffsetsBehindLatest": 2,
        "maxOffsetsBehindLatest": 4,
        "avgOffsetsBehindLatest": 3.0,
        "estimatedTotalBytesBehindLatest": 500,
        "maxSecondsBehindLatest": 2.5,
    }
    assert str(found) == "query q is 6 records, 0.0 MB, 2.5 s behind, most in t-0 (4)"


def test_what_is_not_known_is_no_metric() -> None:
    found = query_lag(PartitionLag("t", 0, 0, 4, 400, None), PartitionLag("t", 1, 0, 2), name=None)
    assert sorted(found.metrics()) == [
        "avgOffsetsBehindLatest",
        "maxOffsetsBehindLatest",
        "minOffsetsBehindLatest",
    ]
    assert str(found) == "query id is 6 records behind, most in t-0 (4)"


# -- Spark's reports


def offsets_of(*sources: dict[str, Any]) -> tuple[Offsets, Offsets] | None:
    return progress_offsets(progressed(*sources).progress)


def test_offsets_of_a_report() -> None:
    one = source_progress('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}')
    assert offsets_of(one) == ({"t": {0: 5, 1: 7}}, {"t": {0: 9, 1: 7}})


def test_a_topic_read_twice_counts_where_it_is_further_behind() -> None:
    one = source_progress('{"t":{"0":5}}', '{"t":{"0":9}}')
    two = source_progress('{"t":{"0":3},"u":{"0":1}}', "None")
    assert offsets_of(one, two) == ({"t": {0: 3}, "u": {0: 1}}, {"t": {0: 9}})


@pytest.mark.parametrize("offset", ["None", "null", "17", "{}", '{"t":3}', '{"t":{"a":1}}', "[1]"])
def test_other_sources_are_none_of_ours(offset: str) -> None:
    assert offsets_of(source_progress(offset, offset)) is None
    ours = source_progress('{"t":{"0":5}}', '{"t":{"0":9}}')
    assert offsets_of(source_progress(offset, offset), ours) == ({"t": {0: 5}}, {"t": {0: 9}})


# -- the listener


class Ends:
    """In the place of `LogEnds`: what the cluster says next."""

    def __init__(self) -> None:
        self.settings: Mapping[str, str] = {}
        self.found: dict[TopicPartition, LogEnd] = {}
        self.error: Exception | None = None
        self.asked: list[Offsets] = []
        self.closed = threading.Event()

    def __call__(self, settings: Mapping[str, str]) -> "Ends":
        self.settings = settings
        return self

    def measure(self, positions: Offsets) -> dict[TopicPartition, LogEnd]:
        self.asked.append(positions)
        if self.error is not None:
            raise self.error
        return self.found

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    fake = Ends()
    monkeypatch.setattr(lag_module, "LogEnds", fake)
    return fake


class Heard:
    """Lags, as they are published."""

    def __init__(self) -> None:
        self.lags: queue.SimpleQueue[QueryLag] = queue.SimpleQueue()

    def next(self) -> QueryLag:
        return self.lags.get(timeout=PATIENCE_SECONDS)


Make = Callable[..., LagListener]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def listener(heard: Heard, ends: Ends) -> Iterator[Make]:
    made: list[LagListener] = []

    def make(servers: str | None = "fake:9092", **arguments: Any) -> LagListener:
        arguments = {"on_lag": heard.lags.put, "every_seconds": 1000.0, **arguments}
        made.append(LagListener(servers, **arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


def at(offset: int, latest: int) -> dict[str, Any]:
    return source_progress(f'{{"t":{{"0":{offset}}}}}', f'{{"t":{{"0":{latest}}}}}')


def test_without_a_cluster_each_report_is_published_at_once(
    listener: Make, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "minikafka.spark.lag")
    spark = listener(None)
    spark.onQueryProgress(progressed(at(5, 9), batch=2))
    known = spark.snapshot()["q"]
    assert (known.query_id, known.batch_id, known.records, known.is_active) == (
        str(ID), 2, 4, True,
    )  # fmt: skip
    assert heard.next() == known
    assert caplog.messages == ["query q is 4 records behind"]
    spark.onQueryTerminated(ended())
    assert not spark.snapshot()["q"].is_active
    assert not heard.next().is_active


def test_the_first_report_is_measured_and_the_end_too(
    listener: Make, heard: Heard, ends: Ends
) -> None:
    spark = listener(settings={"isolation.level": "read_committed"})
    assert ends.settings == {
        "isolation.level": "read_committed",
        "bootstrap.servers": "fake:9092",
    }
    ends.found = {T0: LogEnd(0, 20, 2000, None)}
    spark.onQueryProgress(progressed(at(5, 9)))
    assert heard.next().bytes == 1500
    spark.onQueryProgress(progressed(at(15, 20), batch=1))  # too soon: not measured
    spark.onQueryIdle(QueryIdleEvent(ID, ID, ""))
    spark.onQueryTerminated(ended())
    last = heard.next()
    assert (last.batch_id, last.bytes, last.is_active) == (1, 500, False)
    assert ends.asked == [{"t": {0: 5}}, {"t": {0: 15}}]
    assert spark.snapshot() == {"q": last}


def test_measuring_goes_on_while_spark_reports_nothing(
    listener: Make, heard: Heard, ends: Ends
) -> None:
    spark = listener(every_seconds=0.01)
    spark.onQueryProgress(progressed(at(5, 9)))
    heard.next()
    ends.found = {T0: LogEnd(0, 1000, None, None)}
    while heard.next().records != 995:
        pass
    spark.onQueryTerminated(ended())
    while heard.next().is_active:
        pass
    assert spark.snapshot()["q"].records == 995


def test_a_partition_not_begun_is_asked_for_from_its_beginning(
    listener: Make, heard: Heard, ends: Ends
) -> None:
    spark = listener()
    spark.onQueryProgress(progressed(source_progress('{"t":{"0":5}}', '{"t":{"0":9,"1":7}}')))
    heard.next()
    assert ends.asked == [{"t": {0: 5, 1: 0}}]


def test_a_cluster_that_does_not_answer_leaves_sparks_reports(
    listener: Make, heard: Heard, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    spark = listener(every_seconds=0.0)
    ends.error = RequestTimedOut("nobody there")
    spark.onQueryProgress(progressed(at(5, 9)))
    for _ in range(3):
        assert (heard.next().records, spark.snapshot()["q"].bytes) == (4, None)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        "lag is told from Spark's reports only for now: nobody there"
    ]
    ends.found = {T0: LogEnd(0, 20, 2000, None)}
    ends.error = None
    while heard.next().records != 15:
        pass


def test_queries_without_topics_are_not_mentioned(listener: Make, ends: Ends) -> None:
    spark = listener()
    spark.onQueryProgress(progressed(source_progress("17", "18")))
    spark.onQueryTerminated(ended())
    assert spark.snapshot() == {}
    assert ends.asked == []


def test_old_queries_are_forgotten(listener: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "MOST_ENDED", 2)
    spark = listener(None)
    spark.onQueryProgress(progressed(at(5, 9), query=uuid.UUID(int=9), name="running"))
    for number in range(5):
        query = uuid.UUID(int=100 + number)
        spark.onQueryProgress(progressed(at(5, 9), query=query, name=None))
        spark.onQueryTerminated(ended(query))
    assert list(spark.snapshot()) == ["running", *(str(uuid.UUID(int=n)) for n in (103, 104))]


def test_closing_ends_the_connections(listener: Make, heard: Heard, ends: Ends) -> None:
    with listener() as spark:
        spark.onQueryProgress(progressed(at(5, 9)))
        heard.next()
    assert ends.closed.is_set()
    spark.onQueryProgress(progressed(at(6, 9)))
    assert spark.snapshot()["q"].batch_id == 0


def test_an_error_of_the_callback_is_logged_and_ends_no_measuring(
    heard: Heard, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(lag: QueryLag) -> None:
        heard.lags.put(lag)
        raise ValueError("a bug of the user's")

    with LagListener("fake:9092", every_seconds=0.0, on_lag=fails) as spark:
        spark.onQueryProgress(progressed(at(5, 9)))
        heard.next()
        heard.next()
        spark.onQueryTerminated(ended())
        while heard.next().is_active:
            pass
        assert not ends.closed.is_set()
    assert "on_lag failed for query q" in caplog.messages
    with LagListener(on_lag=fails) as spark:
        spark.onQueryProgress(progressed(at(5, 9)))
        assert spark.snapshot()["q"].records == 4


def test_an_error_in_measuring_is_logged_and_ends_no_measuring(
    listener: Make, heard: Heard, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    ends.error = KeyError("a bug of ours")
    spark = listener()
    spark.onQueryProgress(progressed(at(5, 9)))
    spark.onQueryTerminated(ended())
    assert not heard.next().is_active, "what Spark reported is known all the same"
    ends.error = None
    spark.onQueryProgress(progressed(at(6, 9), batch=1))
    assert heard.next().batch_id == 1
    assert any("was not measured" in message for message in caplog.messages)


def test_a_query_that_ends_just_before_the_listener_is_known_to_have_ended(
    listener: Make, heard: Heard, ends: Ends
) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def slow(positions: Offsets) -> dict[TopicPartition, LogEnd]:
        began.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return {}

    ends.measure = slow  # type: ignore[method-assign]
    spark = listener()
    spark.onQueryProgress(progressed(at(5, 9)))
    assert began.wait(PATIENCE_SECONDS)
    spark.onQueryTerminated(ended())
    closing = threading.Thread(target=spark.close)
    closing.start()
    while not spark._is_closed:
        pass
    goes_on.set()
    closing.join(PATIENCE_SECONDS)
    assert not spark.snapshot()["q"].is_active
