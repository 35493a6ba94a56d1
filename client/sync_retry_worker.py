"""The synchronous retry worker: handles the records of a group in the caller's thread."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from .consumer.retry_batch import Batch, Raw
from .consumer.retry_policy import RetryPolicy, RetryTopics
from .consumer.retry_worker import POLL_MS
from .consumer.retry_worker import RetryWorker as AioRetryWorker
from .errors import ClientClosed
from .group_types import RebalanceListener
from .records import ConsumerRecord
from .serialization import K, V

if TYPE_CHECKING:
    from .sync_consumer import Consumer

T = TypeVar("T")


class Ask(Protocol):
    """The consumer's way to its loop."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine there, and return its result."""


class RetryWorker(Generic[K, V]):
    """Handles the records of a group by a function; those that fail are tried again later.

        with Consumer(
            "localhost:9092", group_id="billing", enable_auto_commit=False
        ) as consumer, consumer.with_retries(RetryPolicy(backoff_ms=(1_000, 60_000))) as worker:
            worker.subscribe(["orders"])
            worker.run(bill)

    Works as `minikafka.aio.RetryWorker`. The function and deserializers are called in the thread
    that calls `run`; `stop` may be called in any.
    """

    def __init__(self, consumer: "Consumer[K, V]", worker: AioRetryWorker[K, V], ask: Ask) -> None:
        self._consumer = consumer
        self._twin = worker
        self._ask = ask

    @property
    def policy(self) -> RetryPolicy:
        """How often records are tried again, and when."""
        return self._twin.policy

    @property
    def topics(self) -> RetryTopics:
        """The topics of the group's retries and dead letters."""
        return self._twin.topics

    def start(self) -> Self:
        """Create the topics that are not there, and connect; `with` does it."""
        self._ask(self._twin.start())
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; the consumer stays open."""
        self._ask(self._twin.close())

    def subscribe(
        self, topics: Sequence[str], *, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, and what comes back; as `minikafka.aio.RetryWorker.subscribe`."""
        names = self._ask(self._twin.with_returning(topics))
        self._consumer.subscribe(names, listener=listener)

    def run(self, handler: Callable[[ConsumerRecord[K, V]], Any]) -> None:
        """Handle records until `stop` is called, or the consumer is closed.

        Raises as `minikafka.aio.RetryWorker.run`.
        """
        worker = self._twin
        while not worker.is_stopping():
            try:
                batch = self._ask(worker.take(POLL_MS))
            except ClientClosed:
                return
            for record in batch.records:
                if worker.is_stopping():
                    break
                if worker.is_turn(batch, record):
                    self._handle(batch, record, handler)
                worker.on_done(batch, record)
            self._ask(worker.settle(batch))

    def _handle(
        self, batch: Batch, record: Raw, handler: Callable[[ConsumerRecord[K, V]], Any]
    ) -> None:
        try:
            result = handler(self._twin.read(record))
        except Exception as error:
            self._twin.on_failed(batch, record, error)
        else:
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError("the sync retry worker takes a plain function")

    def stop(self) -> None:
        """Have `run` return, and not begin again, once the record in hand is settled."""
        self._twin.stop()
