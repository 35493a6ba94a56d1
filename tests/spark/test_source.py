"""Readers plan what is there, read exactly that, and never lose silently; no JVM, no broker."""

import logging
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StringType, StructType

from minikafka.client.errors import LogTruncated, OffsetOutOfRange
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.records.record_batch import seal
from minikafka.protocol.types import TopicPartition, uuid_to_text
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.offsets import DataLoss, OffsetRange
from minikafka.spark.options import OptionError
from minikafka.spark.source import RangePartition, StreamReader
from tests.spark.fake_cluster import SERVERS, FakeCluster, FakeLog, cluster

__all__ = ["cluster"]

EVERYTHING = ReadAllAvailable()


def source(options: dict[str, str]) -> MinikafkaDataSource:
    return MinikafkaDataSource({**SERVERS, **options})


def batch_reader(**options: str) -> DataSourceReader:
    found = source({"subscribe": "t", **options})
    return found.reader(found.schema())


def stream_reader(**options: str) -> StreamReader:
    found = source({"subscribe": "t", "startingOffsets": "earliest", **options})
    reader = found.streamReader(found.schema())
    assert isinstance(reader, StreamReader)
    return reader


def planned(reader: DataSourceReader | DataSourceStreamReader, *between: Any) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for each in reader.partitions(*between):
        assert isinstance(each, RangePartition)
        found.append(each.wanted)
    return found


def rows(reader: Any, start: int, end: int, partition: int = 0) -> list[dict[str, Any]]:
    wanted = RangePartition(OffsetRange("t", partition, start, end))
    batches = list(pickle.loads(pickle.dumps(reader)).read(wanted))
    return [row for batch in batches for row in batch.to_pylist()]


def log_of(count: int, *, first: int = 0) -> FakeLog:
    log = FakeLog(first=first, end=first)
    if count:
        log.append([b"%d" % (first + i) for i in range(count)])
    return log


# -- batch


def test_a_batch_reads_what_is_there(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3), 1: log_of(0), 2: log_of(4, first=6)}
    reader = batch_reader()
    assert planned(reader) == [OffsetRange("t", 0, 0, 3), OffsetRange("t", 2, 6, 10)]
    assert [row["value"] for row in rows(reader, 7, 9, partition=2)] == [b"7", b"8"]


def test_an_empty_topic_is_an_empty_range(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(0)}
    reader = batch_reader()
    (only,) = planned(reader)
    assert only.start == only.end
    assert rows(reader, only.start, only.end) == []


def test_every_column_is_there_with_its_type(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: FakeLog()}
    cluster.logs["t"][0].append([b"v", None])
    first, second = rows(batch_reader(includeHeaders="true"), 0, 2)
    assert (first["key"], first["value"], first["topic"]) == (b"k", b"v", "t")
    assert (first["partition"], first["offset"], first["timestampType"]) == (0, 0, 0)
    assert first["timestamp"].timestamp() == 1.0
    assert first["headers"] == [{"key": "h", "value": b"x"}]
    assert (second["offset"], second["value"]) == (1, None)


def test_large_batches_are_cut(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(25_000)}
    wanted = RangePartition(OffsetRange("t", 0, 0, 25_000))
    batches = list(batch_reader().read(wanted))
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows <= 10_000 for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 25_000


def test_a_gap_at_the_end_of_the_range_ends_the_read(cluster: FakeCluster) -> None:
    log = cluster.logs.setdefault("t", {0: log_of(3)})[0]
    log.append([b"later"], gap=10)
    assert [row["offset"] for row in rows(batch_reader(), 0, 8)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"subscribe": "t,absent"}, "'absent': the cluster does not have it"),
        ({"assign": '{"t":[0,7]}'}, "'t-7': the cluster does not have it"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":0,"1":0}}'}, "t-1"),
    ],
)
def test_what_does_not_exist_is_refused(
    cluster: FakeCluster, options: dict[str, str], match: str
) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    found = source(options)
    with pytest.raises(OptionError, match=match):
        found.reader(found.schema()).partitions()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"t":{"0":2}}'},
        {"startingOffsets": '{"t":{"0":9}}'},
        {"endingOffsets": '{"t":{"0":9}}'},
        {"endingOffsets": '{"t":{"0":2}}'},
    ],
)
def test_a_batch_outside_the_log_is_a_loss(cluster: FakeCluster, options: dict[str, str]) -> None:
    cluster.logs["t"] = {0: log_of(4, first=4)}
    with pytest.raises(DataLoss, match="t-0 holds offsets 4 to 8"):
        batch_reader(**options).partitions()
    (wanted,) = planned(batch_reader(failOnDataLoss="false", **options))
    assert (wanted.start, wanted.end) in [(4, 8), (0, 0)]


def test_a_schema_of_ones_own_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(OptionError, match="schema"):
        source({"subscribe": "t"}).reader(StructType().add("value", StringType()))


# -- losses in a task


