"""A standalone herder on a fake worker, its REST API over ASGI, and connectors to configure."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx
from starlette.types import ASGIApp

from minikafka.connect.api import Connector, Props, SinkConnector, SourceConnector
from minikafka.connect.config_def import ConfigDef, ConfigKey, ConfigType, ConfigValue, Importance
from minikafka.connect.library import Library
from minikafka.connect.plugins import Plugins
from minikafka.connect.rest import make_app
from minikafka.connect.standalone import StandaloneHerder
from minikafka.connect.standalone_connectors import Connectors
from minikafka.connect.states import State, Status, TargetState, TaskId
from minikafka.connect.statuses import Statuses
from minikafka.connect.validation import Rules
from minikafka.runtime.runtime import SystemRuntime

Json = dict[str, Any]
WORKER = "worker:8083"
HERE = __name__


class Lines(SourceConnector):
    """A source that asks for a file and a topic, as FileStreamSource does."""

    config = ConfigDef(
        [
            ConfigKey("file", ConfigType.STRING, "Source filename.", None, Importance.HIGH),
            ConfigKey("topic", ConfigType.STRING, "The topic.", importance=Importance.HIGH),
            ConfigKey("batch.size", ConfigType.INT, "Records at a time.", 2000, Importance.LOW),
            ConfigKey("mode", ConfigType.STRING, "What to read.", "all", choices=("all", "new")),
            ConfigKey("key", ConfigType.PASSWORD, "The password of the file.", None),
        ]
    )

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        return [{**self.props, "part": str(part)} for part in range(max_tasks)]


class Shelf(SinkConnector):
    """A sink without keys of its own."""


class Ill(SourceConnector):
    """A source whose validation fails."""

    def validate(self, props: Props) -> list[ConfigValue]:
        raise RuntimeError("the database is away")


LINES, SHELF, ILL = (f"{HERE}:{each.__name__}" for each in (Lines, Shelf, Ill))


class FakeWorker:
    """Notes what it is asked to do; whatever is started runs, unless its name is in `fails`."""

    worker_id = WORKER

    def __init__(self, statuses: Statuses, plugins: Plugins) -> None:
        self.statuses = statuses
        self.done: list[str] = []
        self.fails: dict[str, str] = {}
        self.positions: dict[str, list[Json]] = {}
        self.began: dict[str, list[Json]] = {}
        """By task, the offsets that it found when it started."""
        self.around = SimpleNamespace(hide=lambda text: text.replace("s3cret", "[hidden]"))
        self._plugins = plugins
        self._props: dict[str, Mapping[str, str]] = {}

    async def start_connector(
        self, name: str, props: Mapping[str, str], target: TargetState, generation: int
    ) -> None:
        self.done.append(f"start {name} {target.value}")
        self._props[name] = props
        self.statuses.on_connector(name, self._status(name, target, generation))

    async def stop_connector(self, name: str) -> None:
        self.done.append(f"stop {name}")

    async def make_task_configs(self, name: str) -> list[dict[str, str]]:
        cls: type[Connector] = self._plugins.find_connector(self._props[name]["connector.class"])[0]
        connector = cls()
        connector.props = self._props[name]
        most = int(self._props[name].get("tasks.max", "1"))
        return [dict(props) for props in connector.task_configs(most)]

    async def start_task(
        self,
        task: TaskId,
        connector_props: Mapping[str, str],
        task_props: Mapping[str, str],
        target: TargetState,
        generation: int,
    ) -> None:
        self.done.append(f"start {task}")
        self.began[str(task)] = list(self.positions.get(task.connector, []))
        self.statuses.on_task(task, self._status(str(task), target, generation))

    async def stop_tasks(self, tasks: Iterable[TaskId]) -> None:
        self.done += [f"stop {task}" for task in tasks]

    def set_target(self, name: str, target: TargetState) -> None:
        self.done.append(f"{target.value} {name}")
        for task, status in self.statuses.tasks(name):
            self.statuses.on_task(task, self._status(str(task), target, status.generation))
        known = self.statuses.connector(name)
        self.statuses.on_connector(name, self._status(name, target, known.generation))

    async def offsets(self, name: str, props: Mapping[str, str]) -> Json:
        return {"offsets": self.positions.get(name, [])}

    async def alter_offsets(
        self, name: str, props: Mapping[str, str], offsets: Sequence[Json]
    ) -> str:
        self.positions[name] = list(offsets)
        return "The offsets for this connector have been altered successfully"

    async def reset_offsets(self, name: str, props: Mapping[str, str]) -> str:
        self.positions.pop(name, None)
        return "The offsets for this connector have been reset successfully"

    async def fence(self, name: str, props: Mapping[str, str], count: int) -> None:
        self.done.append(f"fence {name} {count}")

    def fail(self, task: TaskId, trace: str = "Traceback") -> None:
        """Make a running task FAILED, as the worker tells it."""
        generation = self.statuses.task(task).generation
        self.statuses.on_task(task, Status(State.FAILED, WORKER, generation, trace))

    def _status(self, name: str, target: TargetState, generation: int) -> Status:
        if name in self.fails:
            return Status(State.FAILED, WORKER, generation, self.fails[name])
        state = State.RUNNING if target is TargetState.STARTED else State(target.value)
        return Status(state, WORKER, generation)


class House:
    """A worker with its herder, asked through its REST API."""

    def __init__(self, *, exactly_once: bool = False) -> None:
        self.statuses, self.plugins = Statuses(), Plugins()
        self.worker = FakeWorker(self.statuses, self.plugins)
        worker: Any = self.worker
        connectors = Connectors(worker, self.statuses, self.plugins, exactly_once=exactly_once)
        runtime = SystemRuntime("connect")
        library = Library(runtime, self.plugins, Rules(_resolved))
        self.herder = StandaloneHerder(runtime, connectors, library, "cluster-1")
        self.app: ASGIApp = make_app(self.herder)

    async def ask(self, method: str, path: str, body: object = None, **more: Any) -> httpx.Response:
        """Send one request; `body` becomes JSON."""
        return await ask(self.app, method, path, body, **more)

    async def create(self, name: str, **config: str) -> Json:
        """Create a source of lines, or what `connector_class` says; return the answer."""
        keys = {key.replace("_", "."): value for key, value in config.items()}
        whole = {"connector.class": LINES, "topic": "t", **keys}
        answer = await self.ask("POST", "/connectors", {"name": name, "config": whole})
        assert answer.status_code == 201, answer.text
        found: Json = answer.json()
        return found

    async def states(self, name: str) -> list[str]:
        """Return the state of the connector and of each task."""
        status = (await self.ask("GET", f"/connectors/{name}/status")).json()
        return [each["state"] for each in (status["connector"], *status["tasks"])]


def _resolved(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value.replace("${env:PASSWORD}", "s3cret") for key, value in config.items()}


async def ask(
    app: ASGIApp, method: str, path: str, body: object = None, **more: Any
) -> httpx.Response:
    """Send one request to an application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    if body is not None:
        more["json"] = body
    async with httpx.AsyncClient(transport=transport, base_url="http://worker:8083") as client:
        return await client.request(method, path, **more)
