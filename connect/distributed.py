"""The herder of a worker in a cluster: answers requests, and has the leader write what changes.

Every worker answers questions from what it has read. Changes are the leader's: another worker
raises NotLeader with its address, and the REST API sends the request there, once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ..runtime.runtime import Runtime
from .answers import NOT_STOPPED, Answers, shown
from .cluster_worker import ClusterWorker
from .config_log import (
    Row,
    connector_row,
    logger_row,
    removal_rows,
    restart_row,
    target_row,
    tasks_rows,
)
from .group_protocol import CONNECTOR, connector_of
from .herder import Phase
from .herding import BadRequest, Config, Conflict, Json, NotFound, NotLeader, Unavailable
from .library import Library
from .states import State, TargetState, TaskId

LOOK_MS: Final = 100
"""Milliseconds between two looks whether the tasks of a stopped connector have ended."""
REBALANCE_MS: Final = 10_000
"""The longest that is waited for that, beyond the time that tasks have for it."""
ALIVE: Final = (State.RUNNING, State.PAUSED, State.RESTARTING)


class DistributedHerder(Answers):
    """Answers requests about the connectors of a cluster; implements herding.Herder."""

    def __init__(
        self, runtime: Runtime, cluster: ClusterWorker, library: Library, cluster_id: str
    ) -> None:
        super().__init__(library, cluster_id)
        self._runtime = runtime
        self._cluster = cluster
        self._config = cluster.config
        self._table = cluster.statuses.table
        self._stop_ms = cluster.settings.times.task_shutdown_graceful_timeout_ms + REBALANCE_MS
        self._changing = asyncio.Lock()
        """Held from a look at what is configured until what follows from it is read back."""

    async def start(self, timeout_ms: int) -> None:
        """Join the group, and wait for an assignment, `timeout_ms` at most.

        Raise ForeignWorker if the group has workers of Apache Kafka.
        """
        await self._cluster.start()
        await self._cluster.wait_until_joined(timeout_ms)

    async def stop(self) -> None:
        """Stop all work and leave the group."""
        await self._cluster.stop()

    # -------------------------------------------------------------------------------- questions

    async def health(self) -> Json:
        """Return {status, message}; raise Unavailable outside the group."""
        if self._cluster.herder.phase is Phase.OUTSIDE:
            raise Unavailable("Worker has not joined its group yet, or is out of it.")
        return await super().health()

    async def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self._config.connectors)

    async def info(self, name: str) -> Json:
        """Return {name, config, tasks, type}."""
        config = self._known(name)
        count = len(self._config.tasks_of(name))
        return {
            "name": name,
            "config": dict(config),
            "tasks": [{"connector": name, "task": task} for task in range(count)],
            "type": self._library.kind(config),
        }

    async def status(self, name: str) -> Json:
        """Return {name, connector, tasks, type}."""
        return self._status(name, {})

    async def task_status(self, task: TaskId) -> Json:
        """Return {id, state, worker_id, trace?}."""
        self._known(task.connector)
        if task not in self._table.statuses:
            raise NotFound(f"No status found for task {task}")
        return {"id": task.task, **shown(self._table.of(task))}

    async def task_configs(self, name: str) -> list[Json]:
        """Return [{id, config}]."""
        self._known(name)
        return [
            {"id": {"connector": name, "task": task}, "config": dict(config)}
            for task, config in enumerate(self._config.tasks_of(name))
        ]

    async def topics(self, name: str) -> list[str]:
        """Return the topics that the connector used."""
        self._known(name)
        return sorted(self._table.topics.get(name, {}))

    async def offsets(self, name: str) -> Json:
        """Return {offsets: [{partition, offset}]}."""
        return await self._cluster.worker.offsets(name, self._known(name))

    # ---------------------------------------------------------------------------------- changes

    async def create(self, name: str, config: Config, target: TargetState) -> Json:
        """Create a connector and return its info."""
        self._cluster.require_leader()
        await self._library.check(config)
        async with self._changing:
            if name in self._config.connectors:
                raise Conflict(f"Connector {name} already exists")
            rows = [target_row(name, target)] if target is not TargetState.STARTED else []
            await self._cluster.write([*rows, connector_row(name, config)])
        return await self.info(name)

    async def put_config(self, name: str, config: Config) -> tuple[bool, Json]:
        """Create or replace a configuration; an equal one restarts nothing."""
        self._cluster.require_leader()
        await self._library.check(config)
        async with self._changing:
            is_new = name not in self._config.connectors
            await self._cluster.write([connector_row(name, config)])
        return is_new, await self.info(name)

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """Change some keys, None removes one; return the info (KIP-477)."""
        self._cluster.require_leader()
        while True:
            before = self._known(name)
            merged: dict[str, str | None] = {**before, **patch}
            config = {key: value for key, value in merged.items() if value is not None}
            await self._library.check(config)
            async with self._changing:
                if self._known(name) == before:
                    await self._cluster.write([connector_row(name, config)])
                    return await self.info(name)

    async def delete(self, name: str) -> None:
        """Delete a connector; its tasks stop, its status goes, topics and groups stay."""
        self._cluster.require_leader()
        async with self._changing:
            self._known(name)
            statuses = self._table.tasks_of(name)
            count = max([len(self._config.tasks_of(name)), *(each.task + 1 for each in statuses)])
            await self._cluster.write(removal_rows(name, count))

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """Ask all workers to restart what they run of it; return the plan (KIP-745)."""
        self._cluster.require_leader()
        self._known(name)
        again = {
            item: None
            for item in (connector_of(name), *self._table.tasks_of(name))
            if (item.task == CONNECTOR or include_tasks)
            and (not only_failed or self._table.of(item).state is State.FAILED)
        }
        plan = self._status(name, again)
        row = restart_row(name, include_tasks=include_tasks, only_failed=only_failed)
        await self._cluster.write([row])
        return plan

    async def restart_connector(self, name: str) -> None:
        """Restart the connector's instance alone, on the worker that runs it."""
        self._cluster.require_leader()
        self._known(name)
        await self._cluster.write([restart_row(name, include_tasks=False, only_failed=False)])

    async def restart_task(self, task: TaskId) -> None:
        """Restart one task, if this worker runs it; raise NotLeader with the address of who does.

        Raise NotFound if there is no such task, Conflict while nobody runs it.
        """
        self._known(task.connector)
        if task.task >= len(self._config.tasks_of(task.connector)):
            raise NotFound(f"Task {task} not found")
        cluster = self._cluster
        if task in cluster.herder.runs:
            cluster.carry(cluster.herder.restart_task(task))
            return
        worker_id = self._table.of(task).worker_id
        if not worker_id or worker_id == cluster.worker.worker_id:
            raise Conflict(f"Task {task} is not assigned to a worker at the moment: try again")
        raise NotLeader(f"{cluster.settings.url.partition('://')[0]}://{worker_id}/")

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop; a stopped connector has no tasks, which is committed first."""
        self._cluster.require_leader()
        async with self._changing:
            self._known(name)
            rows: list[Row] = []
            if target is TargetState.STOPPED and self._config.tasks_of(name):
                rows += tasks_rows(name, [])
            await self._cluster.write([*rows, target_row(name, target)])

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that the connector used."""
        self._known(name)
        self._cluster.statuses.forget_topics(name)

    async def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Set offsets of a STOPPED connector; return the message."""
        config = await self._stopped(name)
        return await self._cluster.worker.alter_offsets(name, config, offsets)

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector; return the message."""
        config = await self._stopped(name)
        return await self._cluster.worker.reset_offsets(name, config)

    async def set_logger(self, namespace: str, level: str, *, cluster: bool) -> list[str] | None:
        """Set a level here and return the loggers, or on all workers and return None (KIP-976)."""
        if not cluster:
            return self._library.set_logger(namespace, level)
        self._cluster.require_leader()
        self._library.set_logger(namespace, level)  # Refuses a level that no worker knows.
        await self._cluster.write([logger_row(namespace, level)])
        return None

    # ------------------------------------------------------------------ from other workers

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], body: bytes, signature: Mapping[str, str]
    ) -> None:
        """Commit the task configurations that another worker's connector made."""
        self._cluster.keys.check(body, signature, self._runtime.monotonic_ms())
        self._cluster.require_leader()
        async with self._changing:
            self._known(name)
            if self._cluster.herder.differs(name, configs):
                await self._cluster.write(tasks_rows(name, configs))

    async def fence(self, name: str, body: bytes, signature: Mapping[str, str]) -> None:
        """Fence all old producers of a source connector, as its leader."""
        self._cluster.keys.check(body, signature, self._runtime.monotonic_ms())
        self._cluster.require_leader()
        self._known(name)
        await self._cluster.duties.fence_now(name)

    # ----------------------------------------------------------------------------------- within

    def _known(self, name: str) -> Config:
        if name not in self._config.connectors:
            raise NotFound(f"Connector {name} not found")
        return self._config.connectors[name]

    async def _stopped(self, name: str) -> Config:
        """Return the configuration of a connector whose offsets may be changed."""
        cluster = self._cluster
        cluster.require_leader()
        deadline_ms = self._runtime.monotonic_ms() + self._stop_ms
        while True:
            config = self._known(name)
            if self._config.targets[name] is not TargetState.STOPPED:
                raise BadRequest(NOT_STOPPED.format(name=name))
            tasks = self._table.tasks_of(name)
            if not any(self._table.of(task).state in ALIVE for task in tasks):
                break
            if self._runtime.monotonic_ms() >= deadline_ms:
                raise BadRequest("Tasks of the connector are still being stopped: try again")
            await asyncio.sleep(LOOK_MS / 1000)
        count = self._config.fencing_counts.get(name, 0)
        if cluster.settings.rules.leader_fences and count:
            await cluster.worker.fence(name, config, count)
        return config

    def _status(self, name: str, again: Mapping[TaskId, None]) -> Json:
        config, connector = self._known(name), connector_of(name)
        if connector not in self._table.statuses:
            raise NotFound(f"No status found for connector {name}")
        return {
            "name": name,
            "connector": shown(self._table.of(connector), restarts=connector in again),
            "tasks": [
                {"id": task.task, **shown(self._table.of(task), restarts=task in again)}
                for task in self._table.tasks_of(name)
            ],
            "type": self._library.kind(config),
        }