@pytest.mark.parametrize("start", [0, 3])
def test_records_deleted_before_the_read(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, start: int
) -> None:
    cluster.logs["t"] = {0: log_of(4, first=4)}
    with pytest.raises(DataLoss, match=f"offsets {start} to 4 were deleted"):
        rows(batch_reader(), start, 6)
    with caplog.at_level(logging.WARNING):
        found = rows(batch_reader(failOnDataLoss="false"), start, 6)
    assert [row["offset"] for row in found] == [4, 5]
    assert "deleted before the read" in caplog.text


def test_a_range_deleted_as_a_whole(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(4, first=9)}
    assert rows(batch_reader(failOnDataLoss="false"), 0, 6) == []


def test_a_batch_beyond_the_end_of_the_log_is_refused(cluster: FakeCluster) -> None:
    log = log_of(3)
    (base, following, data) = log.batches[-1]
    moved = (base + 64).to_bytes(8, "big") + data[8:]
    log.batches[-1] = (base, following + 64, moved)
    cluster.logs["t"] = {0: log}
    with pytest.raises(RemoteProtocolError, match="t-0 ends at 3, and a batch came that ends at"):
        rows(batch_reader(subscribe="t"), 0, 3)
    log.end += 64  # what was written since the fetch said where the log ends is no error
    rows(batch_reader(subscribe="t"), 0, 3)


def test_m_18_garbage_names_its_partition_and_offset(cluster: FakeCluster) -> None:
    log = log_of(3)
    cluster.logs["t"] = {2: log}
    batch = bytearray(log.batches[0][2])
    batch[61:] = b"\xff" * (len(batch) - 61)
    seal(batch)
    log.batches[0] = (0, 3, bytes(batch))
    with pytest.raises(RemoteProtocolError, match="t-2: near offset 0"):
        rows(batch_reader(), 0, 3, partition=2)


def test_a_log_that_ends_before_the_range(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(4)}
    with pytest.raises(DataLoss, match="ends before offset 7"):
        rows(batch_reader(), 7, 9)
    assert rows(batch_reader(failOnDataLoss="false"), 7, 9) == []


@pytest.mark.parametrize(
    "error", [DataLoss("now ends at 2"), LogTruncated(TopicPartition("t", 0), 1, 0)]
)
def test_losses_told_by_the_reading(cluster: FakeCluster, error: Exception) -> None:
    cluster.logs["t"] = {0: log_of(4)}
    cluster.errors = [error, error]
    with pytest.raises(DataLoss, match="Set failOnDataLoss"):
        rows(batch_reader(), 0, 4)
    cluster.errors = [error, error]
    found = rows(batch_reader(failOnDataLoss="false"), 0, 4)
    # What was truncated is told, and the range as it is now is read.
    assert len(found) == (0 if isinstance(error, DataLoss) else 4)


@pytest.mark.parametrize(
    "error",
    [
        LogTruncated(TopicPartition("t", 0), 1, 0),
        LogTruncated(TopicPartition("t", 1), 1, 0),
        OffsetOutOfRange(TopicPartition("u", 0), 1),
    ],
)
def test_errors_that_are_not_of_this_read(cluster: FakeCluster, error: Exception) -> None:
    cluster.logs["t"] = {0: log_of(4)}
    cluster.errors = [error]
    assert len(rows(batch_reader(), 0, 4)) == 4


