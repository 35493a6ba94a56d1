"""What the options of a source make of a cluster: topics, times, tasks, triggers; no JVM."""

import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from minikafka.spark.offsets import DataLoss, ForeignOffsets, OffsetRange
from minikafka.spark.options import OptionError
from minikafka.spark.source import RangePartition, StreamReader
from tests.spark.fake_cluster import FakeCluster, FakeLog, cluster
from tests.spark.test_source import (
    EVERYTHING,
    batch_reader,
    log_of,
    planned,
    rows,
    source,
    stream_reader,
)

__all__ = ["cluster"]


def pattern_reader(pattern: str, **options: str) -> StreamReader:
    found = source({"subscribePattern": pattern, "startingOffsets": "earliest", **options})
    reader = found.streamReader(found.schema())
    assert isinstance(reader, StreamReader)
    return reader


# -- topics of a pattern


def test_a_batch_reads_all_topics_of_a_pattern(cluster: FakeCluster) -> None:
    cluster.logs = {"a1": {0: log_of(2)}, "other": {0: log_of(9)}, "my-a2": {0: log_of(3)}}
    found = source({"subscribePattern": "a[0-9]"})
    assert planned(found.reader(found.schema())) == [
        OffsetRange("a1", 0, 0, 2),
        OffsetRange("my-a2", 0, 0, 3),
    ]


def test_a_pattern_that_finds_nothing_yet(cluster: FakeCluster) -> None:
    found = source({"subscribePattern": "^nothing$"})
    (only,) = planned(found.reader(found.schema()))
    assert only.start == only.end
    reader = pattern_reader("^nothing$")
    start = reader.initialOffset()
    assert start == {}
    cluster.logs["nothing"] = {0: log_of(3)}
    end = reader.latestOffset(start, EVERYTHING)
    assert planned(reader, start, end) == [OffsetRange("nothing", 0, 0, 3)]


