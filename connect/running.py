"""Starts and stops connectors and tasks on a worker, per item one after the other.

Different items do not wait for each other, so that a slow start delays no stop. A start that is
still under way when its item must stop is cancelled first. It decides nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from ..runtime.runtime import Runtime
from .config_log import Props
from .group_protocol import CONNECTOR
from .states import TargetState, TaskId

log = logging.getLogger(__name__)


class Runs(Protocol):
    """The part of a worker that runs connectors and tasks (`worker.Worker`)."""

    worker_id: str

    async def start_connector(
        self, name: str, props: Props, target: TargetState, generation: int
    ) -> None:
        """Start a connector; a failure becomes its status."""

    async def stop_connector(self, name: str) -> None:
        """Stop a connector."""

    async def make_task_configs(self, name: str) -> list[dict[str, str]]:
        """Ask a running connector for the configuration of each task."""

    async def start_task(
        self,
        task: TaskId,
        connector_props: Props,
        task_props: Props,
        target: TargetState,
        generation: int,
    ) -> None:
        """Start a task; a failure becomes its status."""

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        """Stop tasks, all at once; those that do not end in time are abandoned."""

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause or resume what runs of a connector."""

    async def offsets(self, name: str, props: Props) -> dict[str, Any]:
        """Return {offsets: [{partition, offset}]}."""

    async def alter_offsets(
        self, name: str, props: Props, offsets: Sequence[dict[str, Any]]
    ) -> str:
        """Set offsets; return the message."""

    async def reset_offsets(self, name: str, props: Props) -> str:
        """Remove all offsets; return the message."""

    async def fence(self, name: str, props: Props, count: int) -> None:
        """Fence the producers of the tasks 0 to count - 1."""


class Running:
    """Carries out starts and stops on one worker."""

    def __init__(self, runtime: Runtime, worker: Runs) -> None:
        self._runtime = runtime
        self._worker = worker
        self._starts: dict[TaskId, asyncio.Task[None]] = {}
        self._stops: dict[TaskId, asyncio.Task[None]] = {}

    @property
    def is_stopping(self) -> bool:
        """True while something is being stopped."""
        return bool(self._stops)

    def start(self, item: TaskId, start: Callable[[], Awaitable[None]]) -> None:
        """Start an item once it has stopped."""
        task = self._runtime.spawn(self._start(item, start), f"start of {item}")
        self._starts[item] = task
        task.add_done_callback(lambda done: self._forget(self._starts, item, done))

    def stop(self, items: Sequence[TaskId]) -> None:
        """Stop items, all at once; `stopped` waits for that."""
        starting = [self._starts.pop(item) for item in items if item in self._starts]
        before = [self._stops[item] for item in items if item in self._stops]
        task = self._runtime.spawn(self._stop(items, starting, before), f"stop of {len(items)}")
        for item in items:
            self._stops[item] = task
        task.add_done_callback(lambda done: [self._forget(self._stops, i, done) for i in items])

    async def stopped(self) -> None:
        """Wait until all stops so far are done; each has a deadline of its own."""
        if stops := list(self._stops.values()):
            await asyncio.wait(stops)

    async def started(self) -> None:
        """Wait until all starts so far are done."""
        if starts := list(self._starts.values()):
            await asyncio.wait(starts)

    async def _start(self, item: TaskId, start: Callable[[], Awaitable[None]]) -> None:
        if (stop := self._stops.get(item)) is not None:
            await asyncio.wait([stop])
        await start()

    async def _stop(
        self,
        items: Sequence[TaskId],
        starting: Sequence["asyncio.Task[None]"],
        before: Sequence["asyncio.Task[None]"],
    ) -> None:
        for start in starting:
            start.cancel()
        if waits := [*starting, *before]:
            await asyncio.wait(waits)
        tasks = [item for item in items if item.task != CONNECTOR]
        calls: list[Coroutine[Any, Any, None]] = []
        if tasks:
            calls.append(self._worker.stop_tasks(tasks))
        names = [item.connector for item in items if item.task == CONNECTOR]
        calls += [self._worker.stop_connector(name) for name in names]
        await asyncio.gather(*calls)

    @staticmethod
    def _forget(
        tasks: dict[TaskId, "asyncio.Task[None]"], item: TaskId, done: "asyncio.Task[None]"
    ) -> None:
        if tasks.get(item) is done:
            del tasks[item]
