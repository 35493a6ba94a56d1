"""The life of one task: started, paused, stopped, failed, abandoned; told to a StatusListener.

What sources and sinks have in common; `Work` is what differs. A runner ends by itself when its task
has failed. Never here: restarts, records.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from ..client.errors import ProducerFenced
from ..protocol.errors import ErrorCode
from ..runtime.runtime import Runtime
from .clients import Clients
from .common_config import SINK_CONFIG, SOURCE_CONFIG
from .config_def import BadConfig
from .hosts import Host, LoopHost, Make, ProcessHost, ThreadHost, trace_of
from .offset_store import OffsetStore
from .states import State, Status, StatusListener, TargetState, TaskId
from .step import StepSpec, system_ms
from .worker_config import WorkerConfig

log = logging.getLogger(__name__)

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
STOP_TASK_MS: Final = 5_000
"""How long the stop of a task that has failed may take; then its thread is left behind."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task to run: its configurations, and on whose behalf."""

    id: TaskId
    task: type[Any]
    is_source: bool
    is_async: bool
    is_columnar: bool
    """True for a sink that is given whole batches as columns."""
    connector_props: Mapping[str, str]
    task_props: Mapping[str, str]
    generation: int
    clients: Clients
    given: tuple[Mapping[str, str], Mapping[str, str]]
    """The configurations of connector and task with their references to config providers."""

    @property
    def settings(self) -> dict[str, Any]:
        """The parsed keys that every source or sink has."""
        return (SOURCE_CONFIG if self.is_source else SINK_CONFIG).parse(self.connector_props)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The worker, as its tasks share it."""

    runtime: Runtime
    config: WorkerConfig
    worker_id: str
    listener: StatusListener
    hide: Callable[[str], str]
    """Removes secrets from a text."""
    store: OffsetStore
    on_failed: Callable[["TaskRunner"], str]
    """Hears of a task that has failed; returns a line about what follows, for its status."""


class Work(Protocol):
    """The part of a task's life that sources and sinks do differently."""

    async def open(self) -> None:
        """Open clients and start the task."""

    async def run(self) -> None:
        """Move records until the task is to stop; raise what fails it."""

    async def finish(self) -> None:
        """Commit what may be committed, after the last record or the failure."""

    async def close(self, timeout_ms: int) -> None:
        """Close the clients within the time."""

    async def answer(self, method: str, *args: Any) -> Any:
        """Answer what the step asks."""


