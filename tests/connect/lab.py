"""A worker of tests with what it told, against a fake cluster or a real one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from minikafka.connect.plugins import Plugins
from minikafka.connect.states import State, Status, TargetState, TaskId
from minikafka.connect.worker import Worker
from minikafka.connect.worker_config import worker_config
from minikafka.runtime.runtime import SystemRuntime

from ..client.fake_broker import FakeCluster

CLASSES = "tests.connect.plain_connectors"
WITHIN_S = 30


class Told:
    """Keeps what a worker tells, and wakes those who wait for it."""

    def __init__(self) -> None:
        self.connectors: list[tuple[str, Status]] = []
        self.tasks: list[tuple[TaskId, Status]] = []
        self.topics: list[tuple[TaskId, str]] = []
        self.reconfigured: list[str] = []
        self._news = asyncio.Event()

    def on_connector(self, name: str, status: Status) -> None:
        self.connectors.append((name, status))
        self._wake()

    def on_task(self, task: TaskId, status: Status) -> None:
        self.tasks.append((task, status))
        self._wake()

    def on_topic(self, task: TaskId, topic: str) -> None:
        self.topics.append((task, topic))

    def on_reconfiguration(self, name: str) -> None:
        self.reconfigured.append(name)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def states(self, task: TaskId) -> list[str]:
        """Return the states of a task, in order."""
        return [status.state.value for told, status in self.tasks if told == task]

    def trace(self, task: TaskId) -> str:
        """Return the newest trace of a task."""
        return [status.trace for told, status in self.tasks if told == task][-1] or ""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is looked at after each status."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await self._news.wait()

    async def until_state(self, task: TaskId, state: State, times: int = 1) -> None:
        """Wait until a task was told in this state so often."""
        await self.until(lambda: self.states(task).count(state.value) >= times)


@asynccontextmanager
async def running_worker(
    servers: Any, directory: Any, **overrides: str
) -> AsyncIterator[tuple[Worker, Told]]:
    """Run a worker; keys are given with underscores. Standalone unless a topic is given."""
    props = {
        "bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers),
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": f"{directory}/offsets",
        "offset.flush.interval.ms": "50",
    } | {key.replace("_", "."): value for key, value in overrides.items()}
    told = Told()
    runtime = SystemRuntime("connect")
    worker = Worker(runtime, worker_config(props), Plugins(), worker_id="here:8083")
    worker.listener = told
    await worker.start()
    try:
        yield worker, told
    finally:
        await worker.close()
        runtime.close()


async def until(cluster: FakeCluster, condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; it is looked at after each request of a client."""
    async with asyncio.timeout(WITHIN_S):
        await cluster.until(condition)


def connector(kind: str, /, **keys: str) -> dict[str, str]:
    """Return the configuration of a connector of `plain_connectors`; `__` stands for a dot."""
    props = {key.replace("__", "."): value for key, value in keys.items()}
    return {"connector.class": f"{CLASSES}:{kind}", "name": "c", **props}


async def start(
    worker: Worker, props: Mapping[str, str], target: TargetState = TargetState.STARTED
) -> TaskId:
    """Start task 0 of a connector that needs no connector instance."""
    task = TaskId(props["name"], 0)
    await worker.start_task(task, props, props, target, 1)
    return task
