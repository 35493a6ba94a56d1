"""Connectors of tests: sources that count, sinks that keep what they are given."""

import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar

from minikafka.connect.api import (
    AsyncSinkTask,
    AsyncSourceTask,
    ColumnSinkTask,
    Props,
    Retry,
    SinkConnector,
    SinkContext,
    SinkTask,
    SourceConnector,
    SourceTask,
)
from minikafka.connect.records import SinkRecord, SourceRecord
from minikafka.protocol.types import TopicPartition


def counted(number: int, props: Props) -> SourceRecord:
    """Return record `number` of the source partition of these props."""
    return SourceRecord(
        topic=props["topic"],
        value=f"{number}",
        source_partition={"part": props.get("part", "a")},
        source_offset={"next": number + 1},
    )


class CountTask(SourceTask):
    """Counts up to `until`, `batch` numbers at a time."""

    def start(self, props: Any, context: Any) -> None:
        super().start(props, context)
        found = context.offsets.read({"part": props.get("part", "a")})
        self.next = 0 if found is None else found["next"]

    def poll(self) -> list[SourceRecord] | None:
        until, batch = int(self.props["until"]), int(self.props.get("batch", "10"))
        numbers = range(self.next, min(self.next + batch, until))
        self.next = numbers.stop if numbers else self.next
        return [counted(number, self.props) for number in numbers] or None


class Count(SourceConnector):
    """A source of numbers; `parts` makes a task for each."""

    task = CountTask

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        parts = self.props.get("parts", "a").split(",")
        return [{**self.props, "part": part} for part in parts[:max_tasks]]

    def exactly_once_support(self, props: Props) -> bool:
        return True


class AsyncCountTask(AsyncSourceTask):
    """Counts on the loop."""

    async def start(self, props: Any, context: Any) -> None:
        await super().start(props, context)
        found = context.offsets.read({"part": "a"})
        self.next = 0 if found is None else found["next"]

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        until = int(self.props["until"])
        for number in range(self.next, until):
            yield [counted(number, self.props)]


class AsyncCount(SourceConnector):
    """A source of numbers that runs on the loop."""

    task = AsyncCountTask


class KeepTask(SinkTask):
    """Keeps what it is given; `on_put` of the test decides what a put does."""

    kept: ClassVar[list[SinkRecord]] = []
    calls: ClassVar[list[Any]] = []
    on_put: ClassVar[Callable[["KeepTask", Sequence[SinkRecord]], None] | None] = None
    context: SinkContext

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("open", list(partitions)))

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records and KeepTask.on_put is not None:
            KeepTask.on_put(self, records)
        self.kept.extend(records)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.calls.append(("flush", dict(offsets)))

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("close", list(partitions)))


class Keep(SinkConnector):
    """A sink that keeps records in memory."""

    task = KeepTask


class AsyncKeepTask(AsyncSinkTask):
    """Keeps what it is given, on the loop."""

    kept: ClassVar[list[SinkRecord]] = []

    async def put(self, records: Sequence[SinkRecord]) -> None:
        self.kept.extend(records)


class AsyncKeep(SinkConnector):
    """A sink on the loop."""

    task = AsyncKeepTask


class ColumnKeepTask(ColumnSinkTask):
    """Keeps whole batches; refuses the first one once."""

    batches: ClassVar[list[Any]] = []
    refused: ClassVar[list[int]] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert not records

    def put_columns(self, partition: TopicPartition, batch: Any) -> None:
        if not self.refused:
            self.refused.append(batch.num_rows)
            raise Retry("not yet", 1)
        self.batches.append((partition, batch))


class ColumnKeep(SinkConnector):
    """A sink of columns."""

    task = ColumnKeepTask


class StuckTask(SourceTask):
    """Polls until the test lets it go, then hands out a record, whatever it was told."""

    gate: ClassVar[threading.Event] = threading.Event()
    polled: ClassVar[threading.Event] = threading.Event()
    left: ClassVar[threading.Event] = threading.Event()

    def poll(self) -> list[SourceRecord]:
        self.polled.set()
        self.gate.wait(60)
        self.left.set()
        return [counted(0, self.props)]


class Stuck(SourceConnector):
    """A source that does not stop."""

    task = StuckTask