def test_topics_made_while_a_stream_runs(cluster: FakeCluster) -> None:
    cluster.logs["a1"] = {0: log_of(2)}
    reader = pattern_reader("^a", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == {"a1": {"0": 2}}
    cluster.logs |= {"a2": {0: log_of(5), 1: log_of(1)}, "b": {0: log_of(1)}}
    end = reader.latestOffset(start, EVERYTHING)
    assert end == {"a1": {"0": 2}, "a2": {"0": 5, "1": 1}}
    assert planned(reader, start, end) == [OffsetRange("a2", 0, 0, 5), OffsetRange("a2", 1, 0, 1)]


def test_a_topic_of_a_pattern_that_is_gone(cluster: FakeCluster) -> None:
    cluster.logs = {"a1": {0: log_of(2)}, "a2": {0: log_of(3)}}
    before = pattern_reader("^a").initialOffset()
    del cluster.logs["a2"]
    with pytest.raises(DataLoss, match="a2-0 was read up to 0 and is gone"):
        pattern_reader("^a").latestOffset(before, EVERYTHING)
    assert cluster.asked[-1] == {"a1": (0,), "a2": (0,)}, "brokers that are behind get time"
    tolerant = pattern_reader("^a", failOnDataLoss="false")
    assert tolerant.latestOffset(before, EVERYTHING) == {"a1": {"0": 2}}


# -- times


def timed(*times: int, first: int = 0) -> FakeLog:
    log = FakeLog(first=first, end=first)
    log.append([b"v"] * len(times))
    log.times = [(first + i, time) for i, time in enumerate(times)]
    return log


def test_a_batch_between_two_times(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: timed(10, 20, 30, 40), 1: timed(15, 35)}
    reader = batch_reader(startingTimestamp="20", endingTimestamp="35")
    assert planned(reader) == [OffsetRange("t", 0, 1, 3)], "1 has nothing in between"
    reader = batch_reader(startingTimestamp="12", endingTimestamp="99")
    assert planned(reader) == [OffsetRange("t", 0, 1, 4), OffsetRange("t", 1, 0, 2)]


def test_times_of_each_partition(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: timed(10, 20, 30), 1: timed(15, 35)}
    times = {
        "startingOffsetsByTimestamp": '{"t":{"0":20,"1":0}}',
        "endingOffsetsByTimestamp": '{"t":{"0":21,"1":35}}',
    }
    assert planned(batch_reader(**times)) == [OffsetRange("t", 0, 1, 2), OffsetRange("t", 1, 0, 1)]
    with pytest.raises(OptionError, match="name every partition that is read and no other: t-1"):
        batch_reader(startingOffsetsByTimestamp='{"t":{"0":20}}').partitions()


def test_no_record_is_as_young(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: timed(10, 20), 1: timed(90)}
    wanted = {"startingTimestamp": "50"}
    for refusing in (batch_reader(**wanted).partitions, stream_reader(**wanted).initialOffset):
        with pytest.raises(OptionError, match="t-0 has no record that young") as caught:
            refusing()
        assert caught.value.option == "startingTimestamp"
    wanted["startingOffsetsByTimestampStrategy"] = "latest"
    assert planned(batch_reader(**wanted)) == [OffsetRange("t", 1, 0, 1)]
    assert stream_reader(**wanted).initialOffset() == {"t": {"0": 2, "1": 0}}


def test_a_time_that_turns_out_to_be_behind_the_end(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: timed(10, 20, 30)}
    with pytest.raises(OptionError, match="t-0 would end at 1, before its start at 2"):
        batch_reader(startingTimestamp="30", endingOffsets='{"t":{"0":1}}').partitions()


# -- tasks


def test_ranges_are_cut_into_the_tasks_wanted(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(10), 1: log_of(2)}
    reader = batch_reader(minPartitions="3")
    assert planned(reader) == [
        OffsetRange("t", 0, 0, 5),
        OffsetRange("t", 0, 5, 10),
        OffsetRange("t", 1, 0, 2),
    ]
    parts = [rows(reader, each.start, each.end, each.partition) for each in planned(reader)]
    assert [row["offset"] for part in parts for row in part] == [*range(10), 0, 1]
    streamed = stream_reader(maxRecordsPerPartition="6")
    end = {"t": {"0": 10, "1": 2}}
    assert len(planned(streamed, streamed.initialOffset(), end)) == 3


# -- triggers


def test_a_stream_gathers_until_there_is_enough(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("minikafka.spark.source.monotonic", lambda: now)
    cluster.logs["t"] = {0: log_of(1)}
    reader = stream_reader(minOffsetsPerTrigger="4", maxTriggerDelay="1m")
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first == {"t": {"0": 1}}, "a query begins at once"
    cluster.logs["t"][0].append([b"v"] * 3)
    cluster.logs["t"][1] = log_of(0)
    now = 59.0
    assert reader.latestOffset(first, limit) == first
    assert reader.reportLatestOffset() == {"t": {"0": 4, "1": 0}}, "what waits is seen"
    cluster.logs["t"][1] = log_of(1)
    second = reader.latestOffset(first, limit)
    assert second == {"t": {"0": 4, "1": 1}}
    cluster.logs["t"][0].append([b"v"])
    now = 118.9
    assert reader.latestOffset(second, limit) == second
    now = 119.0
    assert reader.latestOffset(second, limit) == {"t": {"0": 5, "1": 1}}


def test_least_and_most_together(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(9)}
    reader = stream_reader(minOffsetsPerTrigger="2", maxOffsetsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    ends: list[Any] = [reader.initialOffset()]
    for _ in range(4):
        ends.append(reader.latestOffset(ends[-1], limit))
    assert [end["t"]["0"] for end in ends] == [0, 4, 8, 8, 8], "one record alone waits"


@pytest.mark.parametrize("limit", [ReadAllAvailable(), None])
def test_nothing_waits_where_everything_is_to_be_read(
    cluster: FakeCluster, limit: ReadLimit | None
) -> None:
    """Trigger.Once asks for everything; Trigger.AvailableNow must come to its end."""
    cluster.logs["t"] = {0: log_of(1)}
    reader = stream_reader(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7")
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    cluster.logs["t"][0].append([b"v"])
    if limit is None:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(first, limit or reader.getDefaultReadLimit())
    assert end == {"t": {"0": 2}}


def test_available_now_never_forgets_where_it_is(cluster: FakeCluster) -> None:
    """A partition that the freezing broker had not heard of would be read anew, from its start."""
    cluster.logs["t"] = {0: log_of(3)}
    reader = stream_reader()
    reader.prepareForTriggerAvailableNow()
    cluster.logs["t"][1] = log_of(5)
    assert reader.latestOffset({"t": {"0": 1, "1": 4}}, EVERYTHING) == {"t": {"0": 3, "1": 4}}


# -- checkpoints and options that changed


def test_a_checkpoint_of_other_topics(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.logs = {"t": {0: log_of(3)}, "old": {0: log_of(9)}}
    before = {"old": {"0": 9}}
    with pytest.raises(DataLoss, match="old-0 was read up to 9 and is gone, or read no more"):
        stream_reader().latestOffset(before, EVERYTHING)
    with caplog.at_level(logging.WARNING):
        end = stream_reader(failOnDataLoss="false").latestOffset(before, EVERYTHING)
    assert end == {"t": {"0": 3}}
    assert "old-0" in caplog.text


@pytest.mark.parametrize(
    ("what", "name"),
    [({"subscribe": "t,mistyped"}, "mistyped"), ({"assign": '{"t":[0,7]}'}, "t-7")],
)
def test_a_restart_that_names_what_is_not_there(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, what: dict[str, str], name: str
) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    before = {"t": {"0": 1}}

    def restarted(tolerant: str) -> StreamReader:
        found = source({**what, "failOnDataLoss": tolerant})
        reader = found.streamReader(found.schema())
        assert isinstance(reader, StreamReader)
        return reader

    with pytest.raises(DataLoss, match=f"the cluster does not have {name}"):
        restarted("true").latestOffset(before, EVERYTHING)
    reader = restarted("false")
    with caplog.at_level(logging.WARNING):
        end = reader.latestOffset(before, EVERYTHING)
        assert end == {"t": {"0": 3}}
        assert reader.latestOffset(end, EVERYTHING) == end
    assert caplog.text.count(name) == 1, "told once"
    waited_for = {"t": (0, 7)} if name == "t-7" else {"t": (0,), "mistyped": ()}
    assert cluster.asked[-2:] == [waited_for, {"t": (0,)}], "waited for once"


def test_a_checkpoint_of_another_source(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    foreign: Any = 17
    with pytest.raises(ForeignOffsets, match="holds 17"):
        stream_reader().latestOffset(foreign, EVERYTHING)


def test_other_bounds_do_not_move_a_query_with_a_checkpoint(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(9)}
    reader = stream_reader(startingOffsets="latest")
    assert reader.latestOffset({"t": {"0": 2}}, ReadMaxRows(3)) == {"t": {"0": 5}}


# -- columns


def test_only_the_columns_asked_for(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: FakeLog()}
    cluster.logs["t"][0].append([b"v", None])
    reader = batch_reader(columns="offset,value,headers", includeHeaders="true")
    first, second = rows(reader, 0, 2)
    assert first == {"offset": 0, "value": b"v", "headers": [{"key": "h", "value": b"x"}]}
    assert second["value"] is None
    (batch,) = reader.read(RangePartition(OffsetRange("t", 0, 0, 2)))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == ["offset", "value", "headers"]


def test_wrong_options_are_refused_when_the_frame_is_made() -> None:
    with pytest.raises(OptionError, match="'columns' = 'vlaue'"):
        source({"subscribe": "t", "columns": "vlaue"}).schema()
    with pytest.raises(OptionError, match="'minPartitions' = '0'"):
        source({"subscribe": "t", "minPartitions": "0"}).schema()
    for one_of_both in ({"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "5"}):
        assert len(source({"subscribe": "t", **one_of_both}).schema()) == 7
    neither = {"endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(OptionError, match="streaming query has no end"):
        source({"subscribe": "t", **neither}).schema()
