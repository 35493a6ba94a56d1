"""The interface to the outside: clocks, randomness, files, tasks, loggers, workers.

Product code is given a `Runtime` and otherwise uses plain asyncio on its event loop. In production
that is `SystemRuntime`; in the simulation time, disk and scheduling come from a seed.
"""

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import BrokenExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .descriptors import descriptor_limit
from .errors import WorkerLost
from .fs import FileSystem, OsFileSystem
from .log_levels import LogLevels

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

T = TypeVar("T")
OnCrash = Callable[[str, BaseException], None]

log = logging.getLogger(__name__)

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Runtime(Protocol):
    """The interface between product code and the outside world."""

    name: str
    """The name of the process in logs: broker-1, controller-100, client."""
    rng: random.Random
    """The source of every random choice and of every new id."""

    @property
    def fs(self) -> FileSystem:
        """The files and directories of this process."""

    @property
    def log_levels(self) -> LogLevels:
        """The loggers of this process, whose levels an operator may change."""

    def monotonic_ms(self) -> int:
        """Return milliseconds on a clock that never jumps back; only differences mean anything.

        The clock continues while the machine is suspended, if the system has such a clock, because
        a lease must not last longer when its holder sleeps.
        """

    def monotonic_us(self) -> int:
        """Return microseconds on the clock of `monotonic_ms`: for durations, not for deadlines."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch: for timestamps and retention, never deadlines."""

    def descriptor_limit(self) -> int:
        """Return how many files and connections the process may have open."""

    def spawn(self, coro: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Start a supervised task: an exception that leaves it is logged and reported."""

    async def offload(self, job: Callable[..., T], *args: Any) -> T:
        """Run a module-level function in a worker process, and return its result.

        The event loop is not blocked. Raise WorkerLost if the worker ends twice during the job, or
        has too little memory.
        """


class SystemRuntime:
    """The machine's own clocks, files and processes."""

    def __init__(self, name: str = "client", *, on_crash: OnCrash | None = None) -> None:
        self.name = name
        self.rng: random.Random = random.SystemRandom()
        self.fs: OsFileSystem = OsFileSystem()
        self.log_levels = LogLevels(logging.root.manager)
        self._on_crash = on_crash
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._workers: ProcessPoolExecutor | None = None

    def monotonic_ms(self) -> int:
        """Return milliseconds on a clock that continues while the machine is suspended."""
        return time.clock_gettime_ns(_CLOCK) // 1_000_000

    def monotonic_us(self) -> int:
        """Return microseconds on the clock of `monotonic_ms`."""
        return time.clock_gettime_ns(_CLOCK) // 1_000

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def descriptor_limit(self) -> int:
        """Return how many files and connections the process may have open."""
        return descriptor_limit()

    def spawn(self, coro: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Start a supervised task, and keep a reference to it until it ends."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("task %s failed: %r", task.get_name(), error, exc_info=error)
        if self._on_crash is not None:
            self._on_crash(task.get_name(), error)

    async def offload(self, job: Callable[..., T], *args: Any) -> T:
        """Run `job` in the worker process, which is started at first use.

        The job is tried once more if the worker ends during it. Raise WorkerLost if the worker ends
        again, or if it has too little memory: a job from a client must not end the daemon.
        """
        for _ in range(2):
            workers = self._workers = self._workers or _start_workers()
            try:
                return await asyncio.get_running_loop().run_in_executor(workers, job, *args)
            except MemoryError:
                raise WorkerLost("the worker process has too little memory for the job") from None
            except BrokenExecutor:
                log.warning("the worker process ended; another one is started at the next job")
            if self._workers is workers:
                self._workers = None
                workers.shutdown(wait=False)
        raise WorkerLost("the worker process ended twice under the same job")

    def close(self) -> None:
        """End threads and worker processes. The event loop must not use them any more."""
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)
            self._workers = None
        self.fs.close()


def _start_workers() -> "ProcessPoolExecutor":
    # Imported here: most processes never need a worker, and start-up time counts.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A new interpreter, not a fork, because a fork would hold our sockets, locks and descriptors.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_the_parent)


def _end_with_the_parent() -> None:
    """End the worker when its daemon ends, so that a killed daemon leaves no process behind."""
    import multiprocessing

    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
