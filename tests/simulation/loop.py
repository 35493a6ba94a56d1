"""An asyncio event loop with virtual time, which runs one callback at a time, reproducibly.

It decides the order in which handles run, and knows the simulated process of each. A handle of a
dead process never runs (not even its `finally`), and a handle of a paused one waits. It never
touches a real clock, socket, signal or thread; calls that would do so are refused.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from typing import Any, NoReturn, TypeVarTuple, cast

from .handles import SimHandle, SimTimer

Arguments = TypeVarTuple("Arguments")

CLOCK_RESOLUTION = 1e-6
"""The loop's clock resolution: adding less to a time of thousands of seconds may be lost in
rounding."""
START_TIME = 1000.0
STEPS_WITHOUT_TIME = 200_000


class SimulationError(Exception):
    """The simulated program asked for something that the simulation cannot allow."""


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One simulated operating system process, all of whose tasks die together."""

    def __init__(self, name: str, host: Any) -> None:
        self.name = name
        self.host = host
        self.state = ProcessState.RUNNING
        self.deferred: deque[asyncio.Handle] = deque()
        self.resources: dict[int, Callable[[], None]] = {}
        """The resources that the kernel releases when the process ends, in order of acquisition."""
        self.die_at_disk_operation: int | None = None
        self.partitions: Any = None
        self.broker: Any = None
        self.controller: Any = None
        self.authorizing: Any = None
        self.quorum: Any = None
        self.votes: list[Any] = []
        self.grants: list[Any] = []
        """The votes that the process has given; see inside.py."""
        self.admitted: list[Any] = []
        """The sealed datagrams that have counted with the process; see inside.py."""
        self.touched: dict[Any, None] = {}
        """The replicas, and parts of them, that the process's steps have changed; see inside.py."""
        self.compaction_count = 0
        self.rewritten: dict[Any, None] = {}
        """The logs of which the process has rewritten a segment; see inside.py."""
        self.folded: list[Any] = []
        """The batches of source partitions that the process has folded; see inside.py."""
        self.sent: list[Any] = []
        """The plans that the process has sent to their targets; see inside.py."""
        self.check: Callable[[], Iterable[str]] | None = None
        """Checks the invariants of this process, after each of its steps."""
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)
        self._resource_ids = itertools.count()

    @property
    def alive(self) -> bool:
        return self.state is not ProcessState.DEAD

    def acquire(self, release: Callable[[], None]) -> int:
        key = next(self._resource_ids)
        self.resources[key] = release
        return key

    def release(self, key: int) -> None:
        self.resources.pop(key, None)


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process:
    process = PROCESS.get()
    if process is None:
        raise SimulationError("this must run inside a simulated process")
    return process


