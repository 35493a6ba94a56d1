"""Reads dead letters, requeues them and discards them: each once, however often it is repeated.

Letters are requeued in transactions that also commit which letters are settled, under the group
`__dlq-<topic>`. The transactional id is the same, so that a new run ends one that still goes on.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final, NamedTuple

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..config import settings_like
from ..producer.producer import Producer
from .consumer import Consumer
from .letter_filter import Choice
from .letter_progress import LetterProgress, TooManyGaps
from .retry_batch import Raw
from .retry_headers import is_truncated, letter_of, requeued_headers
from .retry_policy import topics_of

POLL_MS: Final = 500
Progress = Mapping[TopicPartition, LetterProgress]
Target = Callable[[Raw], str]


class LettersRefused(MinikafkaError):
    """Raised if dead letters cannot be requeued or discarded as asked."""


class Settled(NamedTuple):
    """The result of a run."""

    letters: int
    """The letters that were requeued or discarded."""
    without_value: int
    """The letters that were left, because they have lost their value."""


class _Chunk(NamedTuple):
    """The records of one poll, and from where to where it has read each partition."""

    records: list[Raw]
    ranges: dict[TopicPartition, tuple[int, int]]


def to_group(record: Raw) -> str:
    """Return the topic by which the group that has failed gets a letter again."""
    if not (group := letter_of(record.headers).group):
        raise LettersRefused(f"{_name(record)} names no group: name the topic to requeue to")
    return topics_of(group).again


def to_origin(record: Raw) -> str:
    """Return the topic from which a letter was read first."""
    if not (topic := letter_of(record.headers).topic):
        raise LettersRefused(f"{_name(record)} names no topic: name the topic to requeue to")
    return topic


class DeadLetters:
    """The dead letters of a topic."""

    def __init__(self, admin: Admin, topic: str, runtime: Runtime | None = None) -> None:
        """Settings that concern connections are the admin's."""
        self.topic = topic
        self.group_id = f"__dlq-{topic}"
        self._admin = admin
        self._settings = settings_like(admin.config)
        self._runtime = runtime

    async def read(self, *, is_settled_too: bool = False) -> AsyncGenerator[Raw, None]:
        """Yield the letters that are open; with `is_settled_too`, all that are there."""
        progress = await self._progress()
        async with aclosing(self._chunks(progress, is_settled_too=is_settled_too)) as chunks:
            async for chunk in chunks:
                for record in chunk.records:
                    if is_settled_too or progress[record.topic_partition].is_open(record.offset):
                        yield record

    async def at(self, partition: int, offset: int) -> Raw:
        """Return one letter; raise LettersRefused if there is none."""
        there = TopicPartition(self.topic, partition)
        progress = {there: LetterProgress(offset)}
        async with aclosing(self._chunks(progress, is_settled_too=False)) as chunks:
            async for chunk in chunks:
                for record in chunk.records:
                    if record.offset == offset:
                        return record
                break
        raise LettersRefused(f"{self.topic}-{partition}@{offset}: no dead letter is there")

    async def requeue(self, choose: Choice, target: Target) -> Settled:
        """Write the open letters that are chosen to their targets, and settle them.

        A letter has its headers, but no longer those of its last failure: it has all attempts
        again. Raise LettersRefused, and what a producer raises; what was done until then is kept.
        """
        return await self._settle(choose, target)

    async def discard(self, choose: Choice) -> Settled:
        """Settle the open letters that are chosen; they stay where they are."""
        return await self._settle(choose, None)

    async def _settle(self, choose: Choice, target: Target | None) -> Settled:
        async with self._producer() as producer:
            return await self._settle_with(producer, choose, target)

    def _producer(self) -> Producer:
        settings = self._settings | {"transactional_id": self.group_id}
        return Producer.from_config(settings, runtime=self._runtime)

    async def _settle_with(
        self, producer: Producer, choose: Choice, target: Target | None
    ) -> Settled:
        progress = await self._progress()  # another run can change it no more
        settled = without_value = 0
        async with aclosing(self._chunks(progress, is_settled_too=False)) as chunks:
            async for chunk in chunks:
                letters = [
                    record
                    for record in chunk.records
                    if progress[record.topic_partition].is_open(record.offset) and choose(record)
                ]
                if target is not None:
                    lost = [record for record in letters if is_truncated(record.headers)]
                    letters = [record for record in letters if not is_truncated(record.headers)]
                    without_value += len(lost)
                settled += len(letters)
                _pass_over(progress, chunk, letters)
                if not letters:
                    continue
                async with _transaction(producer):
                    if target is not None:
                        await _send(producer, letters, target)
                    await self._commit(producer, progress)
        return Settled(settled, without_value)

    async def _commit(self, producer: Producer, progress: Progress) -> None:
        try:
            offsets = {where: one.to_commit() for where, one in progress.items()}
        except TooManyGaps as error:
            raise LettersRefused(f"{self.topic}: {error}") from error
        await producer.send_offsets(offsets, self.group_id)

    async def _progress(self) -> dict[TopicPartition, LetterProgress]:
        found = (await self._admin.describe_topics([self.topic]))[self.topic]
        partitions = [TopicPartition(self.topic, each.partition) for each in found.partitions]
        committed = await self._admin.list_group_offsets(
            self.group_id, partitions, require_stable=True
        )
        progress = {where: LetterProgress() for where in partitions}
        for where, offset in committed.items():
            try:
                progress[where] = LetterProgress.of_commit(offset)
            except ValueError as error:
                raise LettersRefused(
                    f"group {self.group_id}, {where.topic}-{where.partition}: {error}; reset it"
                ) from error
        return progress

    async def _chunks(
        self, progress: Progress, *, is_settled_too: bool
    ) -> AsyncGenerator[_Chunk, None]:
        """Yield what is there now, from the first open letter of each partition."""
        settings = self._settings | {
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
        }
        async with Consumer.from_config(settings, runtime=self._runtime) as consumer:
            begins = await consumer.beginning_offsets(progress)
            ends = await consumer.end_offsets(progress)
            positions: dict[TopicPartition, int] = {}
            for where, one in progress.items():
                one.settle(0, begins[where])
                start = begins[where] if is_settled_too else one.first_open
                if start < ends[where]:
                    positions[where] = start
            consumer.assign([*positions])
            for where, start in positions.items():
                consumer.seek(where, start)
            while positions:
                records = await consumer.poll(POLL_MS)
                ranges: dict[TopicPartition, tuple[int, int]] = {}
                for where, start in [*positions.items()]:
                    end = min(await consumer.position(where), ends[where])
                    if end > start:
                        ranges[where] = start, end
                        positions[where] = end
                    if end == ends[where]:
                        del positions[where]
                        consumer.pause(where)
                if ranges:
                    there = [one for one in records if one.offset < ends[one.topic_partition]]
                    yield _Chunk(there, ranges)


