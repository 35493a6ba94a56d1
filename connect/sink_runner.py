"""Runs a sink task: gives it the records of its consumer, commits what it says is safe.

The task stays in its group while it asks for the same batch again, and while it is paused: the
consumer is polled with all partitions paused. Dead letters are acknowledged before offsets behind
them are committed. Memory is bounded by max.poll.records and what the consumer fetches ahead.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..client.consumer.consumer import Consumer
from ..client.errors import ClientError
from ..client.group_types import RebalanceListener
from ..client.records import RecordColumns
from ..protocol.errors import ApiError
from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from .common_config import check_sink
from .hosts import TaskFailed
from .letters import Letters
from .sink_step import Done, SinkStep, Wish
from .states import State
from .task_runner import TaskRunner

log = logging.getLogger(__name__)

POLL_MS: Final = 500
"""How long a poll waits for records: also the longest wait of a stop, a pause, a commit."""


class SinkWork:
    """The work of one sink task."""

    def __init__(self, task: TaskRunner) -> None:
        self._task = task
        self._offsets: dict[TopicPartition, int] = {}
        """By partition, the offset behind what the task has taken."""
        self._committed: dict[TopicPartition, int] = {}
        self._first: dict[TopicPartition, int] = {}
        """By partition, the offset to go back to: the committed one, or where reading began."""
        self._resting: dict[TopicPartition, None] = {}
        """The partitions that the task has paused."""
        self._holds = False
        self._again_ms: int | None = None
        self._given: Sequence[Any] = ()
        self._commit_at_ms = 0
        self._letters = Letters(task)
        self._columnar = task.assignment.is_columnar
        self._runtime = task.around.runtime
        settings = task.assignment.clients.consumer(task.id)
        self._consumer: Consumer[bytes, bytes] = Consumer(runtime=self._runtime, **settings)

    # -- life

    async def open(self) -> None:
        """Start the task, and subscribe to its topics."""
        task = self._task
        check_sink(task.assignment.connector_props)
        await self._consumer.start()
        await task.start_host(SinkStep).call("start")
        topics = [one.strip() for one in task.settings["topics"] if one.strip()]
        pattern = task.settings["topics.regex"]
        listener = RebalanceListener(self._on_assigned, self._on_revoked, self._on_lost)
        await self._consumer.subscribe(
            re.compile(pattern) if pattern else topics, listener=listener
        )
        self._plan_commit()

    async def run(self) -> None:
        """Give records to the task until it is to stop."""
        while not self._task.is_stopping:
            self._task.check()
            await self._turn()
        self._task.check()

    async def _call(self, method: str, *args: Any) -> Done:
        assert self._task.host is not None
        done: Done = await self._task.host.call(method, *args)
        return done

    async def _turn(self) -> None:
        rests, now_ms = self._task.rests(), self._runtime.monotonic_ms()
        self._task.tell(State.PAUSED if rests else State.RUNNING)
        self._hold(rests or self._again_ms is not None)
        until_ms = min(self._commit_at_ms, now_ms + POLL_MS)
        if self._again_ms is not None and not rests:
            until_ms = min(until_ms, self._again_ms)
        wait_ms = max(until_ms - now_ms, 1)
        consumer, in_columns = self._consumer, self._columnar
        given: Sequence[Any] = await (consumer.poll_columns if in_columns else consumer.poll)(
            wait_ms
        )
        now_ms = self._runtime.monotonic_ms()
        if rests:
            pass
        elif self._again_ms is None:
            self._given = given
            for partition, first in {each[:2]: each for each in reversed(given)}.items():
                self._first.setdefault(TopicPartition(*partition), _first_offset(first))
            method = "put_columns" if in_columns and given else "put"
            await self._took(await self._call(method, given))
        elif now_ms >= self._again_ms:
            await self._took(await self._call("again"))
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
        await self._letters.write(done.letters)
        if done.retry_ms is not None:
            self._again_ms = self._runtime.monotonic_ms() + done.retry_ms
        else:
            self._again_ms = None
            for partition, last in {each[:2]: each for each in self._given[: done.taken]}.items():
                if partition in self._first:
                    self._offsets[TopicPartition(*partition)] = _next_offset(last)
                self._task.use_topic(partition[0])
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

    async def finish(self) -> None:
        """Close the consumer, which gives its partitions back, and so commits them."""
        await self._consumer.close(self._task.around.config.offset_flush_timeout_ms)

    async def close(self, timeout_ms: int) -> None:
        """Close the clients."""
        await self._consumer.close(timeout_ms)
        await self._letters.close(timeout_ms)

    async def answer(self, method: str, *args: Any) -> Any:
        """Take a record that the task has reported; commits wait for it from here on."""
        await self._letters.report(*args)

    # -- rebalances; inside of polls and `close`

    async def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions and self._task.host is not None:
            if self._holds:
                self._consumer.pause(*partitions)
            self._carry_out(await self._call("open", list(partitions)))

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self._task.is_abandoned:
            return
        try:
            await self._commit(partitions, closing=True)
        except MinikafkaError as error:
            self._task.fail(error)
        await self._on_lost(partitions)

    async def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        if self._task.is_abandoned or not partitions or self._task.host is None:
            return
        for partition in partitions:
            for known in (self._offsets, self._committed, self._first):
                known.pop(partition, None)
            self._resting.pop(partition, None)
        self._carry_out(await self._call("close", list(partitions)))

    # -- committing

    def _plan_commit(self) -> None:
        interval_ms = self._task.around.config.offset_flush_interval_ms
        self._commit_at_ms = self._runtime.monotonic_ms() + interval_ms

    async def _commit(self, partitions: Iterable[TopicPartition], *, closing: bool = False) -> None:
        """Commit what the task says is safe. If it cannot say, go back to what is committed."""
        offsets = {each: self._offsets[each] for each in partitions if each in self._offsets}
        if not offsets or self._task.is_abandoned or self._task.host is None:
            return
        await self._letters.written()
        try:
            done = await self._call("pre_commit", offsets)
        except Exception as error:
            log.error("task %s: offsets are not committed", self._task.id, exc_info=error)
            if not closing:
                self._rewind(offsets)
            return
        self._carry_out(done)
        safe = {
            partition: offset
            for partition, offset in done.offsets.items()
            if offset <= offsets.get(partition, -1) and self._committed.get(partition) != offset
        }
        if not safe or self._task.is_abandoned:
            return
        try:
            timeout_ms = self._task.around.config.offset_flush_timeout_ms
            await self._consumer.commit(safe, timeout_ms=timeout_ms)
        except (ClientError, ApiError) as error:
            log.error("task %s: offsets are not committed: %s", self._task.id, error)
            return
        self._committed |= safe
        self._first |= safe

    def _rewind(self, partitions: Iterable[TopicPartition]) -> None:
        log.error("task %s: reading goes back to the committed offsets", self._task.id)
        for partition in partitions:
            self._seek(partition, self._first[partition])


def _first_offset(each: Any) -> int:
    return each.offsets[0] if isinstance(each, RecordColumns) else each.offset


def _next_offset(each: Any) -> int:
    last: int = each.offsets[-1] if isinstance(each, RecordColumns) else each.offset
    return last + 1