def _refused(why: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise SimulationError(why)

    return refuse


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its serial number: a set of tasks iterates the same in every run."""

    __slots__ = ("process", "serial")
    serial: int
    process: Process | None

    def __hash__(self) -> int:
        return self.serial


class SimLoop(asyncio.BaseEventLoop):
    """The event loop. Equal deadlines fire in the order in which they were set."""

    _ready: deque[asyncio.Handle]
    _closed: bool
    _stopping: bool
    _check_closed: Callable[[], None]

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = CLOCK_RESOLUTION
        self._now = START_TIME
        self._timers: list[tuple[float, int, SimTimer]] = []
        self._timer_ids = itertools.count()
        self._cancelled_timers = 0
        self._task_serials = itertools.count(1)
        self._idle_steps = 0
        self._graveyard: list[Any] = []
        self.kernel = contextvars.Context()
        """The process of events in networks and disks, which no simulated program owns."""
        self.network: Any = None
        self.after_step: Callable[[Process], None] | None = None
        self.steps = 0
        self.running: Process | None = None
        self.set_task_factory(cast(Any, self._make_task))

    # -- time and order ---------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._check_closed()
        timer = SimTimer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_ids), timer))
        return timer

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            self._check_closed()
        handle = SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 200 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Run all handles that are due, moment after moment, until the loop is stopped."""
        ready = self._ready
        while not self._stopping:
            if not ready:
                self._advance()
            self._collect_due_timers(ready)
            self._idle_steps += len(ready)
            if self._idle_steps > STEPS_WITHOUT_TIME:
                raise SimulationError(f"livelock: {self._idle_steps} steps at {self._now}")
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    self._step(handle)

    def _step(self, handle: Any) -> None:
        """Run a handle, if its process lives and is not paused; then check the invariants."""
        context = handle._context
        process = context.get(PROCESS)
        self.running = process
        if process is not None:
            if process.state is not ProcessState.RUNNING:
                if process.state is ProcessState.PAUSED:
                    process.deferred.append(handle)
                return
            self.steps += 1
        try:
            context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            callback = handle._callback
            told = f"Exception in callback {getattr(callback, '__qualname__', type(callback))}"
            self.call_exception_handler({"message": told, "exception": error, "handle": handle})
        if process is not None and self.after_step is not None and process.alive:
            self.after_step(process)

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise SimulationError("nothing is left to happen, and the run has not ended")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._idle_steps = 0

    def _collect_due_timers(self, ready: deque[asyncio.Handle]) -> None:
        timers = self._timers
        due = self._now + CLOCK_RESOLUTION
        while timers and timers[0][0] <= due:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer.cancelled():
                self._cancelled_timers -= 1
            else:
                ready.append(timer)

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> SimTask:
        task = SimTask.__new__(SimTask)
        task.serial = next(self._task_serials)
        context = options.get("context")
        task.process = PROCESS.get() if context is None else context.get(PROCESS)
        SimTask.__init__(task, coro, loop=loop, **options)
        if task.process is not None and not task.process.alive:
            # Begun by what runs on inside the system call in which its process died.
            self._graveyard.append(task)
        return task

    # -- processes --------------------------------------------------------------------------

    def spawn_in(
        self, process: Process, coro: Coroutine[Any, Any, Any], name: str
    ) -> asyncio.Task[Any]:
        context = process.context.run(contextvars.copy_context)
        return self.create_task(coro, name=name, context=context)

    def kill(self, process: Process) -> None:
        """Kill a process at its current step: none of its code ever runs again."""
        if not process.alive:
            return
        process.state = ProcessState.DEAD
        self._graveyard.extend(asyncio.all_tasks(self))
        self._graveyard.extend(process.deferred)
        process.deferred.clear()

    def pause(self, process: Process) -> None:
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.PAUSED

    def resume(self, process: Process) -> None:
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            self._ready.extend(process.deferred)
            process.deferred.clear()

    def bury(self) -> None:
        """Free, after the run, all that is left of every process, without warnings."""
        self._graveyard.extend(asyncio.all_tasks(self))
        self.set_exception_handler(lambda loop, context: None)
        for task in self._graveyard:
            if isinstance(task, asyncio.Task) and not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    cast(Any, task.get_coro()).close()
        self._graveyard.clear()
        self._timers.clear()
        self._ready.clear()

    # -- the network ------------------------------------------------------------------------

    async def create_connection(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await self.network.create_connection(protocol_factory, *args, **options)

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        return await self.network.create_server(protocol_factory, *args, **options)

    async def create_datagram_endpoint(
        self, protocol_factory: Any, *args: Any, **options: Any
    ) -> Any:
        return await self.network.create_datagram_endpoint(protocol_factory, *args, **options)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        address = self.network.resolve(current_process().host, host)
        kind = options.get("type") or socket.SOCK_STREAM
        return [(socket.AF_INET, kind, 0, "", (address, port))]

    # -- what a simulation cannot allow -----------------------------------------------------

    run_in_executor: Any = _refused("no executor: use Runtime.offload")
    add_signal_handler: Any = _refused("no signals")
    add_reader: Any = _refused("no real sockets")
    add_writer: Any = _refused("no real sockets")
    subprocess_exec: Any = _refused("no real processes")
    subprocess_shell: Any = _refused("no real processes")

    # Asynchronous generators end through here; there is no other thread.
    call_soon_threadsafe: Any = asyncio.BaseEventLoop.call_soon

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass
