"""Runs the code of connectors and tasks: on the loop, in a thread, or in a process of its own.

A host holds one object, a step, whose methods are coroutine functions. In a thread they never
suspend, because a sync task blocks; on the loop they do. A thread that does not come back can be
abandoned: its results are ignored, and it does not keep the worker from ending.
"""

import asyncio
import queue
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol, TypeVar

from ..runtime.errors import MinikafkaError
from ..runtime.runtime import Runtime

T = TypeVar("T")
Answer = Callable[..., Coroutine[Any, Any, Any]]
"""Answers on the worker's loop what a step asks: a method's name and its arguments."""
Ask = Callable[..., "Future[Any] | asyncio.Future[Any]"]
"""Asks the worker from within a step."""
Make = Callable[[Ask, "Stop"], Any]
"""Makes the step, where it will run. For a process it must be picklable."""


class Stop(Protocol):
    """Set once the step is to end: an Event of threading or of multiprocessing."""

    def is_set(self) -> bool:
        """True once it was set."""

    def set(self) -> None:
        """Set it for good."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds; return whether it is."""


class TaskFailed(MinikafkaError):
    """The code of a connector or task has failed; `trace` is its traceback."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace.strip().rpartition("\n")[2])
        self.trace = trace


class ProcessLost(MinikafkaError):
    """The process of a task has ended by itself; its standard error is the worker's."""


def trace_of(error: BaseException) -> str:
    """Return the text of an error for a status: its traceback, which names it in the last line."""
    if isinstance(error, TaskFailed):
        return error.trace
    return "".join(traceback.format_exception(error))


async def no_answer(*_: Any) -> None:
    """Answer nothing: only tasks ask."""


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a connector or task, and await what it returns if it is async."""
    found = function(*args)
    return await found if isawaitable(found) else found


class Host(Protocol):
    """Runs the methods of one step, one at a time and in order."""

    stop: Stop
    """Set it to tell the step that it is to end."""

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the step. Raise what it raises, or TaskFailed in its place."""

    def leave(self) -> None:
        """End the host once what it runs now has ended; nothing is called any more."""

    def abandon(self) -> None:
        """End the host at once, whatever it runs."""


class LoopHost:
    """Runs async steps on the worker's loop."""

    def __init__(self, runtime: Runtime, name: str, make: Make, answer: Answer) -> None:
        self.stop: Stop = threading.Event()
        self._make = make
        self._answer: Ask = lambda *args: runtime.spawn(answer(*args), name)
        self._has_asked = False
        self._step: Any = None

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the step."""
        try:
            if self._step is None:
                self._step = self._make(self._ask, self.stop)
            found = await getattr(self._step, method)(*args)
        # A task must not end the worker by sys.exit, nor look as if it had been cancelled.
        except (SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            raise TaskFailed(trace_of(error)) from error
        if self._has_asked:
            # So that all that was asked has begun when the call is over, as with a thread.
            self._has_asked = False
            await asyncio.sleep(0)
        return found

    def _ask(self, *args: Any) -> "Future[Any] | asyncio.Future[Any]":
        self._has_asked = True
        return self._answer(*args)

    def leave(self) -> None:
        """Do nothing: calls end by themselves or are cancelled."""

    abandon = leave


class ThreadHost:
    """Runs sync steps in a thread, which is started at the first call."""

    def __init__(self, runtime: Runtime, name: str, make: Make, answer: Answer) -> None:
        self.stop: Stop = threading.Event()
        self._name = name
        self._make = make
        self._answer = answer
        self._calls: queue.SimpleQueue[tuple[asyncio.Future[Any], str, tuple[Any, ...]] | None]
        self._calls = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._step: Any = None
        self._is_left = False

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of the step in its thread, after all earlier calls."""
        if self._is_left:
            raise MinikafkaError(f"{self._name} has ended, and is not called any more")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls.put((future, method, args))
        return await future

    def leave(self) -> None:
        """End the thread behind its last call."""
        self._is_left = True
        self._calls.put(None)

    abandon = leave

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, method, args = call
            if future.cancelled():
                continue
            outcome: tuple[Any, BaseException | None]
            try:
                if self._step is None:
                    self._step = self._make(self._ask, self.stop)
                outcome = run_now(getattr(self._step, method)(*args)), None
            except BaseException as error:
                outcome = None, error if _may_travel(error) else TaskFailed(trace_of(error))
            self._post(partial(_settle, future, *outcome))

    def _post(self, call: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # The worker has ended, and left this thread behind.

    def _ask(self, *args: Any) -> "Future[Any]":
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._answer(*args), self._loop)