class LargeTask(CountTask):
    """Hands out three records, the middle one larger than any request."""

    def start(self, props: Any, context: Any) -> None:
        SourceTask.start(self, props, context)
        self.left = ["before", "x" * 2_000_000, "after"]

    def poll(self) -> list[SourceRecord] | None:
        texts, self.left = self.left, []
        return [
            counted(number, self.props).with_(value=text) for number, text in enumerate(texts)
        ] or None


class Large(SourceConnector):
    """A source of a record that is too large."""

    task = LargeTask


class HearTask(CountTask):
    """Keeps what it hears of its records."""

    heard: ClassVar[list[Any]] = []

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        self.heard.append((record.value, None if metadata is None else metadata.offset))

    def commit(self) -> None:
        self.heard.append(("commit", None))


class Hear(SourceConnector):
    """A source that follows its records."""

    task = HearTask


class FlakyTask(CountTask):
    """Starts at the third try."""

    starts: ClassVar[list[int]] = []

    def start(self, props: Any, context: Any) -> None:
        self.starts.append(1)
        if len(self.starts) < 3:
            raise RuntimeError("not yet")
        super().start(props, context)


class Flaky(SourceConnector):
    """A source that fails at first."""

    task = FlakyTask


class LeavesTask(SourceTask):
    """Leaves the process, it thinks."""

    def poll(self) -> None:
        raise SystemExit(3)


class Leaves(SourceConnector):
    """A source that calls sys.exit."""

    task = LeavesTask


class FailAt17:
    """A transformation that refuses one value."""

    config: ClassVar[Any] = None

    def configure(self, props: Props) -> None:
        pass

    def apply(self, record: Any) -> Any:
        if record.value == "17":
            raise ValueError("17 is a bad number")
        return record

    def close(self) -> None:
        pass


class Drop1(FailAt17):
    """A transformation that drops one value."""

    def apply(self, record: Any) -> Any:
        return None if record.value == "1" else record


class ConvertTo17:
    """A converter of texts that refuses one value."""

    def configure(self, props: Props, is_key: bool) -> None:
        pass

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        if value == "17":
            raise ValueError("17 is a bad number")
        return None if value is None else str(value).encode()

    def to_connect(self, topic: str, data: bytes | None) -> tuple[None, str | None]:
        if data == b"17":
            raise ValueError("17 is a bad number")
        return None, None if data is None else data.decode()


class Rename(FailAt17):
    """A transformation that renames the topic."""

    def apply(self, record: Any) -> Any:
        return record.with_(topic="renamed")


class DropAll(FailAt17):
    """A transformation that drops everything."""

    def apply(self, record: Any) -> Any:
        return None


class CountThenHangTask(CountTask):
    """Counts, and then never comes back from a poll."""

    def poll(self) -> list[SourceRecord] | None:
        found = super().poll()
        if found is None:
            StuckTask.gate.wait(60)
        return found


class CountThenHang(SourceConnector):
    """A source that does not stop after its records."""

    task = CountThenHangTask


class BoundedTask(SourceTask):
    """Aborts what is open until record 1, commits behind records 2 and 3, leaves 4 open."""

    def start(self, props: Any, context: Any) -> None:
        super().start(props, context)
        self.polls = 0

    def poll(self) -> list[SourceRecord] | None:
        transaction = self.context.transaction
        assert transaction is not None
        self.polls += 1
        if self.polls == 1:
            found = [counted(number, self.props) for number in range(3)]
            transaction.abort(found[1])
            transaction.commit(found[2])
            return found
        if self.polls == 2:
            transaction.commit()
            return [counted(3, self.props)]
        return [counted(4, self.props)] if self.polls == 3 else None


class Bounded(SourceConnector):
    """A source that says where transactions end."""

    task = BoundedTask


class WholeTask(SourceTask):
    """Commits behind the whole of its batch, of which record 17 is one."""

    def poll(self) -> list[SourceRecord] | None:
        assert self.context.transaction is not None
        self.context.transaction.commit()
        return [counted(number, self.props) for number in range(15, 20)]


class Whole(SourceConnector):
    """A source whose batches are transactions."""

    task = WholeTask
