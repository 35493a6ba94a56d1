"""The clients of each user: an admin and an idempotent producer, started at their first use.

They are bounded in number, and closed when their user has asked nothing for some time. Consumers
belong to who reads with them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, Generic, TypeVar

from ...client.admin.admin import Admin
from ...client.consumer.consumer import Consumer
from ...client.errors import AdminError, ClientClosed
from ...client.producer.producer import Producer, has_failed
from ...protocol.errors import ErrorCode
from ...runtime.runtime import Runtime
from .errors import NO_PARTITION, NO_ROOM, NO_TOPIC_V3, RestError
from .login import Login
from .rates import Rate
from .settings import Settings

Client = TypeVar("Client", Admin, Producer[bytes, bytes])
CLOSE_S: Final = 10
"""The most seconds that clients are given to close."""
CLOSE_MS: Final = 5_000
"""The most ms in which a consumer that is closed commits and leaves its group."""
TOPIC_MS: Final = 10_000
"""Ms for which it is known that a topic exists, and its number of partitions."""
NO_PARTITION_MS: Final = 1_000
"""Ms for which it is known that a topic does not have a partition."""
MOST_TOPICS: Final = 1_000


class _Once(Generic[Client]):
    """A client that is started at its first use; after a failure, at the next use again."""

    def __init__(
        self,
        start: Callable[[], Coroutine[Any, Any, Client]],
        has_failed: Callable[[Client], bool] = lambda _: False,
    ) -> None:
        """A client that `has_failed` for good is replaced at the next use."""
        self._start: Callable[[], Coroutine[Any, Any, Client]] = start
        self._has_failed: Callable[[Client], bool] = has_failed
        self._task: asyncio.Task[Client] | None = None

    @property
    def is_started(self) -> bool:
        return self._task is not None and not (self._task.done() and _did_not_start(self._task))

    async def get(self) -> Client:
        task = self._task
        if task is None or (
            task.done() and (_did_not_start(task) or self._has_failed(task.result()))
        ):
            start = self._started_after(task)
            task = self._task = asyncio.get_running_loop().create_task(start, name="start")
            task.add_done_callback(_did_not_start)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ClientClosed("the clients of this user are closed") from None
            raise

    async def _started_after(self, old: "asyncio.Task[Client] | None") -> Client:
        if old is not None and not _did_not_start(old):
            await old.result().close()
        return await self._start()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not _did_not_start(task):
            await task.result().close()


def _did_not_start(task: "asyncio.Task[Any]") -> bool:
    return task.cancelled() or task.exception() is not None


class Held:
    """The clients of one user, and what is known for them."""

    def __init__(self, runtime: Runtime, settings: Settings, login: Login) -> None:
        self.login = login
        self.users = 0
        """The number of requests and streams that use these clients now."""
        self.used_ms = runtime.monotonic_ms()
        self.rate = Rate(settings.rest.produce_rate)
        self._runtime = runtime
        self._settings = settings
        self._admin = _Once(self._start_admin)
        self._producer = _Once(self._start_producer, has_failed)
        self._cluster_id = ""
        self._topics: dict[str, tuple[int, int]] = {}
        """By topic, its number of partitions and when that was learnt."""

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Keep the clients open during the block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self.used_ms = self._runtime.monotonic_ms()

    @property
    def is_started(self) -> bool:
        """True if a client is started, or is being started."""
        return self._admin.is_started or self._producer.is_started

    async def admin(self) -> Admin:
        """Return the admin; raise BootstrapError if it cannot be started."""
        return await self._admin.get()

    async def producer(self) -> Producer[bytes, bytes]:
        """Return the producer; raise BootstrapError if it cannot be started."""
        return await self._producer.get()

    async def _start_admin(self) -> Admin:
        settings = {**self._settings.admin, **self.login.settings()}
        return await Admin.from_config(settings, runtime=self._runtime).start()

    async def _start_producer(self) -> Producer[bytes, bytes]:
        settings = {**self._settings.producer, **self.login.settings()}
        producer: Producer[bytes, bytes] = Producer.from_config(settings, runtime=self._runtime)
        return await producer.start()

    def make_consumer(self, **settings: str) -> Consumer[bytes, bytes]:
        """Make a consumer, not started, with settings by Kafka's names with underscores."""
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        merged = {**self._settings.consumer, **self.login.settings(), **dotted}
        return Consumer.from_config(merged, runtime=self._runtime)

    async def cluster_id(self) -> str:
        """Return the id of the cluster."""
        if not self._cluster_id:
            self._cluster_id = (await (await self.admin()).describe_cluster()).cluster_id
        return self._cluster_id

    async def partitions(self, topic: str, partition: int | None = None) -> int:
        """Return the topic's number of partitions; raise RestError if it has not this one, or none.

        What was learnt less than TOPIC_MS ago is used again.
        """
        now_ms = self._runtime.monotonic_ms()
        count, learnt_ms = self._topics.get(topic, (0, 0))
        known_ms = TOPIC_MS if count > (partition or 0) else NO_PARTITION_MS
        if not count or now_ms - learnt_ms >= known_ms:
            self._topics.pop(topic, None)
            try:
                described = await (await self.admin()).describe_topics([topic])
            except AdminError as error:
                codes = [one.code for one in error.errors.values()]
                if codes != [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]:
                    raise
                raise RestError(NO_TOPIC_V3, f"There is no topic {topic[:250]!r}.") from None
            count = len(described[topic].partitions)
            if len(self._topics) >= MOST_TOPICS:
                del self._topics[next(iter(self._topics))]
            self._topics[topic] = (count, now_ms)
        if partition is not None and not 0 <= partition < count:
            raise RestError(NO_PARTITION, f"Topic {topic} has no partition {partition}.")
        return count

    def forget(self, topic: str) -> None:
        """Forget what is known of a topic, because it was changed."""
        self._topics.pop(topic, None)

    async def close(self) -> None:
        """Close the clients; records that are not acknowledged get the producer's own time."""
        await asyncio.gather(self._admin.close(), self._producer.close())


