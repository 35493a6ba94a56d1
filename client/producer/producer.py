"""The asyncio producer: what users call.

Checks what it is given and hands it to the accumulator; `Sender` does the rest.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from ...protocol.record_batch import Codec, Headers
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import ProducerConfig, ProducerSettings, Servers, configured
from ..errors import BufferFull, ClientClosed
from ..metadata import Metadata, pool_for
from ..records import OnDelivery, ProducerRecord
from .accumulator import Accumulator, Limits, Parked, Row, TopicQueues, check_target, checked_size
from .delivery import BatchDelivery, Delivery, until_settled
from .sender import Sender

log = logging.getLogger(__name__)


class Producer:
    """Sends records to topics.

        async with Producer("localhost:9092") as producer:
            sent = await producer.send("flights", b"value", key=b"AA")
            print(sent.partition, sent.offset)

    Awaiting each `send` waits for its acknowledgement. To send many, keep going and let `drain`
    hold you back; look at the deliveries later, or `flush`:

        for value in values:
            producer.send("flights", value)
            await producer.drain()
        await producer.flush()

    Defaults: acks=all, idempotent (retries neither duplicate nor reorder), 5 ms linger. Records
    of one partition are written in the order they were sent. Settings are keyword arguments named
    as Kafka's, with underscores; an unknown one is a ConfigError that names the nearest.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        on_delivery: OnDelivery | None = None,
        runtime: Runtime | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """`on_delivery(error, metadata)` is called for every record, unless `send` got its own."""
        self.config = configured(ProducerConfig, bootstrap_servers, settings)
        self._runtime = runtime or SystemRuntime("producer")
        self._on_delivery = on_delivery
        limits = _limits(self.config)
        self._accumulator = Accumulator(limits, self._runtime.rng)
        self._accumulator.on_released = self._on_released
        self._pool = pool_for(self._runtime, self.config)
        self._metadata = Metadata(
            self._runtime,
            self.config,
            self._pool,
            auto_create=self.config.allow_auto_create_topics,
        )
        self._sender: Sender | None = None
        self.on_room: Callable[[], None] | None = None
        """Called whenever records are settled, for whoever waits in another way than `drain`."""
        self._room_waiters: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._is_usable = False
        """Whether the checks of `_check_usable` may be left out: most records pay for none."""
        self._buffer_memory = self.config.buffer_memory
        self._batch_size = limits.batch_size
        self._max_record = self.config.max_request_size

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        on_delivery: OnDelivery | None = None,
        runtime: Runtime | None = None,
    ) -> Self:
        """Make a producer from a mapping with Kafka's dotted keys."""
        keywords: Any = dict(config)
        return cls(on_delivery=on_delivery, runtime=runtime, **keywords)

    # -- life

    async def start(self) -> Self:
        """Reach the cluster; `async with` does it. BootstrapError after bootstrap_timeout_ms."""
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._sender is None:
            try:
                await self._metadata.start()
            except BaseException:
                await self._pool.close()
                raise
            self._sender = Sender(self._runtime, self.config, self._metadata, self._accumulator)
            self._sender.on_fatal = self._on_fatal
            self._sender.start()
            self._is_usable = True
        return self

    def _on_fatal(self) -> None:
        self._is_usable = False

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush and end; `async with` does it.

        What is not acknowledged after `timeout_ms` (default: no bound but delivery_timeout_ms)
        fails with ClientClosed.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._is_usable = False
        try:
            if self._sender is not None:
                await self.flush(timeout_ms)
        except TimeoutError:
            pass
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._sender is not None:
            await self._sender.close()
        lost = self._accumulator.fail_all(ClientClosed("the producer was closed before the ack"))
        if lost:
            count = sum(batch.record_count for batch in lost)
            log.warning("%d records were not acknowledged when the producer was closed", count)
        await self._metadata.close()
        await self._pool.close()
        self._on_released()

    # -- sending

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send a record; it goes out with others after linger_ms, or once a batch is full.

        Returns at once. Awaiting the result gives RecordMetadata(topic, partition, offset,
        timestamp_ms), or raises: DeliveryTimeout after delivery_timeout_ms; DeliveryFailed where a
        broker refused; UnknownTopic where the topic did not appear within max_block_ms.

        The partition is `partition` if given, else chosen by the key's murmur2 hash as Java's
        clients do, else one after the other, a batch each. `timestamp_ms` is now by default.

        Raises at once: MessageTooLarge above max_request_size; BufferFull when buffer_memory bytes
        wait (see `drain`); ClientClosed; TypeError or ValueError for what no record can be.
        """
        if timestamp_ms is None:
            timestamp_ms = self._runtime.wall_ms()
        check_target(topic, partition)
        record = (timestamp_ms, key, value, headers)
        size = checked_size(record, self._max_record)
        delivery = Delivery(timestamp_ms)
        callback = on_delivery or self._on_delivery
        if callback is not None:
            call_when_done(asyncio.get_running_loop(), delivery, callback)
        self.accept(topic, partition, record, size, delivery)
        return delivery

    def send_batch(
        self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None
    ) -> BatchDelivery:
        """Send many records with one answer for all of them; the fastest way to send.

        Partitions are chosen as in `send`. Awaiting the result gives one BatchMetadata for each
        run of records that travelled together. All are taken in, or (BufferFull, MessageTooLarge,
        TypeError) none is.
        """
        check_target(topic, partition)
        wall_ms = self._runtime.wall_ms()
        limit = self._max_record
        rows: list[tuple[Row, int]] = []
        for value, key, headers, timestamp_ms in records:
            row = (wall_ms if timestamp_ms is None else timestamp_ms, key, value, headers)
            rows.append((row, checked_size(row, limit)))
        self._check_usable()
        now_ms = self._runtime.monotonic_ms()
        queues = self._queues(topic, now_ms)
        deliveries: list[tuple[Delivery, int]] = []
        if queues is None:
            for row, size in rows:
                deliveries.append((Delivery(row[0]), 1))
                self._park(topic, partition, row, size, deliveries[-1][0])
        else:
            for run in self._accumulator.append_all(queues, partition, rows, now_ms):
                delivery = Delivery(run.timestamp_ms, run.batch, run.first)
                deliveries.append((delivery, run.record_count))
        self._wake()
        return BatchDelivery(deliveries)

    def accept(
        self, topic: str, partition: int | None, record: Row, size: int, delivery: Delivery
    ) -> None:
        """Take in a record whose `checked_size` is known; `send` in other words."""
        accumulator = self._accumulator
        if accumulator.used_bytes >= self._buffer_memory or not self._is_usable:
            self._check_usable()
        now_ms = self._runtime.monotonic_ms()
        queues = accumulator.topics.get(topic) or self._queues(topic, now_ms)
        if queues is None:
            self._park(topic, partition, record, size, delivery)
            return
        batch = accumulator.append(queues, partition, record, size, now_ms)
        index = batch.record_count - 1
        delivery.bind(batch, index)
        # Later records of an open batch change nothing about when it goes out.
        if index == 0 or batch.size >= self._batch_size:
            self._wake()

    def _queues(self, topic: str, now_ms: int) -> TopicQueues | None:
        """Find a topic's queues, None while its partitions are not known."""
        queues = self._accumulator.topics.get(topic)
        if queues is None:
            self._metadata.watch(topic)
            known = self._metadata.view.partitions_of(topic)
            if known is not None:
                self._accumulator.on_topic(topic, known, now_ms)
                queues = self._accumulator.topics[topic]
        return queues

    def _park(
        self, topic: str, partition: int | None, record: Row, size: int, delivery: Delivery
    ) -> None:
        wait_ms = min(self.config.max_block_ms, self.config.delivery_timeout_ms)
        deadline_ms = self._runtime.monotonic_ms() + wait_ms
        self._accumulator.park(topic, Parked(record, partition, size, deadline_ms, delivery))
        self._wake()

    def _wake(self) -> None:
        assert self._sender is not None
        self._sender.wake()

    def _check_usable(self) -> None:
        if self._is_closed or self._sender is None:
            raise ClientClosed("the producer is closed" if self._is_closed else "not started")
        if self._sender.fatal is not None:
            raise self._sender.fatal
        if not self._accumulator.has_room():
            used = self._accumulator.used_bytes
            raise BufferFull(f"{used} bytes wait already; await drain() between sends")

    # -- waiting

    async def drain(self) -> None:
        """Wait until there is room in buffer_memory; at once if there is.

        Raises BufferFull after max_block_ms, ClientClosed if the producer is closed meanwhile.
        """
        if self._accumulator.has_room():
            return
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                while not self._accumulator.has_room():
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._room_waiters.append(waiter)
                    await waiter
        except TimeoutError:
            used, waited = self._accumulator.used_bytes, self.config.max_block_ms
            raise BufferFull(f"{used} bytes still wait after {waited} ms") from None
        if self._is_closed:
            raise ClientClosed("the producer was closed")

    @property
    def used_bytes(self) -> int:
        """Bytes of records that are not settled."""
        return self._accumulator.used_bytes

    def _on_released(self) -> None:
        if self.on_room is not None:
            self.on_room()
        if self._room_waiters and (self._accumulator.has_room() or self._is_closed):
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send all that was given so far without lingering, and wait until its fate is known.

        Errors are for the deliveries and callbacks. Raises TimeoutError after `timeout_ms`.
        """
        if self._sender is None:
            raise ClientClosed("not started")
        self._accumulator.flush_count += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await until_settled(self._accumulator)
            await asyncio.sleep(0)  # callbacks scheduled by the last answers run first
        finally:
            self._accumulator.flush_count -= 1

    async def partitions_for(self, topic: str) -> list[int]:
        """List a topic's partitions; UnknownTopic if it does not appear within max_block_ms."""
        await self._metadata.wait_for_topics([topic], self.config.max_block_ms)
        return sorted(self._metadata.view.topics[topic].partitions)


def call_when_done(
    loop: asyncio.AbstractEventLoop, delivery: Delivery, callback: OnDelivery
) -> None:
    """Call a user's callback, on the loop, once the record's fate is known."""

    def call() -> None:
        error = delivery.error()
        # Through the loop: an exception in a user's callback must not harm its neighbours.
        loop.call_soon(callback, error, None if error is not None else delivery.result())

    delivery.when_done(call)


def _limits(config: ProducerConfig) -> Limits:
    return Limits(
        batch_size=min(config.batch_size, config.max_request_size),
        linger_ms=config.linger_ms,
        buffer_memory=config.buffer_memory,
        max_request_size=config.max_request_size,
        max_in_flight=config.max_in_flight_requests_per_connection,
        delivery_timeout_ms=config.delivery_timeout_ms,
        codec=Codec[config.compression_type.upper()],
        is_idempotent=config.is_idempotent,
    )
