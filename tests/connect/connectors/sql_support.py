"""A worker's face for tasks under test: committed offsets, seeks, reported records."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from minikafka.connect.api import SinkTask, SourceOffset, SourcePartition, SourceTask
from minikafka.connect.data import Schema
from minikafka.connect.records import SinkRecord, SourceRecord
from minikafka.protocol.types import TopicPartition

from .support import settled


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((key, _frozen(each)) for key, each in value.items()))
    return value


class StoredOffsets:
    """Offsets by source partition, as the worker keeps them."""

    def __init__(self) -> None:
        self.kept: dict[Any, SourceOffset] = {}

    def read(self, partition: SourcePartition) -> SourceOffset | None:
        return self.kept.get(_frozen(partition))

    def read_all(
        self, partitions: Iterable[SourcePartition]
    ) -> list[tuple[SourcePartition, SourceOffset | None]]:
        return [(each, self.read(each)) for each in partitions]

    def commit(self, records: Sequence[SourceRecord]) -> None:
        """Take the offsets of records that are in their topics."""
        for record in records:
            self.kept[_frozen(record.source_partition)] = record.source_offset


class FakeSourceContext:
    """What a source task sees of its worker; its polls may not block."""

    poll_timeout_ms = 0
    transaction = None
    stopping = False

    def __init__(self, offsets: StoredOffsets | None = None) -> None:
        self.offsets = offsets or StoredOffsets()
        self.reconfigurations = 0

    def request_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def fail(self, error: Exception) -> None:
        raise error


class FakeSinkContext:
    """What a sink task sees of its worker."""

    def __init__(self, *partitions: TopicPartition, tolerant: bool = False) -> None:
        self.assignment = frozenset(partitions)
        self.seeks: dict[TopicPartition, int] = {}
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self.tolerant = tolerant
        self.commit_requests = 0

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.seeks[partition] = offset

    def timeout(self, after_ms: int) -> None:
        pass

    def pause(self, *partitions: TopicPartition) -> None:
        pass

    def resume(self, *partitions: TopicPartition) -> None:
        pass

    def request_commit(self) -> None:
        self.commit_requests += 1

    def report(self, record: SinkRecord, error: Exception) -> Awaitable[None]:
        if not self.tolerant:
            raise error
        self.reported.append((record, error))
        return settled()


def sink_record(topic: str, partition: int, offset: int, value: Any, **fields: Any) -> SinkRecord:
    return SinkRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        origin=TopicPartition(topic, partition),
        value=value,
        **fields,
    )


def polled(task: SourceTask, polls: int = 10) -> list[SourceRecord]:
    """The records of as many polls."""
    return [record for _ in range(polls) for record in task.poll() or ()]


def fed(
    task: SinkTask, context: FakeSinkContext, log: Sequence[SinkRecord], batch: int = 10
) -> None:
    """Give the task what it has not had yet, in batches, as a consumer would: from its seeks on."""
    rest = [each for each in log if each.offset >= context.seeks.get(each.origin, 0)]
    for start in range(0, len(rest), batch):
        task.put(rest[start : start + batch])


def schema_types(schema: Schema | None) -> dict[str, str]:
    """The fields of a struct as `type` or `type?`, logical types by the end of their name."""
    assert schema is not None
    return {
        name: (each.name or each.type.value).rpartition(".")[2] + "?" * each.optional
        for name, each in schema.fields
    }