def test_a_topic_made_anew_between_plan_and_read(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.logs["t"] = {0: log_of(4)}
    cluster.topic_ids["t"] = uuid_to_text(b"1" * 16)
    cluster.read_ids["t"] = b"2" * 16
    strict: Any = batch_reader()
    tolerant: Any = batch_reader(failOnDataLoss="false")
    (task,) = strict.partitions()
    with pytest.raises(DataLoss, match="topic t was deleted and made anew after"):
        list(strict.read(task))
    with caplog.at_level(logging.WARNING):
        assert sum(batch.num_rows for batch in tolerant.read(task)) == 4
    assert [r.message.count("made anew") for r in caplog.records] == [1]
    cluster.read_ids["t"] = b"1" * 16
    assert sum(batch.num_rows for batch in strict.read(task)) == 4


# -- streaming


def test_a_stream_starts_where_it_is_told(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(4, first=4), 1: log_of(1)}
    assert stream_reader().initialOffset() == {"t": {"0": 4, "1": 0}}
    latest = stream_reader(startingOffsets="latest")
    assert latest.initialOffset() == {"t": {"0": 8, "1": 1}}
    cluster.logs["t"][1].append([b"more"])
    assert latest.initialOffset() == {"t": {"0": 8, "1": 1}}, "the same at each call"
    told = stream_reader(startingOffsets='{"t":{"0":5,"1":-1}}')
    assert told.initialOffset() == {"t": {"0": 5, "1": 2}}


def test_a_stream_that_starts_outside_the_log(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(4, first=4)}
    wanted = {"startingOffsets": '{"t":{"0":1}}'}
    with pytest.raises(DataLoss, match="wanted was 1"):
        stream_reader(**wanted).initialOffset()
    assert stream_reader(failOnDataLoss="false", **wanted).initialOffset() == {"t": {"0": 4}}


def test_micro_batches_keep_the_limit(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(90), 1: log_of(10)}
    reader = stream_reader(maxOffsetsPerTrigger="10")
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert end == {"t": {"0": 9, "1": 1}}
    assert planned(reader, start, end) == [OffsetRange("t", 0, 0, 9), OffsetRange("t", 1, 0, 1)]
    assert reader.reportLatestOffset() == {"t": {"0": 90, "1": 10}}


def test_nothing_new_is_the_same_offset(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    reader = stream_reader()
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert reader.latestOffset(end, EVERYTHING) == end
    (only,) = planned(reader, end, end)
    assert only.start == only.end


def test_available_now_ends_at_what_was_there(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    reader = stream_reader()
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    cluster.logs["t"][0].append([b"later"])
    cluster.logs["t"][1] = log_of(5)
    assert reader.latestOffset(start, EVERYTHING) == {"t": {"0": 3}}
    following = stream_reader()
    assert following.latestOffset({"t": {"0": 3}}, EVERYTHING) == {"t": {"0": 4, "1": 5}}


def test_new_partitions_are_read_from_their_beginning(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    reader = stream_reader()
    start = reader.initialOffset()
    cluster.logs["t"][1] = log_of(5)
    end = reader.latestOffset(start, EVERYTHING)
    assert planned(reader, start, end) == [OffsetRange("t", 0, 0, 3), OffsetRange("t", 1, 0, 5)]


def test_a_new_partition_that_lost_its_beginning(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(0), 1: log_of(5, first=2)}
    with pytest.raises(DataLoss, match="t-1 is new here and begins at 2"):
        stream_reader().partitions({"t": {"0": 0}}, {"t": {"0": 0, "1": 7}})
    reader = stream_reader(failOnDataLoss="false")
    assert planned(reader, {"t": {"0": 0}}, {"t": {"0": 0, "1": 7}}) == [OffsetRange("t", 1, 2, 7)]


def test_a_partition_that_is_gone(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    before = {"t": {"0": 3, "1": 5}}
    with pytest.raises(DataLoss, match="t-1 was read up to 5 and is gone"):
        stream_reader().latestOffset(before, EVERYTHING)
    assert cluster.asked[-1] == {"t": (0, 1)}, "brokers that are behind get time to hear of it"
    reader = stream_reader(failOnDataLoss="false")
    assert reader.latestOffset(before, EVERYTHING) == {"t": {"0": 3}}


def test_a_log_that_shrank_is_read_on_from_its_end(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    before = {"t": {"0": 9}}
    with pytest.raises(DataLoss, match="t-0 was read up to 9 and now ends at 3"):
        stream_reader().latestOffset(before, EVERYTHING)
    reader = stream_reader(failOnDataLoss="false")
    end = reader.latestOffset(before, ReadMaxRows(1))
    assert end == {"t": {"0": 3}}
    (nothing,) = planned(reader, before, end)
    assert nothing.start == nothing.end
    cluster.logs["t"][0].append([b"new"])
    after = reader.latestOffset(end, EVERYTHING)
    assert planned(reader, end, after) == [OffsetRange("t", 0, 3, 4)]


def test_a_log_that_shrank_does_not_wait_for_more(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    reader = stream_reader(failOnDataLoss="false", minOffsetsPerTrigger="100")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset({"t": {"0": 0}}, limit)
    cluster.logs["t"] = {0: log_of(1)}
    end = reader.latestOffset(end, limit)
    assert end == {"t": {"0": 1}}, "else what is written up to the old end would be passed over"


def test_the_micro_batches_of_a_stream_name_their_topics_id(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    cluster.topic_ids["t"] = "old"
    reader = stream_reader()
    start = reader.initialOffset()
    (range_,) = planned(reader, start, reader.latestOffset(start, EVERYTHING))
    assert range_.topic_id == "old"


def test_a_topic_made_anew_under_the_query(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3)}
    for tolerant in ("true", "false"):
        cluster.topic_ids["t"] = "old"
        reader = stream_reader(failOnDataLoss=tolerant)
        end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
        cluster.topic_ids["t"] = "new"
        if tolerant == "true":
            with pytest.raises(DataLoss, match="deleted and made anew"):
                reader.latestOffset(end, EVERYTHING)
        else:
            assert reader.latestOffset(end, EVERYTHING) == end


def test_assigned_partitions_only(cluster: FakeCluster) -> None:
    cluster.logs["t"] = {0: log_of(3), 1: log_of(4)}
    found = source({"assign": '{"t":[1]}', "startingOffsets": "earliest"})
    reader = found.streamReader(found.schema())
    assert isinstance(reader, StreamReader)
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert end == {"t": {"1": 4}}
