"""Writes the dead letters of a sink task; commits wait until they are acknowledged.

One that cannot be written fails the task. Never here: which records become dead letters.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final

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

MOST_LETTERS: Final = 1_000
"""The most dead letters that are on their way; then the task waits for them."""


class DeadLetterFailed(MinikafkaError):
    """A dead letter could not be written, so nothing behind it may be committed."""


class Letters:
    """The dead letters of one task; its producer is opened at the first one."""

    def __init__(self, task: TaskRunner) -> None:
        self._task = task
        self._letters: list[Awaitable[Any]] = []
        self._settling = asyncio.Lock()
        self._producer: Producer[bytes, bytes] | None = None

    async def report(self, letter: DeadLetter | None) -> None:
        """Write a record that the task has reported; commits wait for it from here on."""
        if letter is not None:
            writing = asyncio.ensure_future(self.write([letter]))
            self._letters.append(writing)
            for delivery in await asyncio.shield(writing):
                await delivery

    async def write(self, letters: Sequence[DeadLetter]) -> list[Delivery]:
        """Send letters; raise DeadLetterFailed if the topic cannot be used."""
        sent: list[Delivery] = []
        for topic, key, value, headers, timestamp_ms in letters:
            try:
                producer = self._producer or await self._open(topic)
                await producer.drain()
                delivery = producer.send(
                    topic, value, key, headers=headers, timestamp_ms=timestamp_ms
                )
            except (ClientError, ApiError) as error:
                raise _letter_failed(topic, error) from error
            delivery.when_done(partial(self._on_sent, topic, delivery))
            sent.append(delivery)
            self._letters.append(delivery)
            if len(self._letters) >= MOST_LETTERS:
                await self.written()
        return sent

    async def close(self, timeout_ms: int) -> None:
        """Close the producer."""
        if self._producer is not None:
            await self._producer.close(timeout_ms)

    def _on_sent(self, topic: str, delivery: Delivery) -> None:
        error = delivery.error()
        if error is not None:
            self._task.fail(_letter_failed(topic, error))

    async def _open(self, topic: str) -> Producer[bytes, bytes]:
        runtime, clients = self._task.around.runtime, self._task.assignment.clients
        factor = self._task.settings["errors.deadletterqueue.topic.replication.factor"]
        async with Admin(runtime=runtime, **clients.admin()) as admin:
            if topic not in [each.name for each in await admin.list_topics()]:
                await create_topic(admin, NewTopic(topic, 1, factor))
        producer: Producer[bytes, bytes] = Producer(
            runtime=runtime, **clients.producer(self._task.id, letters=True)
        )
        self._producer = await producer.start()
        await producer.partitions_for(topic)
        return producer

    async def written(self) -> None:
        """Wait until all dead letters are in their topic; raise DeadLetterFailed."""
        async with self._settling:
            letters, self._letters = self._letters, []
            for letter in letters:
                try:
                    await letter
                except ClientError as error:
                    raise _letter_failed("their topic", error) from error
        if isinstance(self._task.failure, DeadLetterFailed):
            raise self._task.failure


def _letter_failed(topic: str, error: Exception) -> DeadLetterFailed:
    return DeadLetterFailed(f"a dead letter could not be written to {topic}: {error}")