class TaskRunner:
    """Runs one task until it is stopped, fails or is abandoned."""

    def __init__(
        self,
        assignment: Assignment,
        around: Surroundings,
        target: TargetState,
        make_work: "Callable[[TaskRunner], Work]",
    ) -> None:
        self.assignment = assignment
        self.id = assignment.id
        self.around = around
        self.is_stopping = False
        self.is_abandoned = False
        self._is_closing = False
        self.failure: Exception | None = None
        self.settings: dict[str, Any] = {}
        self.target = target
        self._state: State | None = None
        self.changed = asyncio.Event()
        """Set whenever the work should look up: a stop, another target, a failure."""
        self._background: list[asyncio.Task[Any]] = []
        self.host: Host | None = None
        """Runs the step, once it was started."""
        self._topics: dict[str, None] = {}
        self.running_since_ms = around.runtime.monotonic_ms()
        self.work = make_work(self)
        self.main: asyncio.Task[None] = around.runtime.spawn(self._run(), f"task {self.id}")

    # -- what the worker does

    def set_target(self, target: TargetState) -> None:
        """Pause or resume; the state follows once the task has come to it."""
        self.target = target
        self.changed.set()

    def ask_to_stop(self) -> None:
        """Begin to stop; `main` ends when it is done."""
        self.is_stopping = True
        if self.host is not None:
            self.host.stop.set()
        self.changed.set()

    async def abandon(self) -> None:
        """End it at once: what its task still does is ignored, and nothing more is committed."""
        self.is_abandoned = True
        log.error("task %s did not stop in time and is abandoned", self.id)
        if self.host is not None:
            self.host.abandon()
        if not self._is_closing:
            self.main.cancel()
        await asyncio.wait([self.main], timeout=STOP_TASK_MS / 1000)

    # -- life

    async def _run(self) -> None:
        try:
            await self._live()
        except Exception as error:
            self.failure = self.failure or error
        if self.is_abandoned:
            return
        if self.failure is None:
            self.tell(State.UNASSIGNED)
            return
        trace = self.around.hide(trace_of(self.failure))
        log.error("task %s failed\n%s", self.id, trace)
        self.tell(State.FAILED, trace + self.around.on_failed(self))

    async def _live(self) -> None:
        try:
            self.settings = self.assignment.settings
            await self.until_resumed()
            if not self.is_stopping:
                await self.work.open()
                self.running_since_ms = self.around.runtime.monotonic_ms()
                self.tell(State.RUNNING)
                await self.work.run()
        except Exception as error:
            self.failure = error
        finally:
            await self._end()

    async def _end(self) -> None:
        if self.host is not None:
            self.host.stop.set()
        try:
            if not self.is_abandoned:
                await self._finish()
        finally:
            for task in self._background:
                task.cancel()
            await self._stop_step()
            # From here on nothing cancels it: a client that is closed by half keeps its sockets.
            self._is_closing = True
            await self.work.close(0 if self.is_abandoned else STOP_TASK_MS)

    def _limit_s(self, limit_ms: int) -> float | None:
        # While the worker stops its tasks, it is the worker that ends the wait.
        return None if self.is_stopping else limit_ms / 1000

    async def _finish(self) -> None:
        flush_ms = self.around.config.offset_flush_timeout_ms
        try:
            async with asyncio.timeout(self._limit_s(flush_ms + STOP_TASK_MS)):
                await self.work.finish()
        except TimeoutError:
            log.error("task %s does not come back: what it did last is not committed", self.id)

    async def _stop_step(self) -> None:
        if self.host is None or self.is_abandoned:
            return
        try:
            async with asyncio.timeout(self._limit_s(STOP_TASK_MS)):
                await self.host.call("stop")
        except TimeoutError:
            log.warning("task %s does not stop; its thread is left behind", self.id)
        except Exception as error:
            log.warning("task %s: stop failed", self.id, exc_info=error)
        self.host.leave()

    def tell(self, state: State, trace: str | None = None) -> None:
        """Tell the listener a state, unless it is the one that was told last."""
        if state is self._state:
            return
        self._state = state
        around = self.around
        status = Status(state, around.worker_id, self.assignment.generation, trace)
        around.listener.on_task(self.id, status)

    # -- what the work uses

    def start_host(self, make: Callable[..., Any], *args: Any) -> Host:
        """Choose where the step runs, and return the host, with the step not yet made."""
        assignment, around = self.assignment, self.around
        spec = StepSpec(
            assignment.task,
            self.id,
            assignment.connector_props,
            assignment.task_props,
            around.config.props,
            around.config.plugin_path,
            assignment.is_async,
            around.runtime.wall_ms if assignment.is_async else system_ms,
        )
        in_process = self.settings["tasks.isolation"] == "process"
        if in_process and assignment.is_async:
            raise BadConfig("tasks.isolation=process is for sync tasks; this one is async")
        kind = LoopHost if assignment.is_async else ProcessHost if in_process else ThreadHost
        made: Make = partial(make, spec, *args)
        self.host = kind(around.runtime, f"connect-{self.id}", made, self.work.answer)
        return self.host

    def act_every(self, interval_ms: int, act: Callable[[], Awaitable[None]]) -> None:
        """Act after each interval, until the task ends; what it raises fails the task."""
        self._background.append(asyncio.ensure_future(self._every(interval_ms, act)))

    async def _every(self, interval_ms: int, act: Callable[[], Awaitable[None]]) -> None:
        try:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                await act()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Fail the task from outside of its main loop."""
        self.failure = self.failure or error
        self.changed.set()

    def check(self) -> None:
        """Raise what has failed the task from outside of its main loop."""
        if self.failure is not None:
            raise self.failure

    @property
    def is_paused(self) -> bool:
        """True if the task should rest."""
        return self.target is not TargetState.STARTED

    def rests(self) -> bool:
        """True if the task is paused, and not about to stop."""
        return self.is_paused and not self.is_stopping

    async def until_resumed(self) -> None:
        """Wait while the target is not STARTED; tell PAUSED, and RUNNING after it if it ran."""
        if not self.rests():
            return
        was = self._state
        self.tell(State.PAUSED)
        while self.rests():
            self.changed.clear()
            await self.changed.wait()
            self.check()
        if was is not None and not self.is_stopping:
            self.tell(State.RUNNING)

    async def pause_ms(self, after_ms: float) -> None:
        """Wait so long, or until the task is to stop, to pause or to fail."""
        try:
            async with asyncio.timeout(after_ms / 1000):
                while not (self.is_stopping or self.is_paused or self.failure):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass

    def use_topic(self, topic: str) -> None:
        """Tell the listener of a topic, the first time."""
        if topic not in self._topics:
            self._topics[topic] = None
            if self.around.config.topic_tracking_enable:
                self.around.listener.on_topic(self.id, topic)


def is_final(error: Any) -> bool:
    """True if starting the task again cannot help: a newer producer has taken its place."""
    while error is not None:
        if isinstance(error, ProducerFenced) or getattr(error, "code", None) in _FENCED:
            return True
        # An error of a client names the one that it comes from.
        inner = getattr(error, "error", None) or getattr(error, "cause", None)
        error = inner if isinstance(inner, Exception) else error.__cause__
    return False
