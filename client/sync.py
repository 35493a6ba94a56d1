"""Producer and consumer for ordinary code, each its asyncio twin on a loop in a thread of its own.

Waits can be interrupted by Ctrl-C. A client used in a forked child says so instead of hanging:
the thread and the connections stay with the parent. Nothing here knows the protocol. The admin
is in `sync_admin`.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from ..protocol.record_batch import Headers
from ..protocol.types import TopicPartition
from .config import ConsumerSettings, ProducerConfig, ProducerSettings, Servers
from .consumer import consumer as aio_consumer
from .consumer.questions import DEFAULT_TIMEOUT_MS, Partition
from .errors import BufferFull, ClientClosed, ClientError, ForkedClient
from .producer import producer as aio_producer
from .producer.accumulator import Row, check_target, checked_size
from .producer.delivery import BatchDelivery, Delivery
from .records import (
    BatchMetadata,
    ConsumerRecord,
    OffsetAndTimestamp,
    OnDelivery,
    ProducerRecord,
    RawRecords,
    RecordMetadata,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
AT_EXIT_TIMEOUT_MS: Final = 10_000
CLOSE_GRACE_S: Final = 5.0
LOOK_UP_S: Final = 0.5
"""A signal that arrives just as a thread begins to wait does not end the wait: the interpreter runs
its handler between two instructions only. So waits are cut into pieces of this length."""


def wait_for(future: Future[T], timeout_s: float | None = None) -> T:
    """The future's outcome, within `timeout_s` or TimeoutError; Ctrl-C always gets through."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = LOOK_UP_S if deadline is None else min(LOOK_UP_S, deadline - time.monotonic())
        try:
            return future.result(max(0.0, left_s))
        except TimeoutError:
            if future.done():
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise
    return future.result()


class LoopThread:
    """An event loop in a daemon thread, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        import uvloop

        self._pid = os.getpid()
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def check_process(self) -> None:
        """Raise ForkedClient in any process but the one that made the client."""
        if os.getpid() != self._pid:
            raise ForkedClient(
                f"this client belongs to process {self._pid}: open another one after forking"
            )

    @property
    def is_current(self) -> bool:
        """Is this the loop's own thread?"""
        return threading.get_ident() == self._thread.ident

    @property
    def is_forked(self) -> bool:
        """Is this another process than the one that made it?"""
        return os.getpid() != self._pid

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it here; an interrupt here cancels it there."""
        try:
            self.check_process()
        except ForkedClient:
            coro.close()
            raise
        if not self._thread.is_alive():
            coro.close()
            raise ClientClosed("the client is closed")
        if self.is_current:
            coro.close()
            raise RuntimeError("a callback must not wait: it runs where the answers come in")
        future = asyncio.run_coroutine_threadsafe(coro, self.loop)
        try:
            return wait_for(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Run a plain function there and wait for its result."""

        async def once() -> T:
            return function()

        return self.run(once())

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSE_GRACE_S)


