"""Sends the records of a source task, and says when those of a part are acknowledged.

Whole batches where nobody asks for single records. Memory is bounded by the producer's
buffer.memory, and one batch of the task. Never here: offsets, transactions.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..client.errors import BufferFull, ClientError, MessageTooLarge
from ..client.producer.columns import Columns
from ..client.producer.delivery import BatchDelivery, Delivery
from ..client.producer.producer import Producer
from .source_batches import Send
from .source_step import reports_records
from .submitted import Part
from .task_runner import TaskRunner
from .topic_creation import TopicCreation

log = logging.getLogger(__name__)


class SourceSender:
    """The producer of one source task."""

    def __init__(
        self,
        task: TaskRunner,
        settings: dict[str, Any],
        leaves_out: Callable[[Exception, str], bool],
    ) -> None:
        """`leaves_out(error, topic)` fails the task, or returns True if the records are skipped."""
        runtime, assignment = task.around.runtime, task.assignment
        self.producer: Producer[bytes, bytes] = Producer(runtime=runtime, **settings)
        self.acknowledged: list[tuple[int, Any]] = []
        """Index and place of the records of which the task has not heard yet."""
        self._task = task
        self._leaves_out = leaves_out
        self._follows = reports_records(assignment.task)
        self._known: dict[str, None] = {}
        self._creation: TopicCreation | None = None
        if task.around.config.topic_creation_enable:
            props = assignment.connector_props
            self._creation = TopicCreation(runtime, props, assignment.clients)

    async def close(self, timeout_ms: int) -> None:
        """Close the clients."""
        await self.producer.close(timeout_ms)
        if self._creation is not None:
            await self._creation.close()

    async def send(self, send: Send, parts: Sequence[Part]) -> None:
        """Send records; each part's `pending` falls by one once they are acknowledged."""
        if send.topic not in self._known:
            if self._creation is not None:
                await self._creation.create(send.topic)
            await self.producer.partitions_for(send.topic)
            self._known[send.topic] = None
            self._task.use_topic(send.topic)
        await self._room()
        if not self._follows:
            try:
                delivery = self.producer.send_batch(
                    send.topic, self._columns(send), partition=send.partition
                )
            except (MessageTooLarge, TypeError, ValueError) as error:
                log.debug("task %s: a batch is sent record by record: %s", self._task.id, error)
            else:
                delivery.when_done(partial(self._on_settled, delivery, parts))
                return
        await self._send_each(send, parts)

    async def _room(self) -> None:
        """Wait for room in the producer's buffer, as long as the task lives."""
        while True:
            self._task.check()
            try:
                await self.producer.drain()
            except BufferFull as error:
                log.warning("task %s waits for the cluster: %s", self._task.id, error)
            else:
                return

    def _columns(self, send: Send) -> Columns[bytes, bytes]:
        timestamps: Any = None
        if send.timestamps.count(None) < len(send.timestamps):
            now_ms = self._task.around.runtime.wall_ms()
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
            self.acknowledged.append((index, known))
            if not left:
                _acknowledge(parts)

        rows = zip(send.values, send.keys, send.headers, send.timestamps, send.records, strict=True)
        for value, key, headers, timestamp_ms, index in rows:
            await self._room()
            try:
                delivery = self.producer.send(
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


def _acknowledge(parts: Sequence[Part]) -> None:
    for part in parts:
        part.pending -= 1