class ProcessHost(ThreadHost):
    """Runs a sync step in a process of its own; the thread here waits for its answers."""

    def __init__(self, runtime: Runtime, name: str, make: Make, answer: Answer) -> None:
        super().__init__(runtime, name, self._remote, answer)
        self._made_there = make
        self._child: _Child | None = None

    def _remote(self, ask: Ask, stop: Stop) -> "_Child":
        self._child = _Child(self._name, self._made_there, ask)
        self.stop = self._child.stop
        if stop.is_set():
            self.stop.set()
        return self._child

    def leave(self) -> None:
        """End thread and process behind the last call."""
        self._calls.put((asyncio.Future(), "end", ()))
        super().leave()

    def abandon(self) -> None:
        """Kill the process; the thread then finds it gone."""
        if self._child is not None:
            self._child.process.kill()
        super().leave()


class _Child:
    """The other end of a process: sends calls, answers what it asks meanwhile."""

    def __init__(self, name: str, make: Make, ask: Ask) -> None:
        import multiprocessing

        # A new interpreter: a fork would hold our sockets and locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._ask = ask
        self.stop: Stop = context.Event()
        args = (there, make, self.stop)
        self.process = context.Process(target=_serve, args=args, name=name, daemon=True)
        self.process.start()
        there.close()

    def __getattr__(self, method: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return partial(self._call, method)

    async def _call(self, method: str, *args: Any) -> Any:
        try:
            self._pipe.send((method, args))
            while (message := self._pipe.recv())[0] == "ask":
                self._pipe.send(self._answered(message[1]))
        except (EOFError, OSError) as error:
            self.process.join(1)
            code = self.process.exitcode
            raise ProcessLost(
                f"the process of the task has ended with {code}; the worker's log may say why"
            ) from error
        if message[0] == "failed":
            raise TaskFailed(message[1])
        return message[1]

    def _answered(self, args: tuple[Any, ...]) -> str | None:
        """Ask the worker; return the traceback of its refusal."""
        try:
            self._ask(*args).result()
        except BaseException as error:
            return trace_of(error)
        return None

    async def end(self) -> None:
        """Let the process end."""
        self._pipe.close()


def _serve(pipe: Any, make: Make, stop: Stop) -> None:
    """Answer calls until the worker closes the pipe; in the process of a task."""

    def ask(*args: Any) -> "Future[Any]":
        answer: Future[Any] = Future()
        pipe.send(("ask", args))
        refusal = pipe.recv()
        if refusal is None:
            answer.set_result(None)
        else:
            answer.set_exception(TaskFailed(refusal))
        return answer

    step: Any = None
    while True:
        try:
            method, args = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            step = make(ask, stop) if step is None else step
            pipe.send(("done", run_now(getattr(step, method)(*args))))
        except BaseException as error:
            pipe.send(("failed", trace_of(error)))


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise MinikafkaError("a sync task has awaited something: only async tasks may")


def _is_cancelled() -> bool:
    """True if it is the worker that has cancelled what runs now."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _may_travel(error: BaseException) -> bool:
    # A future takes no StopIteration, and whoever awaits it must not end by the others.
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class Reported(Awaitable[None]):
    """The outcome of a reported record: await it, or call `result` in a thread."""

    def __init__(self, future: "Future[Any] | asyncio.Future[Any]") -> None:
        self._future = future

    def __await__(self) -> Any:
        future = self._future
        return (asyncio.wrap_future(future) if isinstance(future, Future) else future).__await__()

    def result(self, timeout_s: float = 60.0) -> None:
        """Wait until the record is among the dead letters; for sync tasks."""
        if isinstance(self._future, Future):
            self._future.result(timeout_s)