class SyncDelivery(Generic[T]):
    """What `send` gives back: ask it for the result, or do not."""

    __slots__ = ("_delivery", "_thread")

    def __init__(self, thread: LoopThread, delivery: Any) -> None:
        self._thread = thread
        self._delivery = delivery

    def done(self) -> bool:
        """Is it decided?"""
        return bool(self._delivery.done())

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds; give where the records are or raise why they failed.

        Raises TimeoutError when it is still undecided; that takes nothing back.
        """
        self._thread.check_process()
        if not self._delivery.done():
            if self._thread.is_current:
                raise RuntimeError("a callback must not wait: it runs where the answers come in")
            future: Future[None] = Future()

            def watch() -> None:
                self._delivery.when_done(lambda: None if future.done() else future.set_result(None))

            self._thread.loop.call_soon_threadsafe(watch)
            wait_for(future, timeout)
        outcome: T = self._delivery.result()
        return outcome


SyncBatchDelivery = SyncDelivery[list[BatchMetadata]]

_open: dict[int, "Producer"] = {}
"""Producers not closed yet, by their number: what they hold must not be lost at exit."""


class Producer:
    """Sends records to topics; see `minikafka.aio.Producer` for what sending means.

        with Producer("localhost:9092") as producer:
            for value in values:
                producer.send("flights", value)

    Reaches the cluster when it is made: ConfigError, BootstrapError. May be used from several
    threads. Leaving the block (or `close`) waits for all acknowledgements.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        on_delivery: OnDelivery | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """`on_delivery(error, metadata)` runs in the producer's own thread and must not block."""
        self._producer = aio_producer.Producer(bootstrap_servers, **settings)
        self._on_delivery = on_delivery
        self._handed: deque[tuple[str, int | None, Row, int, Delivery]] = deque()
        self._handed_bytes = 0
        self._is_taking = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._producer.on_room = self._on_room
        self._thread = LoopThread("minikafka-producer")
        try:
            self._thread.run(self._producer.start())
        except BaseException:
            self._thread.stop()
            raise
        _open[id(self)] = self

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, on_delivery: OnDelivery | None = None
    ) -> Self:
        """Make a producer from a mapping with Kafka's dotted keys."""
        keywords: Any = dict(config)
        return cls(on_delivery=on_delivery, **keywords)

    @property
    def config(self) -> ProducerConfig:
        """The settings in force."""
        return self._producer.config

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush and end; after `timeout_ms` what is not acknowledged fails with ClientClosed."""
        if self._is_closed:
            return
        self._thread.check_process()
        self._is_closed = True
        try:
            self._thread.run(self._producer.close(timeout_ms))
        finally:
            _open.pop(id(self), None)
            self._thread.stop()

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
    ) -> SyncDelivery[RecordMetadata]:
        """Send a record; it goes out with others after linger_ms, or once a batch is full.

        Returns as soon as there is room in buffer_memory: BufferFull after max_block_ms. Ask the
        result for `.result(timeout)` only where you need it. Else as `minikafka.aio.Producer.send`.
        """
        self._check_usable()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        check_target(topic, partition)
        record = (timestamp_ms, key, value, headers)
        size = checked_size(record, self._producer.config.max_request_size)
        delivery = Delivery(timestamp_ms)
        callback = on_delivery or self._on_delivery
        if callback is not None:
            aio_producer.call_when_done(self._thread.loop, delivery, callback)
        with self._lock:
            self._wait_for_room()
            self._handed.append((topic, partition, record, size, delivery))
            self._handed_bytes += size
            if not self._is_taking:
                self._is_taking = True
                self._thread.loop.call_soon_threadsafe(self._take)
        return SyncDelivery(self._thread, delivery)

    def send_batch(
        self, topic: str, records: Iterable[ProducerRecord], *, partition: int | None = None
    ) -> SyncBatchDelivery:
        """Send many records with one answer for all of them; the fastest way to send.

        As `minikafka.aio.Producer.send_batch`, but waits for room as `send` does.
        """
        self._check_usable()
        batch = list(records)
        while True:
            with self._room:
                self._wait_for_room()
            try:
                delivery: BatchDelivery = self._thread.call(
                    lambda: self._producer.send_batch(topic, batch, partition=partition)
                )
            except BufferFull:
                continue  # another thread was faster
            return SyncDelivery(self._thread, delivery)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until the fate of all that was sent is known; TimeoutError after `timeout_ms`."""
        self._check_usable()
        self._thread.run(self._producer.flush(timeout_ms))

    def partitions_for(self, topic: str) -> list[int]:
        """List a topic's partitions; UnknownTopic if it does not appear within max_block_ms."""
        return self._thread.run(self._producer.partitions_for(topic))

    def _check_usable(self) -> None:
        self._thread.check_process()
        if self._is_closed:
            raise ClientClosed("the producer is closed")

    def _wait_for_room(self) -> None:
        """Hold `_room` and come back when there is room; BufferFull after max_block_ms."""
        limit = self._producer.config.buffer_memory

        def has_room() -> bool:
            return self._is_closed or self._handed_bytes + self._producer.used_bytes < limit

        if has_room():
            return
        wait_s = 0 if self._thread.is_current else self._producer.config.max_block_ms / 1000
        if not self._room.wait_for(has_room, wait_s):
            raise BufferFull(f"no room in buffer_memory={limit} after {wait_s} s")
        if self._is_closed:
            raise ClientClosed("the producer was closed")

    def _on_room(self) -> None:
        with self._room:
            self._room.notify_all()

    def _take(self) -> None:
        """On the loop: move what was handed over into batches."""
        with self._lock:
            self._is_taking = False
            handed, self._handed = self._handed, deque()
        accept = self._producer.accept
        taken_bytes = 0
        for topic, partition, record, size, delivery in handed:
            taken_bytes += size
            try:
                accept(topic, partition, record, size, delivery)
            except ClientError as error:
                delivery.fail(error)
        # Counted twice until here: that errs on the side of waiting.
        with self._lock:
            self._handed_bytes -= taken_bytes
            self._room.notify_all()

    def _close_at_exit(self) -> None:
        if self._thread.is_forked:
            return
        if self._handed or self._producer.used_bytes:
            log.warning("a producer was not closed before exit: flushing what it still holds")
        with contextlib.suppress(ClientError, TimeoutError):
            self.close(AT_EXIT_TIMEOUT_MS)


