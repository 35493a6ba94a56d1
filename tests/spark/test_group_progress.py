"""A query's progress becomes a group's, and nothing that a cluster answers hurts the query."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from minikafka.client.errors import RequestTimedOut
from minikafka.protocol.types import TopicPartition
from minikafka.spark import group_progress
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.group_progress import GroupProgress
from minikafka.spark.options import OptionError
from minikafka.spark.source import StreamReader
from tests.spark.fake_cluster import SERVERS, FakeCluster, FakeLog, cluster

__all__ = ["cluster"]

SETTINGS = {"bootstrap.servers": "fake:9092", "fetch.min.bytes": "1", "client.id": "mine"}


class Groups:
    """In the place of the admin: what groups were told, and what it answers next."""

    def __init__(self) -> None:
        self.config: dict[str, str] = {}
        self.opened = self.closed = 0
        self.told: list[tuple[str, dict[TopicPartition, int]]] = []
        self.error: Exception | None = None

    def from_config(self, config: Mapping[str, str]) -> "Groups":
        self.opened += 1
        self.config = dict(config)
        return self

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.error is not None:
            raise self.error
        self.told.append((group, dict(offsets)))

    def close(self) -> None:
        self.closed += 1


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    fake = Groups()
    monkeypatch.setattr(group_progress, "Admin", fake)
    return fake


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(group_progress, "time", fake)
    return fake


def told(groups: Groups) -> list[int]:
    """Offsets of partition 0, in the order they were told."""
    return [offsets["t", 0] for _, offsets in groups.told]  # type: ignore[index]


def test_each_progress_is_told_once(groups: Groups, clock: Clock) -> None:
    progress = GroupProgress("g", SETTINGS)
    assert groups.opened == 0
    for offsets in ({"t": {0: 1, 1: 0}}, {"t": {0: 1, 1: 0}}, {"t": {0: 2, 1: 5}}):
        progress.tell(offsets)
    assert groups.told == [
        ("g", {TopicPartition("t", 0): 1, TopicPartition("t", 1): 0}),
        ("g", {TopicPartition("t", 0): 2, TopicPartition("t", 1): 5}),
    ]
    assert groups.opened == 1
    progress.close()
    progress.close()
    assert groups.closed == 1


def test_only_settings_of_an_admin_go_there(groups: Groups, clock: Clock) -> None:
    GroupProgress("g", SETTINGS).tell({"t": {0: 1}})
    assert groups.config == {
        "bootstrap.servers": "fake:9092",
        "client.id": "mine",
        "default.api.timeout.ms": str(group_progress.PATIENCE_MS),
        "bootstrap.timeout.ms": str(group_progress.PATIENCE_MS),
    }


def test_an_idle_query_tells_again_before_offsets_expire(groups: Groups, clock: Clock) -> None:
    progress = GroupProgress("g", SETTINGS)
    progress.tell({"t": {0: 7}})
    clock.now += group_progress.AGAIN_SECONDS - 1
    progress.tell({"t": {0: 7}})
    assert told(groups) == [7]
    clock.now += 1
    progress.tell({"t": {0: 7}})
    assert told(groups) == [7, 7]


@pytest.mark.parametrize("error", [RequestTimedOut("nobody there"), OSError("no route")])
def test_failures_are_logged_once_and_tried_again_later(
    groups: Groups, clock: Clock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.WARNING)
    progress = GroupProgress("g", SETTINGS)
    groups.error = error
    progress.tell({"t": {0: 1}})
    clock.now += 1
    progress.tell({"t": {0: 2}})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(error) in caplog.text
    groups.error = None
    clock.now += 1.9  # the second pause is twice the first
    progress.tell({"t": {0: 3}})
    assert told(groups) == []
    clock.now += 0.1
    progress.tell({"t": {0: 4}})
    progress.tell({"t": {0: 5}})
    assert told(groups) == [4, 5]


def test_pauses_have_an_end(groups: Groups, clock: Clock) -> None:
    progress = GroupProgress("g", SETTINGS)
    groups.error = RequestTimedOut("nobody there")
    for _ in range(20):
        progress.tell({"t": {0: 1}})
        clock.now += group_progress.LONGEST_PAUSE_SECONDS
    groups.error = None
    progress.tell({"t": {0: 2}})
    assert told(groups) == [2]


# -- in the source


def stream_reader(**options: str) -> StreamReader:
    source = MinikafkaDataSource(
        {**SERVERS, "subscribe": "t", "startingOffsets": "earliest", **options}
    )
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def grow(cluster: FakeCluster, count: int) -> None:
    cluster.logs.setdefault("t", {0: FakeLog()})[0].append([b"v"] * count)


def test_the_group_knows_what_spark_has_finished(cluster: FakeCluster, groups: Groups) -> None:
    grow(cluster, 4)
    reader = stream_reader(commitOffsetsGroup="g")
    start = reader.initialOffset()
    end: dict[str, Any] = reader.latestOffset(start, ReadAllAvailable())
    assert told(groups) == [0]
    # Also without a new batch, which is how AvailableNow ends: no commit() comes then.
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert told(groups) == [0, 4]
    reader.stop()
    assert groups.closed == 1


def test_a_group_that_cannot_be_told_does_not_stop_the_query(
    cluster: FakeCluster, groups: Groups
) -> None:
    grow(cluster, 4)
    groups.error = RequestTimedOut("nobody there")
    reader = stream_reader(commitOffsetsGroup="g")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"t": {"0": 4}}


def test_without_the_option_no_group_is_told(cluster: FakeCluster, groups: Groups) -> None:
    grow(cluster, 4)
    reader = stream_reader()
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()
    assert groups.opened == 0


def test_a_batch_job_has_no_progress_to_commit() -> None:
    source = MinikafkaDataSource({**SERVERS, "subscribe": "t", "commitOffsetsGroup": "g"})
    with pytest.raises(OptionError, match="commitOffsetsGroup"):
        source.reader(source.schema())
