"""The synchronous producer: the asyncio producer on an event loop in a thread of its own.

`send` queues records for the loop, which takes many of them together, and returns a `SyncDelivery`.
At the exit of the interpreter, open producers are flushed and closed.
"""

import atexit
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from ..protocol.records.record_batch import Headers
from .config import ProducerConfig, ProducerSettings, Servers
from .errors import BufferFull, ClientClosed, ClientError
from .milliseconds import check_ms
from .producer import producer as aio_producer
from .producer.accumulator import Row, check_target, checked_size
from .producer.columns import Columns, Records
from .producer.delivery import BatchDelivery, Delivery
from .producer.interceptors import OutgoingRecord, ProducerInterceptor, intercepted
from .records import BatchMetadata, OnDelivery, RecordMetadata
from .serialization import K, Serializer, V
from .sync_loop import LoopThread, SyncClient, wait_for, waited

log = logging.getLogger(__name__)

T = TypeVar("T")
AT_EXIT_TIMEOUT_MS: Final = 10_000


@dataclass(slots=True, eq=False, repr=False)
class SyncDelivery(Generic[T]):
    """The result of a `send` or `send_batch`; the caller may ignore it."""

    _thread: LoopThread
    _delivery: Any

    def done(self) -> bool:
        """True once the records are acknowledged or have failed."""
        return bool(self._delivery.done())

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds; return the metadata of the records, or raise their error.

        Raises TimeoutError if the records are not acknowledged in that time; the sending continues.
        Raises RuntimeError in a callback, because a callback must not wait.
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

_open: dict[int, "Producer[Any, Any]"] = {}
"""The producers that are not closed yet, by `id`; they are flushed and closed at exit."""


