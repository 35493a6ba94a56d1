"""Writes the dead letters of a sink task; commits wait until they are acknowledged.

One that cannot be written fails the task. The producer's buffer.memory bounds those on their way.
Never here: which records become dead letters.
"""

import asyncio
from collections.abc import Sequence

from ..client.admin.admin import Admin
from ..client.admin.topic_types import NewTopic
from ..client.errors import ClientError
from ..client.producer.delivery import Delivery
from ..client.producer.producer import Producer
from ..protocol.errors import ApiError
from ..runtime.errors import MinikafkaError
from .offset_store import create_topic
from .task_runner import TaskRunner
from .tolerance import DeadLetter


class DeadLetterFailed(MinikafkaError):
    """A dead letter could not be written, so nothing behind it may be committed."""


class Letters:
    """The dead letters of one task; its producer is opened at the first one."""

    def __init__(self, task: TaskRunner) -> None:
        self._task = task
        self._waiting = 0
        """How many letters are not acknowledged yet."""
        self._settled = asyncio.Event()
        self._failure: DeadLetterFailed | None = None
        self._opening = asyncio.Lock()
        self._producer: Producer[bytes, bytes] | None = None

    async def report(self, letter: DeadLetter | None) -> None:
        """Write a record that the task has reported; commits wait for it from here on."""
        if letter is not None:
            await (await self._send(letter))

    async def write(self, letters: Sequence[DeadLetter]) -> None:
        """Send letters; raise DeadLetterFailed if the topic cannot be used."""
        for letter in letters:
            await self._send(letter)

    async def written(self) -> None:
        """Wait until all dead letters are in their topic; raise DeadLetterFailed."""
        while self._waiting:
            self._settled.clear()
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self, timeout_ms: int) -> None:
        """Close the producer."""
        if self._producer is not None:
            await self._producer.close(timeout_ms)

    async def _send(self, letter: DeadLetter) -> Delivery:
        topic, key, value, headers, timestamp_ms = letter
        self._waiting += 1
        try:
            producer = await self._open(topic)
            await producer.drain()
            delivery = producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp_ms)
        except BaseException as error:
            self._settle(topic, error)
            if isinstance(error, ClientError | ApiError):
                raise _letter_failed(topic, error) from error
            raise
        delivery.when_done(lambda: self._settle(topic, delivery.error()))
        return delivery

    def _settle(self, topic: str, error: BaseException | None) -> None:
        self._waiting -= 1
        self._settled.set()
        if error is not None:
            self._failure = self._failure or _letter_failed(topic, error)
            self._task.fail(self._failure)

    async def _open(self, topic: str) -> Producer[bytes, bytes]:
        async with self._opening:
            if self._producer is None:
                self._producer = await self._opened(topic)
            return self._producer

    async def _opened(self, topic: str) -> Producer[bytes, bytes]:
        runtime, clients = self._task.around.runtime, self._task.assignment.clients
        factor = self._task.settings["errors.deadletterqueue.topic.replication.factor"]
        async with Admin(runtime=runtime, **clients.admin()) as admin:
            if topic not in [each.name for each in await admin.list_topics()]:
                await create_topic(admin, NewTopic(topic, 1, factor))
        producer: Producer[bytes, bytes] = Producer(
            runtime=runtime, **clients.producer(self._task.id, letters=True)
        )
        await producer.start()
        try:
            await producer.partitions_for(topic)
        except BaseException:
            await producer.close(timeout_ms=0)
            raise
        return producer


def _letter_failed(topic: str, error: BaseException) -> DeadLetterFailed:
    return DeadLetterFailed(f"a dead letter could not be written to {topic}: {error}")