class Clients:
    """The clients of all users."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self._runtime = runtime
        self._settings = settings
        self._held: dict[Login, Held] = {}
        self._closing: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._held)

    @contextlib.asynccontextmanager
    async def of(self, login: Login) -> AsyncIterator[Held]:
        """Hold the clients of a user during the block; raise RestError if there is no room.

        Clients that could not log in are dropped at its end.
        """
        if self._is_closed:
            raise ClientClosed("the proxy stops")
        held = self._held.get(login)
        if held is None:
            self._make_room()
            held = self._held[login] = Held(self._runtime, self._settings, login)
        try:
            with held.used():
                yield held
        finally:
            if not held.users and not held.is_started and self._held.get(login) is held:
                del self._held[login]

    def _make_room(self) -> None:
        if len(self._held) < self._settings.rest.max_principals:
            return
        idle = [one for one in self._held.values() if not one.users]
        if not idle:
            why = f"The proxy has clients for {len(self._held)} users, all in use: try again."
            raise RestError(NO_ROOM, why, retry_after_s=1)
        self._drop(min(idle, key=lambda one: one.used_ms))

    def close_idle(self, now_ms: int) -> None:
        """Begin to close the clients whose user has asked nothing for `client_idle_ms`."""
        for one in list(self._held.values()):
            if not one.users and now_ms - one.used_ms >= self._settings.rest.client_idle_ms:
                self._drop(one)

    def _drop(self, held: Held) -> None:
        del self._held[held.login]
        task = self._runtime.spawn(held.close(), "close")
        self._closing[task] = None
        task.add_done_callback(self._closing.pop)

    async def close(self) -> None:
        """Close all clients, in CLOSE_S at most; later requests fail."""
        self._is_closed = True
        for one in list(self._held.values()):
            self._drop(one)
        if self._closing:
            _, late = await asyncio.wait(list(self._closing), timeout=CLOSE_S)
            for task in late:
                task.cancel()