class Producer(SyncClient[aio_producer.Producer[K, V]], Generic[K, V]):
    """Sends records to topics; the methods work as those of `minikafka.aio.Producer`.

        with Producer("localhost:9092") as producer:
            for value in values:
                producer.send("flights", value)

        with Producer("localhost:9092", transactional_id="billing-1") as producer:
            with producer.transaction():
                producer.send("invoices", b"...")

    The constructor connects to the cluster; it raises ConfigError or BootstrapError. Several
    threads may send at once, but transactions are for one thread at a time. Leaving the block (or
    `close`) waits for all acknowledgements, but an open transaction is aborted.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        interceptors: Sequence[ProducerInterceptor[K, V]] = (),
        on_delivery: OnDelivery | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """`on_delivery(error, metadata)` runs in the loop's thread and must not block."""
        twin = aio_producer.Producer(
            bootstrap_servers,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            interceptors=interceptors,
            **settings,
        )
        self._interceptors = tuple(interceptors)
        self._on_delivery = on_delivery
        self._handed: deque[tuple[str, int | None, Row, int, Delivery]] = deque()
        self._handed_bytes = 0
        self._is_taking = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        twin.intake.on_room = self._on_room
        super().__init__("producer", twin)
        _open[id(self)] = self

    @property
    def config(self) -> ProducerConfig:
        """The settings of this producer."""
        return self._twin.config

    def close(self, timeout_ms: int | None = None) -> None:
        """Flush and close; records not acknowledged after `timeout_ms` fail with ClientClosed."""
        check_ms(timeout_ms)
        if self._is_closed:
            return
        self._thread.check_process()
        self._is_closed = True
        try:
            self._thread.run(self._twin.close(timeout_ms))
        finally:
            _open.pop(id(self), None)
            self._thread.stop()

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> SyncDelivery[RecordMetadata]:
        """Send a record, in a batch with others, after linger_ms or when the batch is full.

        Waits only for room in buffer_memory; raises BufferFull after max_block_ms. Call
        `.result(timeout)` on the returned value to wait for the acknowledgement. All else is as in
        `minikafka.aio.Producer.send`.
        """
        self._check_usable()
        if self._interceptors:
            record = OutgoingRecord(topic, value, key, partition, timestamp_ms, headers)
            record = intercepted(self._interceptors, record)
            topic, value, key, partition, timestamp_ms, headers = record
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        check_target(topic, partition)
        pair = (key, value) if self._twin.is_plain else self._twin.to_bytes(key, value)
        row: Row = (timestamp_ms, *pair, headers)
        size = checked_size(row, self._twin.config.max_request_size)
        delivery = Delivery(timestamp_ms)
        callback = on_delivery or self._on_delivery
        if callback is not None:
            aio_producer.call_when_done(self._thread.loop, delivery, callback)
        with self._lock:
            self._wait_for_room()
            self._handed.append((topic, partition, row, size, delivery))
            self._handed_bytes += size
            if not self._is_taking:
                self._is_taking = True
                self._thread.loop.call_soon_threadsafe(self._take)
        return SyncDelivery(self._thread, delivery)

    def send_batch(
        self, topic: str, records: Records[K, V], *, partition: int | None = None
    ) -> SyncBatchDelivery:
        """Send many records with one result for all of them; the fastest way is `Columns`.

        Works as `minikafka.aio.Producer.send_batch`, but waits for room as `send` does.
        """
        self._check_usable()
        batch = records if isinstance(records, Columns) else list(records)
        while True:
            with self._room:
                self._wait_for_room()
            delivery = self._thread.call(lambda: self._send_if_room(topic, batch, partition))
            if delivery is not None:
                return SyncDelivery(self._thread, delivery)

    def _send_if_room(
        self, topic: str, batch: Records[K, V], partition: int | None
    ) -> BatchDelivery | None:
        """Send on the loop; return None if other threads have filled buffer_memory since."""
        if not self._twin.intake.accumulator.has_room():
            return None
        return self._twin.send_batch(topic, batch, partition=partition)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send all records without lingering, and wait until they are acknowledged or failed.

        Raise TimeoutError after `timeout_ms`.
        """
        self._check_usable()
        self._thread.run(self._twin.flush(timeout_ms))

    # -- transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        Raises as `minikafka.aio.Producer.transaction` does.
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if not self._is_closed and self._thread.call(lambda: self._twin.can_abort):
                with contextlib.suppress(ClientError):
                    self.abort_transaction()
            raise

    begin_transaction = waited(aio_producer.Producer.begin_transaction)
    commit_transaction = waited(aio_producer.Producer.commit_transaction)
    abort_transaction = waited(aio_producer.Producer.abort_transaction)
    prepare_transaction = waited(aio_producer.Producer.prepare_transaction)
    send_offsets = waited(aio_producer.Producer.send_offsets)

    # -- looking

    partitions_for = waited(aio_producer.Producer.partitions_for)
    client_instance_id = waited(aio_producer.Producer.client_instance_id)

    def _check_usable(self) -> None:
        self._thread.check_process()
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        intake = self._twin.intake
        if not intake.is_usable and (refusal := intake.refusal()) is not None:
            raise refusal

    def _wait_for_room(self) -> None:
        """Wait until there is room in buffer_memory; the caller holds `_room`.

        Raise BufferFull after max_block_ms, or ClientClosed if the producer is closed before.
        """
        limit = self._twin.config.buffer_memory

        def has_room() -> bool:
            return self._is_closed or self._handed_bytes + self._twin.used_bytes < limit

        if has_room():
            return
        wait_s = 0 if self._thread.is_current else self._twin.config.max_block_ms / 1000
        metrics = self._twin.intake.metrics
        with metrics.waiting_for_room():
            in_time = self._room.wait_for(has_room, wait_s)
        if not in_time:
            metrics.exhausted_count += 1
            raise BufferFull(f"no room in buffer_memory={limit} after {wait_s} s")
        if self._is_closed:
            raise ClientClosed("the producer was closed")

    def _on_room(self) -> None:
        with self._room:
            self._room.notify_all()

    def _take(self) -> None:
        """Move the queued records into batches; runs on the loop."""
        with self._lock:
            self._is_taking = False
            handed, self._handed = self._handed, deque()
        accept = self._twin.accept
        taken_bytes = 0
        errors: list[ClientError] = []
        for topic, partition, record, size, delivery in handed:
            taken_bytes += size
            try:
                accept(topic, partition, record, size, delivery)
            except ClientError as error:
                delivery.fail(error)
                errors.append(error)
        if errors:
            log.warning("%d records were not delivered: %s", len(errors), errors[0])
        # Until here these bytes were counted twice, so that a sender may wait needlessly.
        with self._lock:
            self._handed_bytes -= taken_bytes
            self._room.notify_all()

    def _close_at_exit(self) -> None:
        if self._thread.is_forked:
            return
        if self._handed or self._twin.used_bytes:
            log.warning("a producer was not closed before exit: flushing what it still holds")
        with contextlib.suppress(ClientError, TimeoutError):
            self.close(AT_EXIT_TIMEOUT_MS)


@atexit.register
def _close_all() -> None:
    for producer in list(_open.values()):
        producer._close_at_exit()
