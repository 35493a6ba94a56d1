"""Runs one connector: the object that plans tasks, in a thread of its own.

An instance is started once: paused and stopped connectors have none. Never here: tasks.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from .api import ConnectError, Connector, SinkConnector
from .hosts import Ask, Host, Stop, ThreadHost, called, no_answer, trace_of
from .offsets import Reader
from .states import State, Status, TargetState
from .task_runner import Surroundings

log = logging.getLogger(__name__)

ANSWER_S: Final = 90
"""Seconds after which a connector that does not start, or plans no tasks, has failed."""


class ConnectorStep:
    """The connector's instance; it is also the context that the instance sees."""

    def __init__(
        self,
        connector: type[Connector],
        offsets: Reader,
        notify: Callable[[str, Any], None],
        ask: Ask,
        stop: Stop,
    ) -> None:
        self.offsets = offsets
        self._notify = notify
        self._connector = connector()

    def request_reconfiguration(self) -> None:
        """Ask that `task_configs` is called again."""
        self._notify("reconfigure", None)

    def fail(self, error: Exception) -> None:
        """Make the connector FAILED with this error."""
        self._notify("fail", error)

    async def start(self, props: Mapping[str, str]) -> None:
        """Start the instance."""
        await called(self._connector.start, props, self)

    async def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the configuration of each task."""
        return [dict(each) for each in await called(self._connector.task_configs, max_tasks)]

    async def stop(self) -> None:
        """Stop the instance."""
        await called(self._connector.stop)


class ConnectorRunner:
    """One connector of this worker, in whatever state."""

    def __init__(
        self,
        name: str,
        connector: type[Connector],
        configs: tuple[Mapping[str, str], Mapping[str, str]],
        generation: int,
        around: Surroundings,
    ) -> None:
        """`configs` is the configuration as it was given, and with references resolved."""
        self.name = name
        self.connector = connector
        self.given, self.props = configs
        self.make_host: Callable[..., Host] = ThreadHost
        self._generation = generation
        self._around = around
        self._host: Host | None = None
        self._changing = asyncio.Lock()
        self._requested: dict[asyncio.Task[None], None] = {}
        """The changes of target that are under way or wait, in order."""

    @property
    def is_sink(self) -> bool:
        """True if its tasks are sinks."""
        return issubclass(self.connector, SinkConnector)

    async def set_target(self, target: TargetState) -> None:
        """Start or stop the instance; the state goes to the listener, also if that fails."""
        async with self._changing:
            try:
                if target is not TargetState.STARTED:
                    await self._stop()
                    paused = target is TargetState.PAUSED
                    self._tell(State.PAUSED if paused else State.STOPPED)
                elif self._host is None:
                    await self._start()
                    self._tell(State.RUNNING)
            except Exception as error:
                self._failed(error)

    def request(self, target: TargetState) -> None:
        """Begin with `set_target`; what is asked of the instance later waits for it."""
        task = self._around.runtime.spawn(self.set_target(target), f"target {self.name}")
        self._requested[task] = None
        task.add_done_callback(self._requested.pop)

    async def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Ask the instance for task configurations. Raise ConnectError if there is none."""
        if self._requested:
            await asyncio.wait(list(self._requested))
        if self._host is None:
            raise ConnectError(f"Connector {self.name} is not running on this worker")
        found: list[dict[str, str]] = await self._ask(self._host, "task_configs", max_tasks)
        return found

    async def close(self) -> None:
        """Stop the instance, at most for task.shutdown.graceful.timeout.ms; forget requests."""
        for task in self._requested:
            task.cancel()
        async with self._changing:
            await self._stop()

    async def _start(self) -> None:
        await self._around.store.refresh()
        loop = asyncio.get_running_loop()

        def notify(what: str, error: Any) -> None:
            loop.call_soon_threadsafe(self._on_notified, host, what, error)

        reader = Reader(self.name, self._around.store.map)
        make = partial(ConnectorStep, self.connector, reader, notify)
        host = self.make_host(self._around.runtime, f"connect-{self.name}", make, no_answer)
        self._host = host
        await self._ask(host, "start", self.props)

    async def _ask(self, host: Host, what: str, given: Any) -> Any:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await host.call(what, given)
        except TimeoutError as error:
            why = f"Connector {self.name} has not answered {what} in {ANSWER_S} s"
            raise ConnectError(why) from error

    async def _stop(self) -> None:
        host, self._host = self._host, None
        if host is None:
            return
        limit_s = self._around.config.task_shutdown_graceful_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await host.call("stop")
        except TimeoutError:
            log.error("connector %s does not stop; its thread is left behind", self.name)
        except Exception as error:
            log.error("connector %s: stop failed", self.name, exc_info=error)
        finally:
            host.leave()

    def _on_notified(self, host: Host, what: str, error: Any) -> None:
        if host is not self._host:
            return  # An instance of before.
        if what == "reconfigure":
            self._around.listener.on_reconfiguration(self.name)
        else:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        trace = self._around.hide(trace_of(error))
        log.error("connector %s failed\n%s", self.name, trace)
        self._tell(State.FAILED, trace)

    def _tell(self, state: State, trace: str | None = None) -> None:
        status = Status(state, self._around.worker_id, self._generation, trace)
        self._around.listener.on_connector(self.name, status)
