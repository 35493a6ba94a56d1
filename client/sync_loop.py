"""A client for ordinary code is its asyncio twin on a loop in a thread of its own.

Opening, waiting, `with` and closing are here, once for producer, consumer and admin. Waits can be
interrupted by Ctrl-C. A client used in a forked child says so instead of hanging: the thread and
the connections stay with the parent. Nothing here knows the protocol.
"""

import asyncio
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

from .errors import ClientClosed, ForkedClient
from .methods import made_like

P = ParamSpec("P")
T = TypeVar("T")
CLOSE_GRACE_S: Final = 5.0
LOOK_UP_S: Final = 0.5
"""The longest piece of a wait, in seconds.

A signal that arrives just as a thread begins to wait does not end the wait: the interpreter runs
its handler between two instructions only."""


def wait_for(future: Future[T], timeout_s: float | None = None) -> T:
    """Return the future's result within `timeout_s`, else TimeoutError; Ctrl-C always ends it."""
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
        if self.is_forked:
            raise ForkedClient(
                f"this client belongs to process {self._pid}: open another one after forking"
            )

    @property
    def is_current(self) -> bool:
        """True in the loop's own thread."""
        return threading.get_ident() == self._thread.ident

    @property
    def is_forked(self) -> bool:
        """True in another process than the one that made the loop."""
        return os.getpid() != self._pid

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; the future has its result."""
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
        return asyncio.run_coroutine_threadsafe(coro, self.loop)

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it here; an interrupt here cancels it there."""
        future = self.submit(coro)
        try:
            return wait_for(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Run a plain function on the loop and wait for its result."""

        async def once() -> T:
            return function()

        return self.run(once())

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSE_GRACE_S)


class Twin(Protocol):
    """The asyncio client behind a synchronous one, as its thread starts and closes it."""

    def start(self) -> Coroutine[Any, Any, object]:
        """Connect to the cluster."""

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the client and its connections."""


C = TypeVar("C", bound=Twin)


class SyncClient(Generic[C]):
    """An asyncio client, opened when made, on a loop in a thread; `with` closes it."""

    def __init__(self, name: str, twin: C) -> None:
        """Reach the cluster, or raise what `twin.start` raises and leave no thread behind."""
        self._twin = twin
        self._thread = LoopThread(f"minikafka-{name}")
        try:
            self._thread.run(twin.start())
        except BaseException:
            self._thread.stop()
            raise

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a client from a mapping with Kafka's dotted keys, and arguments as when made."""
        return cls(**dict[str, Any](config), **arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the asyncio client, then end the loop and its thread."""
        with contextlib.suppress(ClientClosed):
            self._thread.run(self._twin.close())
        self._thread.stop()


def waited(
    twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient[Any], P], T]:
    """Make a method that waits for `twin`, with its parameters and its docstring."""

    def method(self: SyncClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(_bound(twin, self._twin, *args, **kwargs)())

    return made_like(twin, method)


def called(
    twin: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[SyncClient[Any], P], T]:
    """Make a method that calls `twin` on the loop, with its parameters and its docstring."""

    def method(self: SyncClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(_bound(twin, self._twin, *args, **kwargs))

    return made_like(twin, method)


def _bound(function: Callable[..., T], *args: object, **kwargs: object) -> Callable[[], T]:
    """Bind arguments; a generator of the caller's is run here: on the loop it could not wait."""
    read = {name: _read(one) for name, one in kwargs.items()}
    return functools.partial(function, *map(_read, args), **read)


def _read(argument: object) -> object:
    return list(argument) if isinstance(argument, Iterator) else argument
