"""Runs a source task: polls it, produces its records, commits its offsets behind them.

Records are sent in batches. A source offset is committed only when all records before it of the
same source partition are acknowledged. Memory is bounded by the producer's buffer.memory, and one
batch of the task.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..client.errors import ClientError, MessageTooLarge
from ..client.producer.columns import Columns
from ..client.producer.delivery import BatchDelivery, Delivery
from ..client.producer.producer import Producer
from ..runtime.errors import MinikafkaError
from .hosts import TaskFailed
from .offset_store import OffsetStore, TopicOffsets
from .offsets import Pair, Reader
from .source_batches import Batch, Polled, Send
from .source_step import SourceStep, reports_records
from .states import TargetState
from .submitted import Part, Submitted
from .task_runner import Assignment, Surroundings, TaskRunner
from .topic_creation import TopicCreation

log = logging.getLogger(__name__)

LONGEST_REST_MS = 100
"""The longest wait between polls of a task that returns at once, with nothing."""


class SourceRunner(TaskRunner):
    """Runs one source task, at least once."""

    _tells_at_once = True
    """True if the task hears of acknowledged records before the next commit."""

    def __init__(
        self,
        assignment: Assignment,
        around: Surroundings,
        target: TargetState,
        store: OffsetStore,
        own: TopicOffsets | None = None,
    ) -> None:
        """`own` is the connector's `offsets.storage.topic`; `store` is the worker's."""
        self._store = store
        self._own = own
        self._submitted = Submitted()
        self._follows = reports_records(assignment.task)
        self._acknowledged: list[tuple[int, Any]] = []
        self._polling: asyncio.Future[Polled] | None = None
        self._committing = asyncio.Lock()
        self._rest_ms = 0
        self._producer: Producer[bytes, bytes] = self._make_producer(assignment, around)
        self._creation: TopicCreation | None = None
        super().__init__(assignment, around, target)

    @staticmethod
    def _make_producer(assignment: Assignment, around: Surroundings) -> Producer[bytes, bytes]:
        settings = assignment.clients.producer(assignment.id)
        return Producer(runtime=around.runtime, **settings)

    # -- life

    async def _open(self) -> None:
        await self._producer.start()
        await self._start_task(await self._read_offsets(), False)
        interval_ms = self.around.config.offset_flush_interval_ms
        self._in_background(self._every(interval_ms, self._commit))

    async def _read_offsets(self) -> Reader:
        maps = [self._store.map]
        if self._own is not None and self._own is not self._store:
            await self._own.start()
            maps.insert(0, self._own.map)
        await self._store.refresh()
        return Reader(self.id.connector, *maps)

    async def _start_task(self, offsets: Reader, decides_boundaries: bool) -> None:
        in_process = self.settings["tasks.isolation"] == "process"
        given = offsets.frozen() if in_process else offsets
        host = self._start_host(SourceStep, given, decides_boundaries)
        if self.around.config.topic_creation_enable:
            self._creation = TopicCreation(
                self.around.runtime, self.assignment.connector_props, self.assignment.clients
            )
        await host.call("start")

    async def _work(self) -> None:
        while not self.is_stopping:
            self._check()
            if self.is_paused:
                await self._until_resumed()
                continue
            polled = await self._next()
            if polled is not None:
                await self._handle(polled)
        await self._last_poll()

    async def _next(self) -> Polled | None:
        """Return what the task has; None if something else is to be done first."""
        assert self._host is not None
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._host.call("poll"))
        self._changed.clear()
        if not self._polling.done() and not self.is_stopping:
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._changed.wait())
            ends: list[asyncio.Future[Any]] = [self._polling, changed]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        if not self._polling.done():
            return None
        polling, self._polling = self._polling, None
        return polling.result()

    async def _last_poll(self) -> None:
        """End the poll under way: an async one is cancelled, a sync one is waited for."""
        polling, self._polling = self._polling, None
        if polling is None:
            return
        if self.assignment.is_async:
            polling.cancel()
        await asyncio.wait([polling])
        if not polling.cancelled():
            await self._handle(polling.result())

    async def _handle(self, polled: Polled) -> None:
        await self._take_all(polled)
        if polled.failure is not None:
            raise TaskFailed(polled.failure)
        if self._acknowledged and self._tells_at_once:
            await self._tell_acknowledged(offsets=False)
        if polled.ended:
            await self._pause_ms(self.around.config.offset_flush_interval_ms)
        elif polled.retry_ms is not None:
            await self._pause_ms(polled.retry_ms)
        elif not polled.batches:
            # A task should block in `poll`. One that does not must not take the whole core.
            self._rest_ms = min(2 * self._rest_ms + 1, LONGEST_REST_MS)
            await self._pause_ms(self._rest_ms)
        else:
            self._rest_ms = 0

    async def _finish(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        if self._host is None or self._producer.is_closed:
            return
        try:
            await self._producer.flush(self.around.config.offset_flush_timeout_ms)
        except TimeoutError:
            log.error("task %s: records were not acknowledged in time", self.id)
        await self._commit()

    async def _close_clients(self, timeout_ms: int) -> None:
        await self._producer.close(timeout_ms)
        if self._creation is not None:
            await self._creation.close()
        if self._own is not None and self._own is not self._store:
            await self._own.close()

    # -- sending

    async def _take_all(self, polled: Polled) -> None:
        for batch in polled.batches:
            await self._take(batch)

    async def _take(self, batch: Batch) -> None:
        """Send a batch, and note which offsets it brings."""
        parts = [Part(pair) for pair in batch.places]
        self._submitted.add(parts)
        for send in batch.sends:
            for place in send.places:
                parts[place].pending += 1
        for send in batch.sends:
            await self._send(send, [parts[place] for place in send.places])

    async def _send(self, send: Send, parts: Sequence[Part]) -> None:
        if send.topic not in self._topics:
            if self._creation is not None:
                await self._creation.create(send.topic)
            await self._producer.partitions_for(send.topic)
            self._use_topic(send.topic)
        await self._producer.drain()
        self._check()
        if not self._follows:
            try:
                delivery = self._producer.send_batch(
                    send.topic, self._columns(send), partition=send.partition
                )
            except (MessageTooLarge, TypeError, ValueError) as error:
                log.debug("task %s: a batch is sent record by record: %s", self.id, error)
            else:
                delivery.when_done(partial(self._on_settled, delivery, parts))
                return
        await self._send_each(send, parts)

    def _columns(self, send: Send) -> Columns[bytes, bytes]:
        timestamps: Any = None
        if send.timestamps.count(None) < len(send.timestamps):
            now_ms = self.around.runtime.wall_ms()
            timestamps = [now_ms if each is None else each for each in send.timestamps]
        has_keys = send.keys.count(None) < len(send.keys)
        headers = send.headers if any(send.headers) else None
        return Columns(send.values, send.keys if has_keys else None, timestamps, headers)

    async def _send_each(self, send: Send, parts: Sequence[Part]) -> None:
        """Send single records, whose places the task wants to know, or one of which is wrong."""
        left = len(send.values)

        def settled(index: int, delivery: Delivery | Exception) -> None:
            nonlocal left
            error = delivery if isinstance(delivery, Exception) else delivery.error()
            if error is not None and not self._leaves_out(error, send.topic):
                return
            left -= 1
            known = None if isinstance(delivery, Exception) or error else delivery.result()
            self._acknowledged.append((index, known))
            if not left:
                _acknowledge(parts)

        rows = zip(send.values, send.keys, send.headers, send.timestamps, send.records, strict=True)
        for value, key, headers, timestamp_ms, index in rows:
            await self._producer.drain()
            try:
                delivery = self._producer.send(
                    send.topic,
                    value,
                    key,
                    partition=send.partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
            except (MessageTooLarge, TypeError, ValueError) as error:
                settled(index, error)
            else:
                delivery.when_done(partial(settled, index, delivery))

    def _on_settled(self, delivery: BatchDelivery, parts: Sequence[Part]) -> None:
        try:
            delivery.result()
        except ClientError as error:
            if not self._leaves_out(error, ""):
                return
        _acknowledge(parts)

    def _leaves_out(self, error: Exception, topic: str) -> bool:
        """Fail the task, or leave records out and return True if errors are tolerated."""
        if self.settings["errors.tolerance"] != "all":
            self._fail(error)
            return False
        log.error("task %s: records are left out, %s %s", self.id, topic, error)
        return True

    # -- committing

    async def _commit(self) -> None:
        """Commit the offsets that are ready; what cannot be written is tried again later."""
        async with self._committing:
            pairs = self._submitted.committable()
            if self.is_abandoned:
                return
            if pairs:
                try:
                    async with asyncio.timeout(self.around.config.offset_flush_timeout_ms / 1000):
                        await (self._own or self._store).write(self.id.connector, pairs)
                except (MinikafkaError, TimeoutError) as error:
                    log.error("task %s: offsets are not committed: %r", self.id, error)
                    return
                self._submitted.committed(pairs)
                await self._copy(pairs)
            await self._tell_acknowledged(offsets=True)

    async def _copy(self, pairs: Sequence[Pair]) -> None:
        """Write offsets to the worker's store too; the connector's own topic is what counts."""
        if self._own is None or self._own is self._store:
            return
        try:
            async with asyncio.timeout(self.around.config.offset_flush_timeout_ms / 1000):
                await self._store.write(self.id.connector, pairs)
        except (MinikafkaError, TimeoutError) as error:
            log.warning("task %s: offsets are not copied to the worker's: %r", self.id, error)

    async def _tell_acknowledged(self, *, offsets: bool) -> None:
        assert self._host is not None
        told, self._acknowledged = self._acknowledged, []
        if told or offsets:
            await self._host.call("commit", told, offsets)


def _acknowledge(parts: Sequence[Part]) -> None:
    for part in parts:
        part.pending -= 1
