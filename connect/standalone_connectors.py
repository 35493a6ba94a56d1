"""The connectors of a standalone worker: what users want of each, and the tasks that run for it.

It starts and stops them on the worker, one call after the other: its owner sees to that. It keeps
everything in memory, and checks no configuration.
"""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .answers import NOT_STOPPED, shown
from .herding import BadRequest, Conflict, Json, NotFound
from .states import State, Status, TargetState, TaskId
from .statuses import Statuses
from .validation import kind_of

if TYPE_CHECKING:
    from .plugins import Plugins
    from .worker import Worker


@dataclass(slots=True)
class Known:
    """A connector as users want it, and the tasks that were made of that."""

    config: dict[str, str]
    target: TargetState
    tasks: list[dict[str, str]] = field(default_factory=list)
    fenced: int = 0
    """How many of its tasks may have a producer that is not fenced."""


class Connectors:
    """All connectors of one worker, by name."""

    def __init__(
        self, worker: "Worker", statuses: Statuses, plugins: "Plugins", *, exactly_once: bool
    ) -> None:
        """`exactly_once` says whether sources write in transactions (KIP-618)."""
        self._worker = worker
        self.statuses = statuses
        self._plugins = plugins
        self._exactly_once = exactly_once
        self._known: dict[str, Known] = {}
        self._generation = 0

    def names(self) -> list[str]:
        """Return the names, sorted."""
        return sorted(self._known)

    def known(self, name: str) -> Known:
        """Return a connector. Raise NotFound if there is none of that name."""
        if name not in self._known:
            raise NotFound(f"Connector {name} not found")
        return self._known[name]

    def info(self, name: str) -> Json:
        """Return {name, config, tasks, type}."""
        one = self.known(name)
        return {
            "name": name,
            "config": one.config,
            "tasks": [{"connector": name, "task": task} for task in range(len(one.tasks))],
            "type": kind_of(one.config, self._plugins),
        }

    def status(
        self, name: str, restarts: bool = False, again: Mapping[TaskId, bool] | None = None
    ) -> Json:
        """Return {name, connector, tasks, type}; what restarts is shown as RESTARTING."""
        known, again = self.known(name), again or {}
        return {
            "name": name,
            "connector": shown(self.statuses.connector(name), restarts=restarts),
            "tasks": [
                {"id": task.task, **shown(status, restarts=again.get(task, False))}
                for task, status in self.statuses.tasks(name)
            ],
            "type": kind_of(known.config, self._plugins),
        }

    async def create(self, name: str, config: dict[str, str], target: TargetState) -> Json:
        """Create a connector and return its info. Raise Conflict if it exists."""
        if name in self._known:
            raise Conflict(f"Connector {name} already exists")
        self._known[name] = Known(config, target)
        await self._start(name)
        return self.info(name)

    async def put(self, name: str, config: dict[str, str]) -> tuple[bool, Json]:
        """Create or reconfigure; an equal configuration restarts only what has failed."""
        one = self._known.get(name)
        if one is None:
            return True, await self.create(name, config, TargetState.STARTED)
        is_same = one.config == config
        if is_same and not self._has_failed(name):
            return False, self.info(name)
        one.config = config
        await self._worker.stop_connector(name)
        if not is_same:
            await self._stop_tasks(name, one)
        await self._start(name)
        return False, self.info(name)

    async def delete(self, name: str) -> None:
        """Stop a connector and forget it."""
        await self._stop_tasks(name, self.known(name))
        await self._worker.stop_connector(name)
        del self._known[name]
        self.statuses.forget(name)

    async def restart(self, name: str, include_tasks: bool, only_failed: bool) -> Json:
        """Restart a connector, and its tasks if asked to; return the planned status."""
        one, status = self.known(name), self.statuses.connector(name)
        again = {
            task: include_tasks and (not only_failed or each.state is State.FAILED)
            for task, each in self.statuses.tasks(name)
        }
        with_connector = not only_failed or status.state is State.FAILED
        plan = self.status(name, with_connector, again)
        tasks = [task for task, wanted in again.items() if wanted]
        await self._worker.stop_tasks(tasks)
        if with_connector:
            await self._worker.stop_connector(name)
        for task in tasks:
            await self._start_task(task, one)
        if with_connector:
            await self._start(name)
        return plan

    async def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        one = self.known(task.connector)
        if task.task >= len(one.tasks):
            raise NotFound(f"Task {task} not found")
        await self._worker.stop_tasks([task])
        await self._start_task(task, one)

    async def set_target(self, name: str, target: TargetState) -> None:
        """Start, pause or stop a connector."""
        one = self.known(name)
        before, one.target = one.target, target
        if target is TargetState.STOPPED:
            await self._stop_tasks(name, one)
        if TargetState.STOPPED in (before, target) and before is not target:
            # A stopped connector has no instance, so that nothing of it can fail or ask.
            await self._worker.stop_connector(name)
            await self._start(name)
            return
        self._worker.set_target(name, target)
        await self.update_tasks(name)

    async def _start(self, name: str) -> None:
        """Start the connector as its target says, and the tasks that it makes."""
        one = self._known[name]
        self._generation += 1
        if not one.tasks:
            self.statuses.expect(name, self._generation)
        if one.target is TargetState.STOPPED:
            stopped = Status(State.STOPPED, self._worker.worker_id, self._generation)
            self.statuses.on_connector(name, stopped)
            return
        await self._worker.start_connector(name, one.config, one.target, self._generation)
        await self.update_tasks(name)

    async def update_tasks(self, name: str) -> None:
        """Ask the connector for its tasks; if they differ, stop the old ones and start these."""
        one = self._known.get(name)
        if one is None or one.target is not TargetState.STARTED or self._has_failed(name):
            return
        try:
            configs = await self._worker.make_task_configs(name)
        except Exception as error:  # a connector may raise anything
            trace = self._worker.around.hide("".join(traceback.format_exception(error)))
            failed = Status(State.FAILED, self._worker.worker_id, self._generation, trace)
            self.statuses.on_connector(name, failed)
            return
        if configs == one.tasks:
            return
        await self._stop_tasks(name, one)
        if self._exactly_once and kind_of(one.config, self._plugins) == "source":
            await self._worker.fence(name, one.config, max(one.fenced, len(configs)))
            one.fenced = len(configs)
        one.tasks = configs
        for task in range(len(configs)):
            await self._start_task(TaskId(name, task), one)

    async def _start_task(self, task: TaskId, one: Known) -> None:
        self._generation += 1
        await self._worker.start_task(
            task, one.config, one.tasks[task.task], one.target, self._generation
        )

    async def _stop_tasks(self, name: str, one: Known) -> None:
        if one.tasks:
            await self._worker.stop_tasks([TaskId(name, task) for task in range(len(one.tasks))])
            one.tasks = []
            self._generation += 1
            self.statuses.expect(name, self._generation)

    async def offsets(self, name: str) -> Json:
        """Return {offsets: [{partition, offset}]}."""
        return await self._worker.offsets(name, self.known(name).config)

    async def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Set offsets and return the message. Raise BadRequest unless the connector is STOPPED."""
        return await self._worker.alter_offsets(name, self._stopped(name), offsets)

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets and return the message. Raise BadRequest unless it is STOPPED."""
        return await self._worker.reset_offsets(name, self._stopped(name))

    def _has_failed(self, name: str) -> bool:
        return self.statuses.state(name) is State.FAILED

    def _stopped(self, name: str) -> dict[str, str]:
        one = self.known(name)
        if one.target is not TargetState.STOPPED:
            raise BadRequest(NOT_STOPPED.format(name=name))
        return one.config
