"""What is asked of a cluster for a lag, and what is done without where it does not answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from minikafka.client.admin.log_types import LogDirectory, ReplicaInfo
from minikafka.client.admin.topic_types import PartitionDescription, TopicDescription
from minikafka.client.errors import AdminError, OffsetOutOfRange, RequestTimedOut
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.records.batch_header import TimestampType
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError
from minikafka.spark import log_ends
from minikafka.spark.log_ends import LogEnd, LogEnds

SETTINGS = {"bootstrap.servers": "fake:9092", "isolation.level": "read_committed"}


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


@dataclass
class Fake:
    """Both clients and the clock at once: one topic `t`, partition n led by broker n + 1."""

    logs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition -> (first, latest)."""
    leaderless: int = -1
    silent_broker: int = -1
    timestamps: dict[int, int] = field(default_factory=dict)
    """Partition -> timestamp of all its records; one that is missing never answers."""
    error: Exception | None = None
    configs: list[dict[str, str]] = field(default_factory=list)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    paused: list[TopicPartition] = field(default_factory=list)
    assigned: list[TopicPartition] = field(default_factory=list)
    closed: int = 0
    now: float = 0.0
    """Goes on only while nothing arrives."""

    def from_config(self, config: Mapping[str, str]) -> "Fake":
        self.configs.append(dict(config))
        return self

    def close(self) -> None:
        self.closed += 1

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        unknown = {name: ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}
        unknown.pop("t", None)
        if unknown:
            raise AdminError(unknown)
        partitions = tuple(
            PartitionDescription(p, -1 if p == self.leaderless else p + 1, 0, (1,), (1,))
            for p in self.logs
        )
        return {name: TopicDescription(name, "id", False, partitions) for name in names}

    def describe_log_dirs(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> dict[int, dict[str, LogDirectory]]:
        (broker,) = broker_ids
        if broker == self.silent_broker:
            raise RequestTimedOut("nobody there")
        replicas = {partition: ReplicaInfo(1000, 0, False) for partition in partitions}
        moving = {partition: ReplicaInfo(7, 0, True) for partition in replicas}
        return {
            broker: {
                "a": LogDirectory(None, replicas, None, None),
                "b": LogDirectory(None, moving, None, None),
            }
        }

    def beginning_offsets(self, partitions: Any, *, timeout_ms: int) -> dict[TopicPartition, int]:
        return {each: self.logs[each.partition][0] for each in partitions}

    def end_offsets(self, partitions: Any, *, timeout_ms: int) -> dict[TopicPartition, int]:
        return {each: self.logs[each.partition][1] for each in partitions}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned = list(partitions)
        self.paused = []

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self.assigned
        self.positions[partition] = offset

    def pause(self, partition: TopicPartition) -> None:
        self.paused.append(partition)

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        if self.error is not None:
            raise self.error
        for partition in self.assigned:
            timestamp = self.timestamps.get(partition.partition)
            if timestamp is not None and partition not in self.paused:
                offset = self.positions[partition]
                kind = TimestampType.CREATE_TIME
                record: Any = ConsumerRecord(*partition, offset, timestamp, kind, None, b"", ())
                return [record]
        self.now += timeout_ms / 1000
        return []

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    for name in ("Admin", "Consumer"):
        monkeypatch.setattr(log_ends, name, made)
    monkeypatch.setattr(log_ends, "time", made)
    return made


def test_everything_is_known(fake: Fake) -> None:
    fake.logs = {0: (0, 10), 1: (4, 10), 2: (0, 3)}
    fake.timestamps = {0: 111, 1: 222, 2: 333}
    ends = LogEnds(SETTINGS)
    assert fake.configs == []
    assert ends.measure({"t": {0: 6, 1: 0, 2: 3}}) == {
        tp(0): LogEnd(0, 10, 1000, 111),
        tp(1): LogEnd(4, 10, 1000, 222),
        tp(2): LogEnd(0, 3, 1000, None),
    }
    assert fake.positions == {tp(0): 6, tp(1): 4}  # what was deleted is not fetched
    assert fake.assigned == []
    admin, consumer = fake.configs
    assert "isolation.level" not in admin
    assert consumer["isolation.level"] == "read_committed"
    ends.close()
    ends.close()
    assert fake.closed == 2


def test_what_is_not_there_is_left_out(fake: Fake) -> None:
    fake.logs, fake.leaderless = {0: (0, 0), 1: (0, 0)}, 1
    found = LogEnds(SETTINGS).measure({"other": {0: 0}, "t": {0: 0, 1: 0, 9: 0}})
    assert list(found) == [tp(0)]
    assert LogEnds(SETTINGS).measure({"other": {0: 0}}) == {}
    assert LogEnds(SETTINGS).measure({}) == {}


def test_a_broker_that_does_not_tell_its_sizes(fake: Fake) -> None:
    fake.logs, fake.silent_broker = {0: (0, 0), 1: (0, 0)}, 2
    found = LogEnds(SETTINGS).measure({"t": {0: 0, 1: 0}})
    assert [found[tp(0)].size_bytes, found[tp(1)].size_bytes] == [1000, None]


def test_ages_that_do_not_come_or_are_none(fake: Fake) -> None:
    fake.logs = {0: (0, 5), 1: (0, 5), 2: (0, 5)}
    fake.timestamps = {0: -1, 2: 77}
    found = LogEnds(SETTINGS).measure({"t": {0: 0, 1: 0, 2: 0}})
    assert [found[tp(p)].oldest_unread_ms for p in range(3)] == [None, None, 77]


def test_what_is_deleted_while_it_is_looked_at(fake: Fake) -> None:
    fake.logs = {0: (0, 5)}
    fake.error = OffsetOutOfRange(tp(0), 0)
    assert LogEnds(SETTINGS).measure({"t": {0: 0}}) == {tp(0): LogEnd(0, 5, 1000, None)}
    assert fake.assigned == []


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="isolation"):
        LogEnds({**SETTINGS, "isolation.levle": "read_committed"})
    LogEnds({**SETTINGS, "default.api.timeout.ms": "1000", "metadata.max.age.ms": "1000"})
