"""A worker as tasks see it, with offsets that a test commits, and records for sinks."""

from collections.abc import Awaitable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from minikafka import TopicPartition
from minikafka.connect.api import (
    OffsetReader,
    Props,
    SourceOffset,
    SourcePartition,
    SourceTask,
    TransactionControl,
)
from minikafka.connect.hosts import Reported
from minikafka.connect.records import SinkRecord, SourceRecord

Task = TypeVar("Task", bound=SourceTask)


def key_of(partition: SourcePartition) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(partition.items()))


class FakeOffsets:
    """The offsets of a connector."""

    def __init__(self) -> None:
        self.committed: dict[tuple[tuple[str, Any], ...], SourceOffset] = {}

    def read(self, partition: SourcePartition) -> SourceOffset | None:
        return self.committed.get(key_of(partition))

    def read_all(
        self, partitions: Iterable[SourcePartition]
    ) -> list[tuple[SourcePartition, SourceOffset | None]]:
        return [(each, self.read(each)) for each in partitions]

    def commit(self, records: Iterable[SourceRecord]) -> None:
        for record in records:
            self.committed[key_of(record.source_partition)] = record.source_offset


class FakeSource:
    """The worker of a source task; it never waits."""

    def __init__(self, offsets: FakeOffsets | None = None) -> None:
        self.committed = offsets or FakeOffsets()
        self.stopping = False

    offsets: OffsetReader = property(lambda self: self.committed)  # type: ignore[assignment]
    poll_timeout_ms: int = 0
    transaction: TransactionControl | None = None


class FakeSink:
    """The worker of a sink task, which keeps what it was asked for."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.assignment = frozenset(partitions)
        self.sought: dict[TopicPartition, int] = {}
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self.tolerates = True

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition] = offset

    def timeout(self, after_ms: int) -> None: ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None: ...

    def report(self, record: SinkRecord, error: Exception) -> Awaitable[None]:
        if not self.tolerates:
            raise error
        self.reported.append((record, error))
        return settled()


def settled() -> Reported:
    """What a worker gives for a record that it has put among the dead letters."""
    done: Future[None] = Future()
    done.set_result(None)
    return Reported(done)


def sink_record(offset: int, value: Any, *, topic: str = "t", partition: int = 0) -> SinkRecord:
    return SinkRecord(
        topic=topic,
        value=value,
        partition=partition,
        offset=offset,
        origin=TopicPartition(topic, partition),
    )


def started(task: Task, props: Props, offsets: FakeOffsets | None = None) -> Task:
    task.start(props, FakeSource(offsets))
    return task


def drain(task: SourceTask, polls: int = 100) -> list[SourceRecord]:
    """Poll until there is nothing more, at most so many times."""
    found: list[SourceRecord] = []
    for _ in range(polls):
        records: Sequence[SourceRecord] | None = task.poll()
        if not records:
            return found
        found += records
    raise AssertionError(f"more than {polls} batches")
