"""The herder of a single worker: answers requests about its connectors, one change at a time.

As with Kafka's StandaloneHerder, connectors that REST created are gone when the process ends. It
never moves records: the worker does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from ..runtime.errors import InvariantViolation
from ..runtime.runtime import Runtime
from .answers import Answers, shown
from .herding import BadRequest, Config, Json, Unavailable
from .library import Library
from .standalone_connectors import Connectors
from .states import TargetState, TaskId

T = TypeVar("T")
log = logging.getLogger(__name__)

MOST_WAITING: Final = 100
"""The most changes that wait for the one that is carried out."""


class StandaloneHerder(Answers):
    """Answers requests about connectors of one worker; implements herding.Herder."""

    def __init__(
        self, runtime: Runtime, connectors: Connectors, library: Library, cluster_id: str
    ) -> None:
        super().__init__(library, cluster_id)
        self._runtime = runtime
        self._connectors = connectors
        self._lock = asyncio.Lock()
        self._waiting = 0
        connectors.statuses.reconfigure = self._reconfigure

    # -------------------------------------------------------------------------------- questions

    async def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return self._connectors.names()

    async def info(self, name: str) -> Json:
        """Return {name, config, tasks, type}."""
        return self._connectors.info(name)

    async def status(self, name: str) -> Json:
        """Return {name, connector, tasks, type}."""
        return self._connectors.status(name)

    async def task_status(self, task: TaskId) -> Json:
        """Return {id, state, worker_id, trace?}."""
        return {"id": task.task, **shown(self._connectors.statuses.task(task))}

    async def task_configs(self, name: str) -> list[Json]:
        """Return [{id, config}]."""
        return [
            {"id": {"connector": name, "task": task}, "config": config}
            for task, config in enumerate(self._connectors.known(name).tasks)
        ]

    async def topics(self, name: str) -> list[str]:
        """Return the topics that the connector uses."""
        self._connectors.known(name)
        return self._connectors.statuses.topics(name)

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that the connector uses."""
        self._connectors.known(name)
        self._connectors.statuses.reset_topics(name)

    async def set_logger(self, namespace: str, level: str, *, cluster: bool) -> list[str] | None:
        """Set a level; this worker is the whole cluster."""
        names = self._library.set_logger(namespace, level)
        return None if cluster else names

    # ---------------------------------------------------------------------------------- changes

    async def create(self, name: str, config: Config, target: TargetState) -> Json:
        """Create a connector and return its info."""
        await self._library.check(config)
        return await self._in_turn(self._connectors.create(name, dict(config), target))

    async def put_config(self, name: str, config: Config) -> tuple[bool, Json]:
        """Create or replace a configuration; an equal one restarts only what has failed."""
        await self._library.check(config)
        return await self._in_turn(self._connectors.put(name, dict(config)))

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """Change some keys, None removes one; return the info (KIP-477)."""

        async def change() -> Json:
            merged = {**self._connectors.known(name).config, **patch}
            config = {key: value for key, value in merged.items() if value is not None}
            await self._library.check(config)
            return (await self._connectors.put(name, config))[1]

        return await self._in_turn(change())

    async def delete(self, name: str) -> None:
        """Delete a connector and its status; topics and groups stay."""
        await self._in_turn(self._connectors.delete(name))

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """Restart and return the planned status (KIP-745)."""
        return await self._in_turn(self._connectors.restart(name, include_tasks, only_failed))

    async def restart_connector(self, name: str) -> None:
        """Restart the connector's instance; its tasks only if it makes other ones."""
        await self._in_turn(self._connectors.restart(name, False, False))

    async def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        await self._in_turn(self._connectors.restart_task(task))

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop."""
        await self._in_turn(self._connectors.set_target(name, target))

    async def offsets(self, name: str) -> Json:
        """Return {offsets: [{partition, offset}]}."""
        return await self._connectors.offsets(name)

    async def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Set offsets of a STOPPED connector; return the message."""
        return await self._in_turn(self._connectors.alter_offsets(name, offsets))

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector; return the message."""
        return await self._in_turn(self._connectors.reset_offsets(name))

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], body: bytes, signature: Mapping[str, str]
    ) -> None:
        """Refuse: there is no other worker that could ask."""
        raise BadRequest("A standalone worker takes no task configurations from other workers")

    async def fence(self, name: str, body: bytes, signature: Mapping[str, str]) -> None:
        """Refuse: there is no other worker that could ask."""
        raise BadRequest("A standalone worker fences for no other worker")

    # ------------------------------------------------------------------------------- one by one

    async def _in_turn(self, change: Coroutine[Any, Any, T]) -> T:
        """Carry out a change after those before it; it ends even if nobody waits for it any more.

        Raise Unavailable if too many wait.
        """
        if self._waiting >= MOST_WAITING:
            change.close()
            raise Unavailable(f"{MOST_WAITING} changes wait for one that is not done yet")
        self._waiting += 1
        result, error = await asyncio.shield(self._runtime.spawn(self._alone(change), "change"))
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    async def _alone(self, change: Awaitable[T]) -> tuple[T | None, Exception | None]:
        try:
            async with self._lock:
                return await change, None
        except InvariantViolation:
            raise
        except Exception as error:
            return None, error  # what a connector raises must not end the worker
        finally:
            self._waiting -= 1

    def _reconfigure(self, name: str) -> None:
        if self._waiting < MOST_WAITING:
            self._waiting += 1
            self._runtime.spawn(self._reconfigured(name), "reconfigure")

    async def _reconfigured(self, name: str) -> None:
        _, error = await self._alone(self._connectors.update_tasks(name))
        if error is not None:
            log.error("connector %s asked for other tasks, and got none: %s", name, error)
