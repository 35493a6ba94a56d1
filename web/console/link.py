"""The console's connection to the cluster: one admin for all tabs, which share its answers.

A request is sent only while a screen is drawn, and once for all tabs drawn at about that time. If
the cluster cannot be reached, each screen says so in one sentence.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from ...client.admin.admin import Admin
from ...client.config import ConsumerConfig, ProducerConfig
from ...client.consumer.consumer import Consumer
from ...client.errors import ClientClosed
from ...client.producer.producer import Producer
from ...runtime.config import settings_of
from ...runtime.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
Client = TypeVar("Client", Consumer[bytes, bytes], Producer[bytes, bytes])
Ask = Callable[[Admin], Coroutine[Any, Any, T]]
Reach = Callable[[Mapping[str, str], Runtime], Coroutine[Any, Any, Admin]]

USUAL: Final = {
    "client.id": "minikafka-console",
    "bootstrap.timeout.ms": "5000",
    "default.api.timeout.ms": "8000",
    "request.timeout.ms": "5000",
    "metadata.max.age.ms": "86400000",
}
"""The default settings of the admin. Metadata is refreshed on demand, not periodically."""
ONE_RECORD: Final = {"delivery.timeout.ms": "10000", "max.block.ms": "5000", "linger.ms": "0"}
"""The default settings of a producer; short timeouts, because a visitor waits for the page."""
MOST_ANSWERS: Final = 256
COST_FACTOR: Final = 10
"""An answer is used again for at least this many times as long as its request took."""
LONGEST_MS: Final = 10_000
"""The most milliseconds for which COST_FACTOR keeps an answer in use."""
FAILED_MS: Final = 1_000
"""The most milliseconds for which an error is used again; after that a new request is sent."""
STOPS: Final = "the console stops"
CLOSE_S: Final = 10
"""The most seconds that `Link.close` waits for clients to close."""


@dataclass(slots=True)
class _Answer:
    """A request that was sent; its task holds the answer or the error."""

    task: "asyncio.Task[Any]"
    asked_ms: int
    answered_ms: int = -1

    def on_done(self, now_ms: int) -> None:
        self.answered_ms = now_ms
        if not self.task.cancelled():
            self.task.exception()  # looked at: those who waited for it may all be gone

    def is_fresh(self, now_ms: int, age_ms: int) -> bool:
        if self.answered_ms < 0:
            return True
        if self.task.cancelled():
            return False
        old_ms = now_ms - self.answered_ms
        if self.task.exception() is not None:
            return old_ms < min(age_ms, FAILED_MS)
        took_ms = self.answered_ms - self.asked_ms
        return old_ms < max(age_ms, min(COST_FACTOR * took_ms, LONGEST_MS))


async def reached(settings: Mapping[str, str], runtime: Runtime) -> Admin:
    """Start an admin. If that fails, the error is raised and the next request starts another."""
    return await Admin.from_config(settings, runtime=runtime).start()


class Link:
    """Holds the console's one admin client, and closes the clients of single requests."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, str], reach: Reach = reached
    ) -> None:
        self.runtime = runtime
        self._reach = reach
        self._settings = {**USUAL, **settings}
        self._starting: asyncio.Task[Admin] | None = None
        self._answers: dict[object, _Answer] = {}
        self._closing: dict[asyncio.Task[None], None] = {}
        self._is_closed = False
        self._ending = asyncio.Lock()

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of some brokers, as the user gave them."""
        return self._settings.get("bootstrap.servers", "localhost:9092")

    async def close(self) -> None:
        """Close all clients, in CLOSE_S at most; requests that still run, and later ones, fail.

        A second call waits for the first.
        """
        async with self._ending:
            self._is_closed = True
            starting, self._starting = self._starting, None
            ending: list[asyncio.Task[Any]] = [one.task for one in self._answers.values()]
            ending += [] if starting is None else [starting]
            self._answers.clear()
            for task in ending:
                task.cancel()
            if ending or self._closing:
                await asyncio.wait([*ending, *self._closing], timeout=CLOSE_S)
            if starting is not None and _succeeded(starting):
                await starting.result().close()

    async def shared(
        self,
        age_ms: int,
        ask: Callable[Concatenate[Admin, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the answer of `ask(admin, *args)`, perhaps one that another tab has received.

        An answer is used again until it is `age_ms` old, a slow one for longer, and an error for
        FAILED_MS at most. The first request connects to the cluster, and raises BootstrapError if
        that takes too long.
        """
        key, now_ms = (ask, args), self.runtime.monotonic_ms()
        found = self._answers.pop(key, None)
        if found is None or not found.is_fresh(now_ms, age_ms):
            question = self._asked(lambda admin: ask(admin, *args, **kwargs))
            task = asyncio.get_running_loop().create_task(question, name=ask.__name__)
            found = new = _Answer(task, now_ms)
            task.add_done_callback(lambda _: new.on_done(self.runtime.monotonic_ms()))
        self._answers[key] = found
        while len(self._answers) > MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        answer: T = await self._until_closed(found.task)
        return answer

    async def ask(self, ask: Ask[T]) -> T:
        """Send a request whose answer is not shared, or change something."""
        return await self._asked(ask)

    def forget(self) -> None:
        """Drop the answers that tabs share, because a change has made them outdated."""
        self._answers = {k: one for k, one in self._answers.items() if not one.task.done()}

    def consumer(self, **settings: object) -> AbstractAsyncContextManager[Consumer[bytes, bytes]]:
        """Start a consumer that belongs to no group, and close it at the end of the block."""
        common = self._common(ConsumerConfig)
        return self._open(Consumer.from_config(common, runtime=self.runtime, **settings))

    def producer(self) -> AbstractAsyncContextManager[Producer[bytes, bytes]]:
        """Start a producer for one record, and close it at the end of the block."""
        settings = {**ONE_RECORD, **self._common(ProducerConfig)}
        return self._open(Producer.from_config(settings, runtime=self.runtime))

    @asynccontextmanager
    async def _open(self, client: Client) -> AsyncIterator[Client]:
        try:
            yield await client.start()
        finally:
            # Starlette cancels the task of a visitor who left, at each of its awaits again. A task
            # of its own closes the client in spite of that.
            closing = self.runtime.spawn(client.close(), "close")
            self._closing[closing] = None
            closing.add_done_callback(self._closing.pop)
            await asyncio.shield(closing)

    def _common(self, table: type) -> dict[str, str]:
        known = {row.key for row in settings_of(table)}
        return {key: value for key, value in self._settings.items() if key in known}

    async def _asked(self, ask: Ask[T]) -> T:
        return await ask(await self._admin())

    async def _admin(self) -> Admin:
        if self._is_closed:
            raise ClientClosed(STOPS)
        starting = self._starting
        if starting is None or (starting.done() and not _succeeded(starting)):
            starting = asyncio.get_running_loop().create_task(
                self._reach(self._settings, self.runtime), name="reach"
            )
            self._starting = starting
        return await self._until_closed(starting)

    async def _until_closed(self, task: "asyncio.Task[T]") -> T:
        """Await a task that others await too; raise ClientClosed if `close` cancels it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._is_closed and task.cancelled():
                raise ClientClosed(STOPS) from None
            raise


def _succeeded(task: "asyncio.Task[Any]") -> bool:
    """Return whether a task has ended with a result."""
    return task.done() and not task.cancelled() and task.exception() is None
