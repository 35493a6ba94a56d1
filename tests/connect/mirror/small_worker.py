"""A worker for tests of MM2's connectors alone: one flow, in the loop of the test.

It keeps offsets as the real one does: behind the acknowledgement, by source partition.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from minikafka.aio import Producer
from minikafka.connect.api import (
    AsyncSourceTask,
    Props,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from minikafka.connect.records import SourceRecord


class Offsets:
    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}

    def note(self, record: SourceRecord) -> None:
        self.known[_text(record.source_partition)] = dict(record.source_offset)

    def read(self, partition: SourcePartition) -> SourceOffset | None:
        return self.known.get(_text(partition))

    def read_all(
        self, partitions: Iterable[SourcePartition]
    ) -> list[tuple[SourcePartition, SourceOffset | None]]:
        return [(each, self.read(each)) for each in partitions]


def _text(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


class Context:
    """What connector and task see of the worker."""

    poll_timeout_ms = 200
    transaction = None
    stopping = False

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        self.errors: list[Exception] = []
        self.reconfigured = 0

    def request_reconfiguration(self) -> None:
        self.reconfigured += 1

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


class Running:
    """A connector with its tasks."""

    def __init__(self, connector: SourceConnector, context: Context) -> None:
        self.connector = connector
        self.context = context
        self.tasks: list[AsyncSourceTask] = []
        self.moving: list[asyncio.Task[None]] = []
        self.mirrored = 0
        self.news = asyncio.Event()

    async def until(self, count: int) -> None:
        """Wait until so many records are at the target; raise what ended a task before."""
        async with asyncio.timeout(30):
            while self.mirrored < count:
                self.news.clear()
                waits = asyncio.create_task(self.news.wait())
                await asyncio.wait([waits, *self.moving], return_when="FIRST_COMPLETED")
                waits.cancel()
                for each in self.moving:
                    if each.done():
                        each.result()

    async def until_at(self, offset: int) -> None:
        """Wait until the newest place of a record is this one."""
        known = self.context.offsets.known
        async with asyncio.timeout(30):
            while not any(each["offset"] == offset for each in known.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def ended(self) -> BaseException | None:
        """Wait until a task ends; give its error."""
        async with asyncio.timeout(30):
            done, _ = await asyncio.wait(self.moving, return_when="FIRST_COMPLETED")
        return next(iter(done)).exception()

    async def start_tasks(self, producer: "Producer[bytes, bytes]", count: int = 2) -> None:
        for props in self.connector.task_configs(count):
            task: AsyncSourceTask = self.connector.task()
            await task.start(props, self.context)
            self.tasks.append(task)
            self.moving.append(asyncio.create_task(self._move(task, producer)))

    async def _move(self, task: AsyncSourceTask, producer: "Producer[bytes, bytes]") -> None:
        async for batch in task.records():
            await self._write(task, producer, batch)
            await task.commit()
            self.mirrored += sum(bool(each.topic) for each in batch)
            self.news.set()

    async def _write(
        self,
        task: AsyncSourceTask,
        producer: "Producer[bytes, bytes]",
        batch: Sequence[SourceRecord],
    ) -> None:
        sent = [
            producer.send(
                each.topic,
                each.value,
                each.key,
                partition=each.partition,
                timestamp_ms=each.timestamp_ms,
                headers=tuple((one.key, one.value) for one in each.headers),
            )
            for each in batch
            if each.topic
        ]
        await producer.flush()
        places = iter(sent)
        for record in batch:
            self.context.offsets.note(record)
            await task.commit_record(record, next(places).result() if record.topic else None)

    async def stop(self) -> None:
        for moving in self.moving:
            moving.cancel()
        await asyncio.gather(*self.moving, return_exceptions=True)
        for task in self.tasks:
            await task.stop()
        self.moving, self.tasks = [], []


@asynccontextmanager
async def running(
    connector: SourceConnector, props: Props, offsets: Offsets | None = None
) -> AsyncIterator[Running]:
    """Run a connector until the end of the block."""
    context = Context(offsets or Offsets())
    one = Running(connector, context)
    target = props["target.cluster.bootstrap.servers"]
    async with Producer(target, transactional_id=None) as producer:
        try:
            await asyncio.to_thread(connector.start, props, context)
            await one.start_tasks(producer)
            yield one
        finally:
            await one.stop()
            await asyncio.to_thread(connector.stop)
