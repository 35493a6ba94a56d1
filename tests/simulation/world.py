"""A simulated world made from one seed: event loop, network, disks, processes and their trace.

It starts, kills and pauses processes, cuts their power, and collects violations. It knows nothing
of Kafka.
"""

import asyncio
import gc
import logging
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from minikafka.runtime.log_levels import LogLevels

from .disk import Disk, SimFileSystem
from .loop import START_TIME, Process, ProcessState, SimLoop, current_process
from .network import Host, Network
from .trace import Trace

T = TypeVar("T")
WALL_START_MS = 1_780_000_000_000
LOGS_KEPT = 400


class Violation(AssertionError):
    """An invariant was violated, so the run ends."""


class SimRuntime:
    """The runtime.Runtime of one simulated process."""

    def __init__(self, world: "World", process: Process) -> None:
        self.name = process.name
        self.process = process
        self.rng = world.rng(f"process/{process.name}/{world.starts}")
        self.fs = SimFileSystem(process.host.disk, process)
        # Loggers of its own: what one simulated process is told must not silence the others.
        self.log_levels = LogLevels(logging.Manager(logging.RootLogger(logging.INFO)))
        self._world = world
        self._loop = world.loop
        self._disk_rng = process.host.disk.rng
        self._start = self.rng.uniform(1, 1e6)

    def monotonic_ms(self) -> int:
        seconds = (self._loop._now - START_TIME) * self.process.host.clock_rate
        return int((seconds + self._start) * 1000)

    def monotonic_us(self) -> int:
        seconds = (self._loop._now - START_TIME) * self.process.host.clock_rate
        return int((seconds + self._start) * 1_000_000)

    def wall_ms(self) -> int:
        skew: int = self.process.host.wall_skew_ms
        return WALL_START_MS + skew + int((self._loop.time() - START_TIME) * 1000)

    def descriptor_limit(self) -> int:
        return 1 << 20

    def spawn(self, coro: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        task = self._loop.create_task(coro, name=name)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.crashed(self.process, task.get_name(), error)

    async def offload(self, job: Callable[..., T], *args: Any) -> T:
        await asyncio.sleep(0.0005 + 0.005 * self._disk_rng.random())
        return job(*args)

    def close(self) -> None:
        """Do nothing: only SystemRuntime has threads to end."""


def dice(seed: int, concern: str) -> random.Random:
    """Return the random generator of one concern, independent of how much others draw."""
    return random.Random(f"{seed}/{concern}")


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.trace = Trace(self.loop.time)
        self.network = Network(self.loop, self.rng("network"), self.trace)
        self.processes: dict[str, Process] = {}
        self.exits: dict[str, object] = {}
        self.ended_by: dict[str, BaseException] = {}
        """The errors of processes that were allowed to fail, by name."""
        self.violations: list[str] = []
        self.logs: list[tuple[float, str, logging.LogRecord]] = []
        self.starts = 0
        self.on_log: Callable[[object], None] = lambda message: None
        """Called with the format string of each message that is logged."""
        self.on_exit: Callable[[Process], None] = lambda process: None
        self.may_crash: Callable[[Process, BaseException], bool] = lambda process, error: False
        self.loop.set_exception_handler(self._on_loop_exception)

    def rng(self, concern: str) -> random.Random:
        return dice(self.seed, concern)

    def now(self) -> float:
        return self.loop.time() - START_TIME

    # -- machines and processes -------------------------------------------------------------

    def add_host(self, name: str) -> Host:
        host = self.network.add_host(name)
        host.disk = Disk(self.loop, self.rng(f"disk/{name}"), self.trace)
        host.disk.on_kill = self.kill
        host.disk.on_believed = self._on_believed
        return host

    def start(
        self, host: Host, name: str, main: Callable[[SimRuntime], Coroutine[Any, Any, object]]
    ) -> Process:
        old = self.processes.get(name)
        if old is not None and old.alive:
            raise ValueError(f"{name} is running")
        process = Process(name, host)
        self.processes[name] = process
        self.starts += 1
        runtime = SimRuntime(self, process)
        self.trace.emit(name, "start")
        task = self.loop.spawn_in(process, main(runtime), f"{name}/main")
        task.add_done_callback(lambda done: self._on_main_done(process, done))
        return process

    def _on_main_done(self, process: Process, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            self.trace.emit(process.name, "exit", "cancelled")
        elif (error := task.exception()) is not None:
            self.crashed(process, "main", error)
            return
        else:
            self.exits[process.name] = task.result()
            self.trace.emit(process.name, "exit", task.result())
        self._end(process)
        self.on_exit(process)

    def _end(self, process: Process) -> None:
        self.loop.kill(process)
        for release in list(process.resources.values()):
            release()
        process.resources.clear()

    def kill(self, process: Process) -> None:
        """Kill a process as SIGKILL does: its sockets close, its files keep what was written."""
        if process.alive:
            self.trace.emit(process.name, "kill")
            self._end(process)

    def pause(self, process: Process) -> None:
        if process.state is ProcessState.RUNNING:
            self.trace.emit(process.name, "pause")
            self.loop.pause(process)

    def resume(self, process: Process) -> None:
        if process.state is ProcessState.PAUSED:
            self.trace.emit(process.name, "resume")
            self.loop.resume(process)

    def power_off(self, host: Host) -> None:
        """Cut the host's power: all its processes end at once, and its peers are not notified."""
        self.trace.emit(host.name, "power-off")
        self.network.power_off(host)
        for process in list(self.processes.values()):
            if process.host is host and process.alive:
                self._end(process)
        host.disk.lose_power()

    def power_on(self, host: Host) -> None:
        self.trace.emit(host.name, "power-on")
        self.network.power_on(host)

    def _on_believed(self, process: str, path: str) -> None:
        self.violation(f"{process} believes a sync of {path} after one that failed")

    # -- what must never be -----------------------------------------------------------------

    def violation(self, text: str) -> None:
        self.violations.append(text)
        self.trace.emit("checker", "VIOLATION", text)
        self.loop.stop()

    def crashed(self, process: Process, task: str, error: BaseException) -> None:
        if not process.alive:
            return
        if self.may_crash(process, error):
            self.trace.emit(process.name, "crash", type(error).__name__)
            self.ended_by[process.name] = error
            self._end(process)
            self.on_exit(process)
        else:
            self.violation(f"{process.name}: task {task} failed: {describe(error)}")

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        culprit = context.get("task") or context.get("future")
        process = getattr(culprit, "process", self.loop.running)
        error = context.get("exception")
        if process is not None and not process.alive:
            return
        if isinstance(error, Violation):
            self.violation(str(error))
        elif culprit is None or isinstance(culprit, asyncio.Task):
            name = process.name if process is not None else "world"
            what = describe(error) if error is not None else context.get("message")
            self.violation(f"{name}: {context.get('message', '')[:60]}: {what}")

    # -- running ----------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], *, limit: float = 600.0) -> T:
        """Run until `main` ends or there is a violation, such as running for `limit` seconds."""
        loop = self.loop
        collector = gc.isenabled()
        gc.disable()
        gc.freeze()  # What was there before is not searched for what the run leaves behind.
        watch = LogWatch(self)
        try:
            with watch:
                task = loop.create_task(main)
                task.add_done_callback(lambda done: loop.stop())
                loop.call_later(limit, self.violation, f"not finished after {limit} s")
                loop.run_forever()
            if self.violations:
                if task.done() and not task.cancelled():
                    task.exception()
                raise Violation(self.violations[0])
            return task.result()
        finally:
            self._bury()
            gc.unfreeze()
            if collector:
                gc.enable()

    def _bury(self) -> None:
        # Coroutines of the dead are closed here, outside of every loop: whatever they say about
        # it says nothing about the product.
        hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        logging.disable(logging.CRITICAL)
        try:
            for process in self.processes.values():
                self.loop.kill(process)
            self.loop.bury()
            self.processes.clear()
            self.loop.close()
            gc.collect()
        finally:
            logging.disable(logging.NOTSET)
            sys.unraisablehook = hook


class LogWatch(logging.Handler):
    """Keeps the newest log records of all processes, with simulated times, for the report."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process = self._world.loop.running
        self._world.on_log(record.msg)
        logs = self._world.logs
        logs.append((self._world.now(), process.name if process else "-", record))
        if len(logs) > 2 * LOGS_KEPT:
            del logs[:LOGS_KEPT]

    def __enter__(self) -> "LogWatch":
        root = logging.getLogger()
        self._before = (root.level, list(root.handlers), logging.raiseExceptions)
        root.handlers[:] = [self]
        root.setLevel(logging.INFO)
        return self

    def __exit__(self, *exc: object) -> None:
        root = logging.getLogger()
        root.level, root.handlers[:] = self._before[0], self._before[1]


def describe(error: BaseException) -> str:
    """Return an error's type, message and place of origin, without memory addresses."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f" at {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return f"{type(error).__name__}({error}){place}"


__all__ = ["SimRuntime", "Violation", "World", "current_process", "describe"]
