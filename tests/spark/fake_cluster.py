"""A cluster in memory, in the place of `minikafka.spark.cluster.Cluster`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from minikafka.client.admin.topic_types import PartitionDescription, TopicDescription
from minikafka.client.errors import OffsetOutOfRange
from minikafka.client.producer.columns import Columns, checked_rows
from minikafka.client.records import ProducerRecord, RawRecords
from minikafka.protocol.compression import Codec
from minikafka.protocol.records.records import NewRecord, build
from minikafka.protocol.types import ZERO_UUID, TopicPartition
from minikafka.spark.options import Offsets

MOST_BYTES = 1000
SERVERS = {"kafka.bootstrap.servers": "fake:9092"}


@dataclass
class FakeLog:
    first: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(base offset, next offset, bytes)"""
    end: int = 0
    times: list[tuple[int, int]] = field(default_factory=list)
    """(offset, time in ms)"""

    def append(self, values: Sequence[bytes | None], *, gap: int = 0) -> None:
        records = [
            NewRecord(1000 + i, b"k", value, [("h", b"x")]) for i, value in enumerate(values)
        ]
        base = self.end + gap
        self.times += [(base + i, record.timestamp) for i, record in enumerate(records)]
        data = build(records, compression=Codec.NONE, base_offset=base, leader_epoch=0)
        self.end = base + len(values)
        self.batches.append((base, self.end, bytes(data)))


@dataclass
class FakeDelivery:
    error: Exception | None = None

    def done(self) -> bool:
        return False

    def result(self) -> None:
        if self.error is not None:
            raise self.error


@dataclass
class FakeProducer:
    partition_count: int = 3
    sent: list[tuple[str, int | None, list[ProducerRecord]]] = field(default_factory=list)
    error: Exception | None = None
    flushes: int = 0

    def partitions_for(self, topic: str, *, refresh: bool = False) -> list[int]:
        return list(range(self.partition_count))

    def send_batch(
        self, topic: str, records: Columns[Any, Any], *, partition: int | None = None
    ) -> FakeDelivery:
        rows = [
            ProducerRecord(value, key, list(headers))
            for _, key, value, headers in checked_rows(records, (None, None), 0, MOST_BYTES)
        ]
        self.sent.append((topic, partition, rows))
        return FakeDelivery(self.error)

    def flush(self) -> None:
        self.flushes += 1


@dataclass
class FakeCluster:
    logs: dict[str, dict[int, FakeLog]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    read_ids: dict[str, bytes] = field(default_factory=dict)
    """Ids of the topics that fetches come from, where they are told."""
    errors: list[Exception] = field(default_factory=list)
    """Raised by the next reads, one each."""
    asked: list[Any] = field(default_factory=list)
    written: FakeProducer = field(default_factory=FakeProducer)
    most: dict[str, int] = field(default_factory=dict)
    """The largest batch that a topic takes."""

    def describe(
        self, topics: Sequence[str], expected: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, TopicDescription]:
        self.asked.append(expected)
        return {
            name: TopicDescription(
                name,
                self.topic_ids.get(name, "id"),
                False,
                tuple(PartitionDescription(p, 1, 0, (1,), (1,)) for p in self.logs[name]),
            )
            for name in topics
            if name in self.logs
        }

    def earliest(self, partitions: Mapping[str, Sequence[int]]) -> Offsets:
        return {t: {p: self.logs[t][p].first for p in by} for t, by in partitions.items()}

    def latest(self, partitions: Mapping[str, Sequence[int]]) -> Offsets:
        return {t: {p: self.logs[t][p].end for p in by} for t, by in partitions.items()}

    def most_bytes(self, topic: str) -> int:
        return self.most.get(topic, 1_048_588)

    def topics_matching(self, pattern: re.Pattern[str]) -> list[str]:
        return [name for name in self.logs if pattern.search(name)]

    def at_times(self, times_ms: Offsets) -> Offsets:
        return {
            t: {
                p: next((o for o, time in self.logs[t][p].times if time >= ms), -1)
                for p, ms in by.items()
            }
            for t, by in times_ms.items()
        }

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[RawRecords]:
        if self.errors:
            raise self.errors.pop(0)
        log = self.logs[partition.topic][partition.partition]
        if not log.first <= start <= log.end:
            raise OffsetOutOfRange(partition, start)
        position = start
        for _, next_offset, data in log.batches:
            if next_offset > position < end:
                yield RawRecords(
                    *(*partition, position, next_offset, log.end, log.end, log.first),
                    data=memoryview(data),
                    topic_id=self.read_ids.get(partition.topic, ZERO_UUID),
                )
                position = next_offset

    def producer(self) -> FakeProducer:
        return self.written


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    monkeypatch.setattr("minikafka.spark.source.cluster_for", lambda *_: fake)
    monkeypatch.setattr("minikafka.spark.sink.cluster_for", lambda settings: fake)
    return fake
