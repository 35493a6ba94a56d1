"""Runs connectors and tasks on one process, as a herder says; states go to a StatusListener.

What fails is a status, never an exception that ends the worker. Never here: what runs where, what
users may ask.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..runtime.runtime import Runtime
from .api import ConnectError
from .clients import Clients, transactional_id
from .common_config import SINK_CONFIG, SOURCE_CONFIG, check_sink
from .config_def import BadConfig
from .connector_runner import ConnectorRunner
from .hosts import Host, ThreadHost, trace_of
from .making import Maker, make_store, own_offsets
from .offset_store import OffsetStore
from .plugins import PluginError, PluginKind, Plugins
from .states import State, Status, StatusListener, TargetState, TaskId
from .task_runner import Surroundings, TaskRunner, is_final
from .worker_config import WorkerConfig

if TYPE_CHECKING:
    from .offset_admin import SinkOffsets, SourceOffsets

log = logging.getLogger(__name__)

Props = Mapping[str, str]
TASK_CLASS: Final = "task.class"
LONGEST_BACKOFF_MS: Final = 600_000


class Worker:
    """Runs connectors and tasks.

    `make_host` makes the host of a connector; the simulator takes LoopHost.
    """

    listener: StatusListener
    """Hears what becomes of all that runs; to be set before `start`."""

    def __init__(
        self,
        runtime: Runtime,
        config: WorkerConfig,
        plugins: Plugins,
        *,
        worker_id: str = "",
    ) -> None:
        self.worker_id = worker_id
        self.config = config
        self.plugins = plugins
        self.make_host: Callable[..., Host] = ThreadHost
        self._runtime = runtime
        self._connectors: dict[str, ConnectorRunner] = {}
        self._tasks: dict[TaskId, TaskRunner] = {}
        self._failures: dict[TaskId, int] = {}
        self._restarts: dict[TaskId, asyncio.Task[None]] = {}
        self.store: OffsetStore = make_store(runtime, config)
        self._providers: Any = None

    # -- life

    async def start(self) -> None:
        """Read the offsets. Raise OffsetsUnreadable, BadConfig or an error of a client."""
        from .providers import ConfigProviders

        self._providers = ConfigProviders(self.config.props, self.plugins.find)
        self.around = Surroundings(
            self._runtime,
            self.config,
            self.worker_id,
            self.listener,
            self._providers.hide,
            self.store,
            self._on_failed,
        )
        self._maker = Maker(self.plugins, self.around, self._resolved)
        await self.store.start()

    async def close(self) -> None:
        """Stop all that runs, and close the store of offsets."""
        await self.stop_tasks(list(self._tasks))
        for name in list(self._connectors):
            await self.stop_connector(name)
        await self.store.close()

    def running_connectors(self) -> list[str]:
        """Return the names of the connectors here, sorted."""
        return sorted(self._connectors)

    def running_tasks(self) -> list[TaskId]:
        """Return the tasks here that have not failed, sorted."""
        return sorted(task for task, runner in self._tasks.items() if not runner.main.done())

    # -- connectors

    async def start_connector(
        self, name: str, props: Props, target: TargetState, generation: int
    ) -> None:
        """Start a connector in the target state. Whatever fails becomes its status."""
        await self.stop_connector(name)
        try:
            resolved = self._resolved(name, props)
            found, kind = self.plugins.find_connector(resolved.get("connector.class", ""))
            (SOURCE_CONFIG if kind is PluginKind.SOURCE else SINK_CONFIG).parse(resolved)
            if kind is PluginKind.SINK:
                check_sink(resolved)
            Clients(self.config, name, resolved)
        except Exception as error:
            trace = self.around.hide(trace_of(error))
            log.error("connector %s is not started: %s", name, self.around.hide(str(error)))
            status = Status(State.FAILED, self.worker_id, generation, trace)
            self.listener.on_connector(name, status)
            return
        runner = ConnectorRunner(name, found, (props, resolved), generation, self.around)
        runner.make_host = self.make_host
        self._connectors[name] = runner
        await runner.set_target(target)

    async def stop_connector(self, name: str) -> None:
        """Stop a connector; its tasks are stopped by `stop_tasks`."""
        runner = self._connectors.pop(name, None)
        if runner is not None:
            await runner.close()

    async def make_task_configs(self, name: str) -> list[dict[str, str]]:
        """Ask a running connector for the configuration of each task.

        Values that a config provider has given are references again, as in the connector's
        configuration. Raise ConnectError if it does not run, or makes too many; TaskFailed or its
        own error if it fails.
        """
        runner = self._connectors.get(name)
        if runner is None:
            raise ConnectError(f"Connector {name} is not running on this worker")
        props, given = runner.props, runner.given
        max_tasks = int(props.get("tasks.max", "1"))  # a start has looked at it
        configs = await runner.task_configs(max_tasks)
        if len(configs) > max_tasks:
            why = (
                f"The connector {name} has generated {len(configs)} tasks, which is greater than"
                f" {max_tasks}, the maximum number of tasks it is configured to create."
            )
            if props.get("tasks.max.enforce", "true").strip().lower() != "false":
                raise ConnectError(why)
            log.warning("%s", why)
        task = runner.connector.task
        shared = {key: given[key] for key in ("topics", "topics.regex") if key in given}
        return [
            {key: _referred(key, value, given, props) for key, value in config.items()}
            | {TASK_CLASS: f"{task.__module__}:{task.__qualname__}"}
            | (shared if runner.is_sink else {})
            for config in configs
        ]

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop a connector here, and pause or resume its tasks."""
        runner = self._connectors.get(name)
        if runner is not None:
            runner.request(target)
        for task, running in self._tasks.items():
            if task.connector == name:
                running.set_target(target)

    # -- tasks

    async def start_task(
        self,
        task: TaskId,
        connector_props: Props,
        task_props: Props,
        target: TargetState,
        generation: int,
    ) -> None:
        """Start a task; its status follows. Whatever fails becomes its status."""
        await self.stop_tasks([task])
        try:
            given = (connector_props, task_props)
            self._tasks[task] = self._maker.make(task, given, target, generation)
        except Exception as error:
            trace = self.around.hide(trace_of(error))
            log.error("task %s is not started: %s", task, self.around.hide(str(error)))
            self.listener.on_task(task, Status(State.FAILED, self.worker_id, generation, trace))

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        """Stop tasks, all at once.

        Those that have not ended after task.shutdown.graceful.timeout.ms are abandoned: their
        clients are closed, their results ignored, and they commit nothing any more.
        """
        for task in tasks:
            self._failures.pop(task, None)
            restart = self._restarts.get(task)
            if restart is not None and restart is not asyncio.current_task():
                restart.cancel()
        runners = [self._tasks[task] for task in tasks if task in self._tasks]
        for runner in runners:
            runner.ask_to_stop()
        mains = {runner.main: runner for runner in runners}
        if not mains:
            return
        limit_s = self.config.task_shutdown_graceful_timeout_ms / 1000
        _, late = await asyncio.wait(mains, timeout=limit_s)
        await asyncio.gather(*(mains[main].abandon() for main in mains if main in late))
        # Not before: whoever stops it again, after this was cancelled, must find it.
        for runner in runners:
            if self._tasks.get(runner.id) is runner:
                del self._tasks[runner.id]

    def _on_failed(self, runner: TaskRunner) -> str:
        """Plan the restart of a task that has failed, if there is one; return a line about it."""
        first_ms = self.config.task_restart_backoff_ms
        if not first_ms or is_final(runner.failure) or runner.is_stopping:
            return ""
        ran_ms = self._runtime.monotonic_ms() - runner.running_since_ms
        count = 1 if ran_ms > LONGEST_BACKOFF_MS else self._failures.get(runner.id, 0) + 1
        self._failures[runner.id] = count
        after_ms = min(first_ms << min(count - 1, 32), LONGEST_BACKOFF_MS)
        again = self._runtime.spawn(self._restart(runner, after_ms), f"restart of {runner.id}")
        self._restarts[runner.id] = again
        again.add_done_callback(lambda done: self._forget_restart(runner.id, done))
        return f"\nThe task is started again in {after_ms} ms, restart {count}."

    async def _restart(self, failed: TaskRunner, after_ms: int) -> None:
        await asyncio.sleep(after_ms / 1000)
        one = failed.assignment
        count = self._failures.get(failed.id, 0)
        await self.start_task(failed.id, *one.given, failed.target, one.generation)
        self._failures[failed.id] = count

    def _forget_restart(self, task: TaskId, done: "asyncio.Task[None]") -> None:
        if self._restarts.get(task) is done:
            del self._restarts[task]

    def _resolved(self, name: str, props: Props) -> dict[str, str]:
        resolved: dict[str, str] = self._providers.resolve(props)
        return {"name": name, **resolved}

    # -- offsets, fencing

    async def offsets(self, name: str, props: Props) -> dict[str, Any]:
        """Return {offsets: [{partition, offset}]} (KIP-875)."""
        return {"offsets": await self._offset_admin(name, props).listed()}

    async def alter_offsets(
        self, name: str, props: Props, offsets: Sequence[Mapping[str, Any]]
    ) -> str:
        """Set offsets of a stopped connector, None removes one; return the message.

        Raise BadRequest if they are wrong, or the connector refuses them.
        """
        return await self._offset_admin(name, props).alter(offsets)

    async def reset_offsets(self, name: str, props: Props) -> str:
        """Remove all offsets of a stopped connector; return the message."""
        return await self._offset_admin(name, props).reset()

    def _offset_admin(self, name: str, props: Props) -> "SinkOffsets | SourceOffsets":
        from .offset_admin import SinkOffsets, SourceOffsets

        try:
            resolved = self._resolved(name, props)
            found, kind = self.plugins.find_connector(resolved.get("connector.class", ""))
            clients = Clients(self.config, name, resolved)
        except (PluginError, BadConfig) as error:
            from .herding import BadRequest

            raise BadRequest(str(error)) from error
        if kind is PluginKind.SINK:
            return SinkOffsets(self._runtime, found, resolved, clients)
        own = own_offsets(self._runtime, self.config, clients, resolved)
        return SourceOffsets(self._runtime, found, resolved, (self.store, own))

    async def fence(self, name: str, props: Props, count: int) -> None:
        """Fence the producers of tasks 0 to `count` - 1 of an exactly-once source (KIP-618)."""
        from ..client.admin.admin import Admin

        clients = Clients(self.config, name, self._resolved(name, props))
        ids = [transactional_id(self.config, TaskId(name, task)) for task in range(count)]
        async with Admin(runtime=self._runtime, **clients.admin()) as admin:
            if ids:
                await admin.fence_producers(ids)


def _referred(key: str, value: str, given: Props, resolved: Props) -> str:
    """Return the reference that stood in the connector's configuration for this value."""
    return given[key] if key in given and resolved.get(key) == value else value
