"""Runs a sink task: gives it the records of its consumer, commits what it says is safe.

The task stays in its group while it asks for the same batch again, and while it is paused: the
consumer is polled with all partitions paused. Dead letters are acknowledged before offsets behind
them are committed. Memory is bounded by max.poll.records and what the consumer fetches ahead.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from ..client.admin.admin import Admin
from ..client.admin.topic_types import NewTopic
from ..client.consumer.consumer import Consumer
from ..client.errors import ClientError
from ..client.group_types import RebalanceListener
from ..client.producer.delivery import Delivery
from ..client.producer.producer import Producer
from ..client.records import RecordColumns
from ..protocol.errors import ApiError
from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from .common_config import check_sink
from .hosts import TaskFailed
from .offset_store import create_topic
from .sink_step import Done, SinkStep, Wish
from .states import State, TargetState
from .task_runner import Assignment, Surroundings, TaskRunner
from .tolerance import DeadLetter

log = logging.getLogger(__name__)

MOST_LETTERS: Final = 1_000
"""The most dead letters that are on their way; then the task waits for them."""
POLL_MS: Final = 500
"""How long a poll waits for records: also the longest wait of a stop, a pause, a commit."""


class DeadLetterFailed(MinikafkaError):
    """A dead letter could not be written, so nothing behind it may be committed."""


class SinkRunner(TaskRunner):
    """Runs one sink task."""

    def __init__(self, assignment: Assignment, around: Surroundings, target: TargetState) -> None:
        self._offsets: dict[TopicPartition, int] = {}
        """What the task has taken: the offset behind it, by partition."""
        self._committed: dict[TopicPartition, int] = {}
        self._first: dict[TopicPartition, int] = {}
        """Where reading began, or the committed offset: where to go back to."""
        self._resting: dict[TopicPartition, None] = {}
        """The partitions that the task has paused."""
        self._holds = False
        self._again_ms: int | None = None
        self._given: Sequence[Any] = ()
        self._commit_at_ms = 0
        self._letters: list[Awaitable[Any]] = []
        self._settling = asyncio.Lock()
        self._letter_producer: Producer[bytes, bytes] | None = None
        settings = assignment.clients.consumer(assignment.id)
        self._consumer: Consumer[bytes, bytes] = Consumer(runtime=around.runtime, **settings)
        super().__init__(assignment, around, target)

    # -- life

    async def _open(self) -> None:
        check_sink(self.assignment.connector_props)
        await self._consumer.start()
        await self._start_host(SinkStep).call("start")
        topics = [one.strip() for one in self.settings["topics"] if one.strip()]
        pattern = self.settings["topics.regex"]
        listener = RebalanceListener(self._on_assigned, self._on_revoked, self._on_lost)
        await self._consumer.subscribe(
            re.compile(pattern) if pattern else topics, listener=listener
        )
        self._plan_commit()

    async def _work(self) -> None:
        while not self.is_stopping:
            self._check()
            await self._turn()

    async def _turn(self) -> None:
        assert self._host is not None
        rests, now_ms = self._rests(), self.around.runtime.monotonic_ms()
        self._tell(State.PAUSED if rests else State.RUNNING)
        self._hold(rests or self._again_ms is not None)
        until_ms = min(self._commit_at_ms, now_ms + POLL_MS)
        if self._again_ms is not None and not rests:
            until_ms = min(until_ms, self._again_ms)
        wait_ms = max(until_ms - now_ms, 1)
        consumer, in_columns = self._consumer, self.assignment.is_columnar
        given: Sequence[Any] = await (consumer.poll_columns if in_columns else consumer.poll)(
            wait_ms
        )
        now_ms = self.around.runtime.monotonic_ms()
        if rests:
            pass
        elif self._again_ms is None:
            self._given = given
            for partition, first in {each[:2]: each for each in reversed(given)}.items():
                self._first.setdefault(TopicPartition(*partition), _first_offset(first))
            method = "put_columns" if in_columns and given else "put"
            await self._took(await self._host.call(method, given))
        elif now_ms >= self._again_ms:
            await self._took(await self._host.call("again"))
        if now_ms >= self._commit_at_ms:
            await self._commit(list(self._offsets))
            self._plan_commit()

    def _hold(self, holds: bool) -> None:
        """Pause all partitions, or go on with those that the task has not paused itself."""
        if holds == self._holds:
            return
        self._holds = holds
        assigned = self._consumer.assignment()
        if holds:
            self._consumer.pause(*assigned)
        else:
            self._consumer.resume(*(each for each in assigned if each not in self._resting))

    async def _took(self, done: Done) -> None:
        """Note what the task has taken, and do what it asks for."""
        await self._write_letters(done.letters)
        if done.retry_ms is not None:
            self._again_ms = self.around.runtime.monotonic_ms() + done.retry_ms
        else:
            self._again_ms = None
            for partition, last in {each[:2]: each for each in self._given[: done.taken]}.items():
                if partition in self._first:
                    self._offsets[TopicPartition(*partition)] = _next_offset(last)
                self._use_topic(partition[0])
            self._given = ()
        self._carry_out(done)
        if done.failure is not None:
            raise TaskFailed(done.failure)

    def _carry_out(self, done: Done) -> None:
        for wish, partitions, offset in done.wishes:
            if wish is Wish.COMMIT:
                self._commit_at_ms = 0
            elif wish is Wish.SEEK:
                self._seek(partitions[0], offset)
            elif wish is Wish.PAUSE:
                self._resting |= dict.fromkeys(partitions)
                self._consumer.pause(*self._of_mine(partitions))
            else:
                for partition in partitions:
                    self._resting.pop(partition, None)
                if not self._holds:
                    self._consumer.resume(*self._of_mine(partitions))

    def _of_mine(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        return [TopicPartition(*each) for each in partitions if each in assigned]

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        if partition in self._consumer.assignment():
            self._consumer.seek(partition, offset)
            self._offsets[partition] = self._first[partition] = offset

    async def _finish(self) -> None:
        # Closing gives the partitions back, which commits them.
        await self._consumer.close(self.around.config.offset_flush_timeout_ms)

    async def _close_clients(self, timeout_ms: int) -> None:
        await self._consumer.close(timeout_ms)
        if self._letter_producer is not None:
            await self._letter_producer.close(timeout_ms)

    # -- rebalances; inside of polls and `close`

    async def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions and self._host is not None:
            if self._holds:
                self._consumer.pause(*partitions)
            self._carry_out(await self._host.call("open", list(partitions)))

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.is_abandoned:
            return
        try:
            await self._commit(partitions, closing=True)
        except MinikafkaError as error:
            self._fail(error)
        await self._on_lost(partitions)

    async def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self.is_abandoned or not partitions or self._host is None:
            return
        for partition in partitions:
            for known in (self._offsets, self._committed, self._first):
                known.pop(partition, None)
            self._resting.pop(partition, None)
        self._carry_out(await self._host.call("close", list(partitions)))

    # -- committing

    def _plan_commit(self) -> None:
        interval_ms = self.around.config.offset_flush_interval_ms
        self._commit_at_ms = self.around.runtime.monotonic_ms() + interval_ms

    async def _commit(self, partitions: Iterable[TopicPartition], *, closing: bool = False) -> None:
        """Commit what the task says is safe. If it cannot say, go back to what is committed."""
        offsets = {each: self._offsets[each] for each in partitions if each in self._offsets}
        if not offsets or self.is_abandoned or self._host is None:
            return
        await self._letters_written()
        try:
            done: Done = await self._host.call("pre_commit", offsets)
        except Exception as error:
            log.error("task %s: offsets are not committed", self.id, exc_info=error)
            if not closing:
                self._rewind(offsets)
            return
        self._carry_out(done)
        safe = {
            partition: offset
            for partition, offset in done.offsets.items()
            if offset <= offsets.get(partition, -1) and self._committed.get(partition) != offset
        }
        if not safe or self.is_abandoned:
            return
        try:
            timeout_ms = self.around.config.offset_flush_timeout_ms
            await self._consumer.commit(safe, timeout_ms=timeout_ms)
        except (ClientError, ApiError) as error:
            log.error("task %s: offsets are not committed: %s", self.id, error)
            return
        self._committed |= safe
        self._first |= safe

    def _rewind(self, partitions: Iterable[TopicPartition]) -> None:
        log.error("task %s: reading goes back to the committed offsets", self.id)
        for partition in partitions:
            self._seek(partition, self._first[partition])

    # -- dead letters

    async def _on_letter(self, letter: DeadLetter | None) -> None:
        """Write a record that the task has reported; commits wait for it from here on."""
        if letter is not None:
            writing = asyncio.ensure_future(self._write_letters([letter]))
            self._letters.append(writing)
            for delivery in await asyncio.shield(writing):
                await delivery

    async def _write_letters(self, letters: Sequence[DeadLetter]) -> list[Delivery]:
        sent: list[Delivery] = []
        for topic, key, value, headers, timestamp_ms in letters:
            try:
                producer = self._letter_producer or await self._open_letters(topic)
                await producer.drain()
                delivery = producer.send(
                    topic, value, key, headers=headers, timestamp_ms=timestamp_ms
                )
            except (ClientError, ApiError) as error:
                raise _letter_failed(topic, error) from error
            delivery.when_done(partial(self._on_letter_sent, topic, delivery))
            sent.append(delivery)
            self._letters.append(delivery)
            if len(self._letters) >= MOST_LETTERS:
                await self._letters_written()
        return sent

    def _on_letter_sent(self, topic: str, delivery: Delivery) -> None:
        error = delivery.error()
        if error is not None:
            self._fail(_letter_failed(topic, error))

    async def _open_letters(self, topic: str) -> Producer[bytes, bytes]:
        runtime, clients = self.around.runtime, self.assignment.clients
        factor = self.settings["errors.deadletterqueue.topic.replication.factor"]
        async with Admin(runtime=runtime, **clients.admin()) as admin:
            if topic not in [each.name for each in await admin.list_topics()]:
                await create_topic(admin, NewTopic(topic, 1, factor))
        producer: Producer[bytes, bytes] = Producer(
            runtime=runtime, **clients.producer(self.id, letters=True)
        )
        self._letter_producer = await producer.start()
        await producer.partitions_for(topic)
        return producer

    async def _letters_written(self) -> None:
        """Wait until all dead letters are in their topic; raise DeadLetterFailed."""
        async with self._settling:
            letters, self._letters = self._letters, []
            for letter in letters:
                try:
                    await letter
                except ClientError as error:
                    raise _letter_failed("their topic", error) from error
        if isinstance(self.failure, DeadLetterFailed):
            raise self.failure


def _letter_failed(topic: str, error: Exception) -> DeadLetterFailed:
    return DeadLetterFailed(f"a dead letter could not be written to {topic}: {error}")


def _first_offset(each: Any) -> int:
    return each.offsets[0] if isinstance(each, RecordColumns) else each.offset


def _next_offset(each: Any) -> int:
    last: int = each.offsets[-1] if isinstance(each, RecordColumns) else each.offset
    return last + 1
