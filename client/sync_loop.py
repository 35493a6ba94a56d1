"""The base of synchronous clients: runs an asyncio client on a loop in a thread of its own.

The base class opens and closes a producer, consumer or admin, and waits for its calls. Ctrl-C
interrupts a wait. A client that is used in a forked child raises ForkedClient instead of hanging,
because its thread and connections exist only in the parent.
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
"""The most seconds of one wait; a longer wait consists of several.

A signal that arrives just as a thread begins to wait does not end the wait, because the interpreter
runs signal handlers only between two instructions.
"""


def wait_for(future: Future[T], timeout_s: float | None = None) -> T:
    """Return the future's result; raise TimeoutError after `timeout_s`. Ctrl-C ends the wait."""
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


def call_on(
    loop: asyncio.AbstractEventLoop, function: Callable[[], T], timeout_s: float = CLOSE_GRACE_S
) -> T:
    """Call a plain function on an event loop, from any thread, and return its result.

    In the loop's own thread, or if the loop does not run, the function is called directly. Raises
    TimeoutError after `timeout_s`.
    """
    if not loop.is_running() or _is_here(loop):
        return function()
    future: Future[T] = Future()

    def call() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # it was closed meanwhile
        return function()
    try:
        return future.result(timeout_s)
    finally:
        future.cancel()


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class LoopThread:
    """An event loop in a daemon thread, which runs until `stop`."""

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
        """Raise ForkedClient unless this is the process that made the client."""
        if self.is_forked:
            raise ForkedClient(
                f"this client belongs to process {self._pid}: open another one after forking"
            )

    @property
    def is_current(self) -> bool:
        """True if called in the loop's own thread."""
        return threading.get_ident() == self._thread.ident

    @property
    def is_forked(self) -> bool:
        """True if called in a process other than the one that made the loop."""
        return os.getpid() != self._pid

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop, and return the future of its result.

        Raise ClientClosed if the loop has ended, or RuntimeError if called on the loop itself.
        """
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
        """Run a coroutine on the loop and wait for its result; Ctrl-C cancels the coroutine."""
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
    """The asyncio client under a synchronous one: the methods that `SyncClient` calls."""

    def start(self) -> Coroutine[Any, Any, object]:
        """Connect to the cluster."""

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the client and its connections."""

    @property
    def is_closed(self) -> bool:
        """True once `close` has ended."""

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics; they can still be read when it is closed."""


C = TypeVar("C", bound=Twin)


class SyncClient(Generic[C]):
    """A synchronous client: opens an asyncio client on a loop in a thread; `with` closes it."""

    def __init__(self, name: str, twin: C) -> None:
        """Start the thread and the asyncio client; if that fails, end the thread and raise."""
        self._twin = twin
        self._thread = LoopThread(f"minikafka-{name}")
        try:
            self._thread.run(twin.start())
        except BaseException:
            self._thread.stop()
            raise

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a client from settings under Kafka's dotted names, such as `client.id`.

        The keyword arguments are those of `__init__`.
        """
        return cls(**dict[str, Any](config), **arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """True once `close` has ended."""
        return self._twin.is_closed

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics, by the names that Kafka's clients use.

        Works as `metrics` of the asyncio client, also when the client is closed, and in callbacks.
        Raises TimeoutError if a callback keeps the loop busy for 5 s.
        """
        self._thread.check_process()
        return call_on(self._thread.loop, self._twin.metrics)

    def close(self) -> None:
        """Close the asyncio client, then end the loop and its thread."""
        with contextlib.suppress(ClientClosed):
            self._thread.run(self._twin.close())
        self._thread.stop()


def waited(
    twin: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient[Any], P], T]:
    """Make a method that runs `twin`, an asyncio client's method, on the loop and waits for it.

    The method has the parameters and the docstring of `twin`.
    """

    def method(self: SyncClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(_bound(twin, self._twin, *args, **kwargs)())

    return made_like(twin, method)


def called(
    twin: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[SyncClient[Any], P], T]:
    """Make a method that calls `twin`, a plain method of the asyncio client, on the loop.

    The method has the parameters and the docstring of `twin`.
    """

    def method(self: SyncClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(_bound(twin, self._twin, *args, **kwargs))

    return made_like(twin, method)


def _bound(function: Callable[..., T], *args: object, **kwargs: object) -> Callable[[], T]:
    """Bind the arguments; read iterators first, as reading may block, and must not on the loop."""
    read = {name: _read(one) for name, one in kwargs.items()}
    return functools.partial(function, *map(_read, args), **read)


def _read(argument: object) -> object:
    return list(argument) if isinstance(argument, Iterator) else argument
