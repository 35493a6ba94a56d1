"""Admits records into the accumulator, or refuses them, and lets senders wait for room.

The user's `Producer` passes serialized records, which go on to the accumulator. Most records skip
the checks of `check_usable`, to save time. The intake sends nothing.
"""

import asyncio
from collections.abc import Callable, Sequence

from ...runtime.runtime import Runtime
from ..config import ProducerConfig
from ..errors import BufferFull, ClientClosed, ClientError
from ..metadata import Metadata
from .accumulator import Accumulator, Parked, Row, TopicQueues, checked_size
from .bulk import append_all, append_rows
from .columns import Rows
from .delivery import Delivery
from .metrics import ProducerMetrics


class Intake:
    """Accepts records while the producer is open, and in a transaction if it is transactional."""

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        metadata: Metadata,
        metrics: ProducerMetrics,
        refusal: Callable[[], ClientError | None],
    ) -> None:
        """`refusal` returns the error that forbids a started producer to send now, or None."""
        self.accumulator = Accumulator(config, runtime.rng, self._on_released)
        self.is_usable = False
        """True while `accept` may skip `check_usable` if there is room, which saves time."""
        self.is_closed = False
        self.wake: Callable[[], None] | None = None
        """Makes the sender look for batches to send; None before the producer is started."""
        self.on_room: Callable[[], None] | None = None
        """Called whenever records are settled; the sync producer waits for room by it."""
        self.refusal = refusal
        self.metrics = metrics
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._room_waiters: list[asyncio.Future[None]] = []
        self._buffer_memory = config.buffer_memory
        self._batch_size = self.accumulator.batch_size

    def accept(
        self, topic: str, partition: int | None, record: Row, size: int, delivery: Delivery
    ) -> None:
        """Append or park a record whose `checked_size` is known; `delivery` gets the result.

        Raise as `check_usable` does.
        """
        accumulator = self.accumulator
        if accumulator.used_bytes >= self._buffer_memory or not self.is_usable:
            self.check_usable()
        now_ms = self._runtime.monotonic_ms()
        queues = accumulator.topics.get(topic) or self._queues(topic, now_ms)
        if queues is None:
            self._park(topic, partition, record, size, delivery)
            return
        batch = accumulator.append(queues, partition, record, size, now_ms)
        index = batch.record_count - 1
        delivery.bind(batch, index)
        # Later records of an open batch do not change when it is sent, unless they fill it.
        if index == 0 or batch.size >= self._batch_size:
            assert self.wake is not None
            self.wake()

    def accept_all(
        self, topic: str, partition: int | None, rows: Sequence[tuple[Row, int]]
    ) -> list[tuple[Delivery, int]]:
        """Append or park records with their sizes; return a delivery and record count for each run.

        Raise as `check_usable` does.
        """
        self.check_usable()
        now_ms = self._runtime.monotonic_ms()
        queues = self._queues(topic, now_ms)
        deliveries: list[tuple[Delivery, int]] = []
        if queues is None:
            for row, size in rows:
                deliveries.append((Delivery(row[0]), 1))
                self._park(topic, partition, row, size, deliveries[-1][0])
        else:
            for run in append_all(self.accumulator, queues, partition, rows, now_ms):
                delivery = Delivery(run.timestamp_ms, run.batch, run.first)
                deliveries.append((delivery, run.record_count))
        assert self.wake is not None
        self.wake()
        return deliveries

    def accept_rows(
        self, topic: str, partition: int | None, rows: Rows
    ) -> list[tuple[Delivery, int]]:
        """Append or park rows; return a delivery and a record count for each run in one batch.

        Raise as `check_usable` does, and MessageTooLarge if a row is too large.
        """
        self.check_usable()
        now_ms = self._runtime.monotonic_ms()
        queues = self._queues(topic, now_ms)
        if queues is None:
            most = self._config.max_request_size
            return self.accept_all(
                topic, partition, [(row, checked_size(row, most)) for row in rows]
            )
        deliveries = [
            (Delivery(run.timestamp_ms, run.batch, run.first), run.record_count)
            for run in append_rows(self.accumulator, queues, partition, rows, now_ms)
        ]
        assert self.wake is not None
        self.wake()
        return deliveries

    def _queues(self, topic: str, now_ms: int) -> TopicQueues | None:
        """Return a topic's queues, or None while its partitions are not known."""
        queues = self.accumulator.topics.get(topic)
        if queues is None:
            self._metadata.watch(topic)
            known = self._metadata.view.partitions_of(topic)
            if known is not None:
                self.accumulator.on_topic(topic, known, now_ms)
                queues = self.accumulator.topics[topic]
        return queues

    def _park(
        self, topic: str, partition: int | None, record: Row, size: int, delivery: Delivery
    ) -> None:
        wait_ms = min(self._config.max_block_ms, self._config.delivery_timeout_ms)
        deadline_ms = self._runtime.monotonic_ms() + wait_ms
        self.accumulator.park(topic, Parked(record, partition, size, deadline_ms, delivery))
        assert self.wake is not None
        self.wake()

    def check_usable(self) -> None:
        """Raise an error if no record may come in now.

        Raise ClientClosed before `start` and after `close`, BufferFull if buffer_memory is used up,
        or, outside an open transaction, the error that `refusal` returns.
        """
        if self.is_closed or self.wake is None:
            raise ClientClosed("the producer is closed" if self.is_closed else "not started")
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        if not self.accumulator.has_room():
            used = self.accumulator.used_bytes
            self.metrics.exhausted_count += 1
            raise BufferFull(f"{used} bytes wait already; await drain() between sends")

    # -- waiting for room

    async def drain(self) -> None:
        """Wait until there is room in buffer_memory; return immediately if there is.

        Raises BufferFull after max_block_ms, ClientClosed if the producer is closed before.
        """
        if self.accumulator.has_room():
            return
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                with self.metrics.waiting_for_room():
                    await self._room()
        except TimeoutError:
            self.metrics.exhausted_count += 1
            used, waited = self.accumulator.used_bytes, self._config.max_block_ms
            raise BufferFull(f"{used} bytes still wait after {waited} ms") from None
        if self.is_closed:
            raise ClientClosed("the producer was closed")

    async def _room(self) -> None:
        while not self.accumulator.has_room():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room_waiters.append(waiter)
            await waiter

    def close(self) -> None:
        """Wake the senders that wait for room, after `is_closed` was set."""
        self._on_released()

    def _on_released(self) -> None:
        if self.on_room is not None:
            self.on_room()
        if self._room_waiters and (self.accumulator.has_room() or self.is_closed):
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
