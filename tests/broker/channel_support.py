"""A controller channel without a controller: the test answers every call."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from minikafka.broker.config import BrokerConfig
from minikafka.broker.control.controller_channel import ControllerChannel
from minikafka.broker.control.lifecycle import Lifecycle
from minikafka.broker.replica.lease import LeaderLease
from minikafka.runtime.config import from_mapping


def config_with(**settings: object) -> BrokerConfig:
    """Return a broker's configuration with these settings, and defaults."""
    least = {"node.id": "1", "controller.quorum.bootstrap.servers": "localhost:1"}
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return from_mapping(BrokerConfig, least | named)


class FakeChannel:
    """Calls wait until the test answers them."""

    def __init__(self) -> None:
        self.broker_id = 1
        self.cluster_id: str | None = None
        self.broker_epoch = 3
        self.incarnation_id = bytes(16)
        self.lifecycle = Lifecycle(1_000)
        self.lease = LeaderLease()
        self.pokes = 0
        self._calls: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()

    def as_channel(self) -> ControllerChannel:
        return cast(ControllerChannel, self)

    async def wait_until_registered(self) -> int:
        return self.broker_epoch

    def poke(self) -> None:
        self.pokes += 1

    async def call(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((request, future))
        return await future

    async def next_call(self) -> tuple[Any, asyncio.Future[Any]]:
        return await asyncio.wait_for(self._calls.get(), 5)

    async def answer(self, answer: Any) -> Any:
        """Answer the next call, and return what it asked."""
        request, future = await self.next_call()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer(request) if callable(answer) else answer)
        return request

    @property
    def unanswered(self) -> int:
        return self._calls.qsize()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""

    async def poll() -> None:
        while not condition():  # noqa: ASYNC110 - nothing here tells that it came true
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), 10)
