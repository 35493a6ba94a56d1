"""The synchronous consumer: the asyncio consumer on an event loop in a thread of its own.

Each method runs the asyncio consumer's method of the same name on that loop and waits for it.
Rebalance listeners are called in the thread that polls, so they may use the consumer.
"""

import asyncio
import contextlib
import inspect
import queue
import re
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from .config import ConsumerConfig, ConsumerSettings, Servers
from .consumer import consumer as aio_consumer
from .consumer.interceptors import ConsumerInterceptor
from .consumer.polling import COLUMNS_PER_POLL
from .consumer.questions import DEFAULT_TIMEOUT_MS
from .consumer.retry_policy import RetryPolicy
from .consumer.subscribing import CLOSE_TIMEOUT_MS
from .errors import ClientClosed
from .group_types import Partitions, RebalanceCallback, RebalanceListener
from .records import ConsumerRecord, RawRecords, RecordColumns
from .serialization import Deserializer, K, V
from .sync_loop import LOOK_UP_S, SyncClient, called, waited

if TYPE_CHECKING:
    from .sync_retry_worker import RetryWorker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a listener's method, to be made in the thread that polls."""

    callback: RebalanceCallback
    partitions: Partitions
    done: "asyncio.Future[None]"


class Consumer(SyncClient[aio_consumer.Consumer[K, V]], Generic[K, V]):
    """Reads records from topics; the methods work as those of `minikafka.aio.Consumer`.

        with Consumer("localhost:9092", group_id="billing") as consumer:
            consumer.subscribe(["flights"])
            for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    The constructor connects to the cluster; it raises ConfigError or BootstrapError. Only one
    thread at a time may use a consumer.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        interceptors: Sequence[ConsumerInterceptor[K, V]] = (),
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Deserializers and interceptors run in the loop's thread and must not block."""
        twin: aio_consumer.Consumer[K, V] = aio_consumer.Consumer(
            bootstrap_servers,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            interceptors=interceptors,
            **settings,
        )
        self._unread = twin.unread
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        super().__init__("consumer", twin)

    @property
    def config(self) -> ConsumerConfig:
        """The settings of this consumer."""
        return self._twin.config

    # -- life

    def __exit__(self, *reason: object) -> None:
        if reason[0] is not None:
            with contextlib.suppress(ClientClosed):
                self._thread.call(self._twin.forget_in_hand)
        self.close()

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit what polls returned (if commits are automatic), leave the group, disconnect."""
        with contextlib.suppress(ClientClosed):
            self._run(self._twin.close(timeout_ms))
        self._thread.stop()

    def _run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop; while it runs, call listeners' methods in this thread."""
        calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._calls = calls
        future = self._thread.submit(coro)
        future.add_done_callback(lambda _: calls.put(None))
        try:
            while True:
                # Waits are short, because a signal that arrives as a wait begins does not
                # end it.
                with contextlib.suppress(queue.Empty):
                    call = calls.get(timeout=LOOK_UP_S)
                    if call is None:
                        return future.result()
                    self._answer(call)
        except BaseException:
            future.cancel()
            raise

    def _answer(self, call: _Call) -> None:
        loop, done = self._thread.loop, call.done
        try:
            outcome = call.callback(call.partitions)
            if inspect.isawaitable(outcome):
                if inspect.iscoroutine(outcome):
                    outcome.close()
                raise TypeError("a listener of the sync consumer takes plain functions")
        except BaseException as error:
            loop.call_soon_threadsafe(_end, done, error)
            if not isinstance(error, Exception):
                raise
        else:
            loop.call_soon_threadsafe(_end, done, None)

    def _called_here(self, callback: RebalanceCallback | None) -> RebalanceCallback | None:
        if callback is None:
            return None

        async def call(partitions: Partitions) -> None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._calls.put(_Call(callback, partitions, done))
            await done

        return call

    # -- what to read

    assign = called(aio_consumer.Consumer.assign)

    def subscribe(
        self,
        topics: Sequence[str] | re.Pattern[str],
        *,
        listener: RebalanceListener | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Read these topics, or all topics whose whole name matches a pattern.

        Works as `minikafka.aio.Consumer.subscribe`.
        """
        here = None
        if listener is not None:
            here = RebalanceListener(
                self._called_here(listener.on_assigned),
                self._called_here(listener.on_revoked),
                self._called_here(listener.on_lost),
            )
        self._run(self._twin.subscribe(topics, listener=here, timeout_ms=timeout_ms))

    def unsubscribe(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Read nothing from now on: commit (if automatic), then leave the group."""
        self._run(self._twin.unsubscribe(timeout_ms=timeout_ms))

    subscription = called(aio_consumer.Consumer.subscription)
    assignment = called(aio_consumer.Consumer.assignment)
    pause = called(aio_consumer.Consumer.pause)
    resume = called(aio_consumer.Consumer.resume)
    paused = called(aio_consumer.Consumer.paused)

    # -- where to read

    seek = called(aio_consumer.Consumer.seek)
    seek_to_beginning = called(aio_consumer.Consumer.seek_to_beginning)
    seek_to_end = called(aio_consumer.Consumer.seek_to_end)
    position = waited(aio_consumer.Consumer.position)

    # -- reading

    def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return the records that have arrived, at most `max_records` (default max_poll_records).

        Waits up to `timeout_ms` for the first one. Raises as `minikafka.aio.Consumer.poll`.
        """
        return self._run(self._twin.poll(timeout_ms, max_records))

    def poll_columns(
        self, timeout_ms: int = 0, max_records: int = COLUMNS_PER_POLL
    ) -> list[RecordColumns]:
        """Return the records that have arrived as columns, one item for each batch.

        This is the fastest way to read. Works as `minikafka.aio.Consumer.poll_columns`.
        """
        return self._run(self._twin.poll_columns(timeout_ms, max_records))

    def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return the record batches that have arrived, whole, neither decoded nor checked."""
        return self._run(self._twin.poll_raw(timeout_ms))

    def with_retries(self, policy: RetryPolicy | None = None) -> "RetryWorker[K, V]":
        """Handle records by a function; those that fail are tried again later (RetryWorker)."""
        from .sync_retry_worker import RetryWorker

        return RetryWorker(self, self._twin.with_retries(policy), self._run)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        while not self._unread:
            try:
                self._unread.extend(self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopIteration from None
        return self._unread.popleft()

    # -- what is committed

    commit = waited(aio_consumer.Consumer.commit)
    committed = waited(aio_consumer.Consumer.committed)
    group_metadata = called(aio_consumer.Consumer.group_metadata)

    # -- how far

    partitions_for = waited(aio_consumer.Consumer.partitions_for)
    beginning_offsets = waited(aio_consumer.Consumer.beginning_offsets)
    end_offsets = waited(aio_consumer.Consumer.end_offsets)
    offsets_for_times = waited(aio_consumer.Consumer.offsets_for_times)
    high_watermark = called(aio_consumer.Consumer.high_watermark)
    lag = called(aio_consumer.Consumer.lag)
    group_lag = waited(aio_consumer.Consumer.group_lag)
    client_instance_id = waited(aio_consumer.Consumer.client_instance_id)


def _end(done: "asyncio.Future[None]", error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    elif isinstance(error, Exception):
        done.set_exception(error)
    else:
        done.cancel()
