"""The asyncio producer: what users call.

It checks and serializes records and passes them to the intake. `Engine` starts and closes the other
parts: the sender and, with a transactional.id, the transactions.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, Self, Unpack

from ...protocol.records.record_batch import Headers
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import ProducerConfig, ProducerSettings, Servers, configured
from ..errors import ClientError
from ..group_types import ConsumerGroupMetadata, PreparedTransaction
from ..milliseconds import check_ms
from ..records import OnDelivery
from ..serialization import K, Serializer, V
from ..telemetry.reporter import INSTANCE_ID_TIMEOUT_MS
from .accumulator import Row, check_target, checked_size
from .columns import Columns, Records, checked_rows
from .delivery import BatchDelivery, Delivery
from .engine import Engine
from .interceptors import OutgoingRecord, ProducerInterceptor, intercepted
from .metrics import TXN_ABORT, TXN_BEGIN, TXN_COMMIT, TXN_SEND_OFFSETS
from .transaction_requests import Offsets


class Producer(Generic[K, V]):
    """Sends records to topics.

        async with Producer("localhost:9092") as producer:
            sent = await producer.send("flights", b"value", key=b"AA")
            print(sent.partition, sent.offset)

    Awaiting each `send` waits for its acknowledgement. To send many records, do not await each, but
    let `drain` limit the rate, and at the end await the deliveries or `flush`:

        for value in values:
            producer.send("flights", value)
            await producer.drain()
        await producer.flush()

    With a transactional_id records are sent in transactions, which are committed or aborted whole:

        async with Producer("localhost:9092", transactional_id="billing-1") as producer:
            async with producer.transaction():
                producer.send("invoices", b"...")
                await producer.send_offsets(offsets, consumer.group_metadata())

    Defaults: acks=all, idempotent (retries neither duplicate nor reorder), 5 ms linger. Records
    of one partition are written in the order they were sent. Keys and values are bytes, or what
    `key_serializer` and `value_serializer` take. Settings are keyword arguments named as Kafka's,
    with underscores. An unknown setting raises a ConfigError that names the most similar one.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        interceptors: Sequence[ProducerInterceptor[K, V]] = (),
        on_delivery: OnDelivery | None = None,
        runtime: Runtime | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """`on_delivery(error, metadata)` is called for each `send` that names no `on_delivery`."""
        self.config = configured(ProducerConfig, bootstrap_servers, settings)
        self._runtime = runtime or SystemRuntime("producer")
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self.is_plain = key_serializer is None and value_serializer is None
        self._interceptors = tuple(interceptors)
        self._on_delivery = on_delivery
        self._engine = Engine(self._runtime, self.config)
        self.intake = self._engine.intake
        """The buffer of records to send; the sync producer reads its state and metrics."""
        self._accumulator = self.intake.accumulator
        self._is_closed = False
        self._max_record = self.config.max_request_size

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a producer from settings under Kafka's dotted names, such as `linger.ms`.

        The keyword arguments are those of `__init__`.
        """
        return cls(**dict(config), **arguments)

    # -- life

    async def start(self) -> Self:
        """Connect to the cluster, as `async with` does.

        Raise BootstrapError after bootstrap_timeout_ms.

        With a transactional_id, an older producer with the same id is fenced and its open
        transaction aborted. Raise RequestTimedOut if that takes longer than max_block_ms.
        """
        await self._engine.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush and disconnect, as `async with` does at its end. Abort an open transaction.

        Records that are not acknowledged after `timeout_ms` fail with ClientClosed. By default
        only delivery_timeout_ms bounds the flush.
        """
        check_ms(timeout_ms)
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._engine.close(timeout_ms)
        finally:
            for interceptor in self._interceptors:
                interceptor.close()

    @property
    def is_closed(self) -> bool:
        """True once `close` has ended, or the start has failed."""
        return self._engine.metadata.pool.is_closed

    # -- sending

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
    ) -> Delivery:
        """Send a record, in a batch with others, after linger_ms or when the batch is full.

        Returns without waiting. Awaiting the result gives RecordMetadata(topic, partition, offset,
        timestamp_ms), or raises: DeliveryTimeout after delivery_timeout_ms; DeliveryFailed if a
        broker refused; UnknownTopic if the topic was not found within max_block_ms.

        The partition is `partition` if given, else chosen by the key's murmur2 hash as Java's
        clients do; without a key it changes about once per batch. `timestamp_ms` is now by default.

        The call raises MessageTooLarge above max_request_size; BufferFull when buffer_memory bytes
        wait (see `drain`); ClientClosed; TransactionError outside of a transaction; TypeError or
        ValueError if an argument is invalid.
        """
        if self._interceptors:
            record = OutgoingRecord(topic, value, key, partition, timestamp_ms, headers)
            record = intercepted(self._interceptors, record)
            topic, value, key, partition, timestamp_ms, headers = record
        if timestamp_ms is None:
            timestamp_ms = self._runtime.wall_ms()
        check_target(topic, partition)
        pair = (key, value) if self.is_plain else self.to_bytes(key, value)
        row = (timestamp_ms, *pair, headers)
        size = checked_size(row, self._max_record)
        delivery = Delivery(timestamp_ms)
        if (callback := on_delivery or self._on_delivery) is not None:
            call_when_done(asyncio.get_running_loop(), delivery, callback)
        accept = self.accept if self._interceptors else self.intake.accept
        accept(topic, partition, row, size, delivery)
        return delivery

    def to_bytes(self, key: K | None, value: V | None) -> tuple[bytes | None, bytes | None]:
        """Serialize a key and a value; None is returned as None."""
        key_bytes: Any = key
        value_bytes: Any = value
        # Without a serializer K and V are bytes; `checked_size` refuses anything else.
        if key is not None and self._key_serializer is not None:
            key_bytes = self._key_serializer(key)
        if value is not None and self._value_serializer is not None:
            value_bytes = self._value_serializer(value)
        return key_bytes, value_bytes

    def send_batch(
        self, topic: str, records: Records[K, V], *, partition: int | None = None
    ) -> BatchDelivery:
        """Send many records with one result for all of them; the fastest way is `Columns`.

        Partitions are chosen as in `send`. Awaiting the result gives one BatchMetadata for each run
        of records in the same batch. If the call itself raises (BufferFull, MessageTooLarge,
        TypeError), no record is sent. Interceptors and `on_delivery` are not called.
        """
        check_target(topic, partition)
        wall_ms, limit = self._runtime.wall_ms(), self._max_record
        if isinstance(records, Columns):
            serializers = (self._key_serializer, self._value_serializer)
            columns = checked_rows(records, serializers, wall_ms, limit)
            return BatchDelivery(self.intake.accept_rows(topic, partition, columns))
        rows: list[tuple[Row, int]] = []
        for value, key, headers, timestamp_ms in records:
            when_ms = wall_ms if timestamp_ms is None else timestamp_ms
            pair = (key, value) if self.is_plain else self.to_bytes(key, value)
            row = (when_ms, *pair, headers)
            rows.append((row, checked_size(row, limit)))
        return BatchDelivery(self.intake.accept_all(topic, partition, rows))

    def accept(
        self, topic: str, partition: int | None, record: Row, size: int, delivery: Delivery
    ) -> None:
        """Pass a record of `size` bytes to the intake, and later its result to the interceptors."""
        for one in self._interceptors:
            call_when_done(asyncio.get_running_loop(), delivery, one.on_acknowledgement)
        self.intake.accept(topic, partition, record, size, delivery)

    # -- waiting

    async def drain(self) -> None:
        """Wait until there is room in buffer_memory; return immediately if there is.

        Raises BufferFull after max_block_ms, ClientClosed if the producer is closed before.
        """
        await self.intake.drain()

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send all records accepted so far without lingering, and wait until they are settled.

        Failed records are reported by their deliveries and callbacks, not here. Raises TimeoutError
        after `timeout_ms`.
        """
        check_ms(timeout_ms)
        await self._engine.flush(timeout_ms)

    # -- transactions; each call raises TransactionMisuse in the wrong order

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        If the commit fails, the transaction is aborted and the error raised: TransactionAbortable
        (do the work again), ProducerFenced or TransactionFailed (close this producer). After
        RequestTimedOut the outcome is unknown; call `commit_transaction` again.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self.can_abort:
                # The block's exception says more than the error of the abort.
                with suppress(ClientError):
                    await self.abort_transaction()
            raise

    @property
    def can_abort(self) -> bool:
        """True if there is a transaction that can be aborted."""
        return self._engine.transactions.state.can_abort

    async def begin_transaction(self) -> None:
        """Begin a transaction; raise TransactionMisuse if one is open."""
        with self._engine.spent.counted(TXN_BEGIN):
            await self._engine.transactions.begin()

    async def commit_transaction(self) -> None:
        """Wait for all records, then commit; raises as `transaction` does, but does not abort."""
        with self._engine.spent.counted(TXN_COMMIT):
            await self._engine.transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction, after the records in flight were answered.

        Records that were not sent yet fail with TransactionAborted. Raise what
        `transaction` raises.
        """
        with self._engine.spent.counted(TXN_ABORT):
            await self._engine.transactions.abort()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for all records and leave the transaction open, for `Admin.commit_group`.

        Return None if there is nothing to commit. Raises as `commit_transaction` does. Afterwards
        neither this producer nor its `close` ends the transaction. The next `begin_transaction`
        initializes the transactional id anew, which aborts the transaction if it is still open.
        """
        return await self._engine.transactions.prepare()

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata | str) -> None:
        """Commit a group's offsets with the transaction: the next offset to read per partition.

        If `group` is `consumer.group_metadata()`, a member that lost its partitions is refused with
        TransactionAbortable. With a group id alone, nobody checks the membership.
        """
        who = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        with self._engine.spent.counted(TXN_SEND_OFFSETS):
            await self._engine.transactions.send_offsets(offsets, who)

    # -- looking

    async def partitions_for(self, topic: str, *, refresh: bool = False) -> list[int]:
        """List a topic's partition numbers; raise UnknownTopic if it is not found in max_block_ms.

        With `refresh`, ask the brokers even if the topic is known.
        """
        metadata = self._engine.metadata
        await metadata.wait_for_topics([topic], self.config.max_block_ms, refresh=refresh)
        return sorted(metadata.view.topics[topic].partitions)

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics, by the names of Kafka's producer-metrics.

        Totals count from the producer's creation. Rates, averages and maxima cover the last 30 to
        60 seconds; averages and maxima are NaN if there was nothing in that time.
        """
        return self._engine.metrics()

    async def client_instance_id(self, *, timeout_ms: int = INSTANCE_ID_TIMEOUT_MS) -> str:
        """Return the id that a broker gave to this client for its metrics (KIP-714).

        It identifies the client in the metrics that the client pushes. Raise ValueError if
        enable.metrics.push is false, RequestTimedOut if no broker has given one in `timeout_ms`.
        """
        return await self._engine.reporter.instance_id(timeout_ms)

    @property
    def used_bytes(self) -> int:
        """Bytes of records that are not settled."""
        return self._accumulator.used_bytes


def call_when_done(
    loop: asyncio.AbstractEventLoop, delivery: Delivery, callback: OnDelivery
) -> None:
    """Call a user's callback on the loop when the record is acknowledged or has failed."""

    def call() -> None:
        error = delivery.error()
        # Through the loop, so that an exception in a user's callback affects nothing else.
        loop.call_soon(callback, error, None if error is not None else delivery.result())

    delivery.when_done(call)


def has_failed(producer: Producer[Any, Any]) -> bool:
    """True while every send fails: before `start`, or since an error that is final."""
    return not producer._engine.intake.is_usable