@atexit.register
def _close_all() -> None:
    for producer in list(_open.values()):
        producer._close_at_exit()


class Consumer:
    """Reads records of topics; see `minikafka.aio.Consumer` for what reading means.

        with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["flights"])
            for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Reaches the cluster when it is made: ConfigError, BootstrapError. For one thread at a time.
    """

    def __init__(
        self, bootstrap_servers: Servers | None = None, **settings: Unpack[ConsumerSettings]
    ) -> None:
        self._consumer = aio_consumer.Consumer(bootstrap_servers, **settings)
        self._iterated: deque[ConsumerRecord] = deque()
        self._thread = LoopThread("minikafka-consumer")
        try:
            self._thread.run(self._consumer.start())
        except BaseException:
            self._thread.stop()
            raise

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make a consumer from a mapping with Kafka's dotted keys."""
        keywords: Any = dict(config)
        return cls(**keywords)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End."""
        with contextlib.suppress(ClientClosed):
            self._thread.run(self._consumer.close())
        self._thread.stop()

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on."""
        wanted = list(partitions)
        self._iterated.clear()
        self._thread.call(lambda: self._consumer.assign(wanted))

    def subscribe(self, topics: Sequence[str], *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Read all partitions of these topics from now on, alone (there is no group)."""
        self._iterated.clear()
        self._thread.run(self._consumer.subscribe(topics, timeout_ms=timeout_ms))

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return self._thread.call(self._consumer.assignment)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, without losing the position."""
        self._thread.call(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: Partition) -> None:
        """Include paused partitions again."""
        self._thread.call(lambda: self._consumer.resume(*partitions))

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`; one outside the log is handled by auto_offset_reset."""
        self._iterated.clear()
        self._thread.call(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._iterated.clear()
        self._thread.call(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record of these partitions, or of all."""
        self._iterated.clear()
        self._thread.call(lambda: self._consumer.seek_to_end(*partitions))

    def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Give the offset of the next record that a poll will return."""
        return self._thread.run(self._consumer.position(partition, timeout_ms=timeout_ms))

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return what has arrived, waiting up to `timeout_ms` for the first record."""
        return self._thread.run(self._consumer.poll(timeout_ms, max_records))

    def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return what has arrived as whole record batches, neither decoded nor checked."""
        return self._thread.run(self._consumer.poll_raw(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        while not self._iterated:
            try:
                self._iterated.extend(self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopIteration from None
        return self._iterated.popleft()

    def partitions_for(self, topic: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> list[int]:
        """List a topic's partitions."""
        return self._thread.run(self._consumer.partitions_for(topic, timeout_ms=timeout_ms))

    def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the first offset of each partition; does not move positions."""
        wanted = list(partitions)
        return self._thread.run(self._consumer.beginning_offsets(wanted, timeout_ms=timeout_ms))

    def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the offset behind the last readable record of each partition."""
        wanted = list(partitions)
        return self._thread.run(self._consumer.end_offsets(wanted, timeout_ms=timeout_ms))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after each time, in ms since the epoch."""
        return self._thread.run(self._consumer.offsets_for_times(times, timeout_ms=timeout_ms))

    def high_watermark(self, partition: Partition) -> int | None:
        """Give the high watermark as of the newest fetch; None before the first."""
        return self._thread.call(lambda: self._consumer.high_watermark(partition))

    def lag(self, partition: Partition) -> int | None:
        """Count the records between position and high watermark as of the newest fetch."""
        return self._thread.call(lambda: self._consumer.lag(partition))
