"""The way to the cluster: one admin for all tabs, and answers that tabs share.

Nothing is asked while nobody looks: a question is put when a screen is drawn, once for all that are
drawn meanwhile. A cluster that is away costs each screen one sentence.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from ...client.admin.admin import Admin
from ...client.config import ConsumerConfig, ProducerConfig
from ...client.consumer.consumer import Consumer
from ...client.producer.producer import Producer
from ...runtime.config import settings_of
from ...runtime.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[[Admin], Coroutine[Any, Any, T]]
Reach = Callable[[Mapping[str, str], Runtime], Coroutine[Any, Any, Admin]]

USUAL: Final = {
    "client.id": "minikafka-console",
    "bootstrap.timeout.ms": "5000",
    "default.api.timeout.ms": "8000",
    "request.timeout.ms": "5000",
    "metadata.max.age.ms": "86400000",
}
"""Settings where none are given. Metadata is asked for when it is needed, never by the clock."""
ONE_RECORD: Final = {"delivery.timeout.ms": "10000", "max.block.ms": "5000", "linger.ms": "0"}
"""Settings of a producer, where none are given: whoever waits for a page does not wait long."""
MOST_ANSWERS: Final = 256
COST_FACTOR: Final = 10
"""An answer is used for so many times as long as it took to get, at the least."""
LONGEST_MS: Final = 10_000
"""However long it took, it is used for no longer than this on that account."""


@dataclass(slots=True)
class _Answer:
    """A question that was put; its task holds the answer or the error."""

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
        # What failed is asked again soon: the cluster may be back.
        took_ms = 0 if self.task.exception() else self.answered_ms - self.asked_ms
        return now_ms - self.answered_ms < max(age_ms, min(COST_FACTOR * took_ms, LONGEST_MS))


async def reached(settings: Mapping[str, str], runtime: Runtime) -> Admin:
    """Start an admin; one whose start failed is closed, and the next question makes another."""
    return await Admin.from_config(settings, runtime=runtime).start()


class Link:
    """Holds the admin of the console, from the first question to `close`."""

    def __init__(
        self, runtime: Runtime, settings: Mapping[str, str], reach: Reach = reached
    ) -> None:
        self.runtime = runtime
        self._reach = reach
        self._settings = {**USUAL, **settings}
        self._starting: asyncio.Task[Admin] | None = None
        self._answers: dict[object, _Answer] = {}

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of some brokers, as they were given."""
        return self._settings.get("bootstrap.servers", "localhost:9092")

    async def close(self) -> None:
        """End: what is being asked fails."""
        for answer in self._answers.values():
            answer.task.cancel()
        self._answers.clear()
        starting, self._starting = self._starting, None
        if starting is not None and not starting.done():
            starting.cancel()
        elif starting is not None and starting.exception() is None:
            await starting.result().close()

    async def shared(
        self,
        age_ms: int,
        ask: Callable[Concatenate[Admin, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Give the answer of `ask(admin, *args)`, which another tab may have asked as well.

        An answer, or an error, is used until it is `age_ms` old, longer where it was dear. The
        first question reaches the cluster: BootstrapError where that takes too long.
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
        answer: T = await asyncio.shield(found.task)
        return answer

    async def ask(self, ask: Ask[T]) -> T:
        """Put a question, or change something, for one tab alone."""
        return await self._asked(ask)

    def forget(self) -> None:
        """Use no answer from before a change."""
        self._answers = {k: one for k, one in self._answers.items() if not one.task.done()}

    def consumer(self, **settings: object) -> Consumer[bytes, bytes]:
        """Make a consumer that belongs to no group; `async with` starts it."""
        return Consumer.from_config(self._common(ConsumerConfig), runtime=self.runtime, **settings)

    def producer(self) -> Producer[bytes, bytes]:
        """Make a producer for one record; `async with` starts it."""
        settings = {**ONE_RECORD, **self._common(ProducerConfig)}
        return Producer.from_config(settings, runtime=self.runtime)

    def _common(self, table: type) -> dict[str, str]:
        known = {row.key for row in settings_of(table)}
        return {key: value for key, value in self._settings.items() if key in known}

    async def _asked(self, ask: Ask[T]) -> T:
        return await ask(await self._admin())

    async def _admin(self) -> Admin:
        starting = self._starting
        if starting is None or (starting.done() and starting.exception() is not None):
            starting = asyncio.get_running_loop().create_task(
                self._reach(self._settings, self.runtime), name="reach"
            )
            self._starting = starting
        return await asyncio.shield(starting)