def _pass_over(progress: Progress, chunk: _Chunk, letters: list[Raw]) -> None:
    """Settle these letters of a chunk, and the offsets at which there is no record."""
    settled = dict.fromkeys((one.topic_partition, one.offset) for one in letters)
    reached = {where: start for where, (start, _) in chunk.ranges.items()}
    for record in chunk.records:
        where = record.topic_partition
        progress[where].settle(reached[where], record.offset)
        reached[where] = record.offset + 1
        if (where, record.offset) in settled:
            progress[where].settle(record.offset, record.offset + 1)
    for where, (_, end) in chunk.ranges.items():
        progress[where].settle(reached[where], end)


@asynccontextmanager
async def _transaction(producer: Producer) -> AsyncIterator[None]:
    await producer.begin_transaction()
    try:
        yield
        await producer.commit_transaction()
    except BaseException:
        if producer.can_abort:
            await producer.abort_transaction()
        raise


async def _send(producer: Producer, letters: list[Raw], target: Target) -> None:
    sent = []
    for letter in letters:
        await producer.drain()
        headers = requeued_headers(letter.headers)
        sent.append(producer.send(target(letter), letter.value, letter.key, headers=headers))
    for each in sent:
        await each


def _name(record: Raw) -> str:
    return f"{record.topic}-{record.partition}@{record.offset}"
