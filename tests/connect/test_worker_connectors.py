"""Connectors on a worker: their states, their task configurations, what they ask for."""

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from minikafka.connect import connector_runner
from minikafka.connect.api import ConnectError, Props, SourceConnector
from minikafka.connect.states import TargetState
from minikafka.connect.worker import Worker

from .lab import Told, connector, running_worker
from .plain_connectors import CountTask

HERE = "tests.connect.test_worker_connectors"
STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED


class Watched(SourceConnector):
    """A connector whose instances tests can reach."""

    task = CountTask
    instances: ClassVar[list["Watched"]] = []
    stopped: ClassVar[list[int]] = []
    on_start: ClassVar[Callable[[], object] | None] = None

    def start(self, props: Props, context: object) -> None:
        super().start(props, context)  # type: ignore[arg-type]
        self.instances.append(self)
        if Watched.on_start is not None:
            Watched.on_start()

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [{**self.props, "part": str(part)} for part in range(int(self.props["want"]))]

    def stop(self) -> None:
        self.stopped.append(1)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    Watched.instances.clear()
    Watched.stopped.clear()
    monkeypatch.setattr(Watched, "on_start", None)


@asynccontextmanager
async def a_worker(directory: Path, **keys: str) -> AsyncIterator[tuple[Worker, Told]]:
    async with running_worker("127.0.0.1:1", directory, **keys) as both:
        yield both


def watched(want: int, **keys: str) -> dict[str, str]:
    given = {"connector.class": f"{HERE}:Watched", "name": "c", "tasks.max": "2"}
    return {**given, "want": str(want), **keys}


def states(told: Told) -> list[str]:
    return [status.state.value for _, status in told.connectors]


async def test_paused_and_stopped_connectors_have_no_instance(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, told):
        await worker.start_connector("c", watched(1), STARTED, 7)
        for target, count in ((PAUSED, 2), (STARTED, 3), (STOPPED, 4), (STARTED, 5)):
            worker.set_target("c", target)
            await told.until(lambda count=count: len(told.connectors) == count)  # type: ignore[misc]
        assert states(told) == ["RUNNING", "PAUSED", "RUNNING", "STOPPED", "RUNNING"]
        assert len(Watched.instances) == 3
        assert worker.running_connectors() == ["c"]
        (_, status), *_ = told.connectors
        assert (status.worker_id, status.generation) == ("here:8083", 7)
        await worker.stop_connector("c")
        assert len(Watched.stopped) == 3
        assert worker.running_connectors() == []


async def test_task_configurations_are_asked_of_an_instance_that_is_just_resumed(
    tmp_path: Path,
) -> None:
    async with a_worker(tmp_path) as (worker, _):
        await worker.start_connector("c", watched(2), PAUSED, 1)
        with pytest.raises(ConnectError, match="is not running"):
            await worker.make_task_configs("c")
        worker.set_target("c", STARTED)
        configs = await worker.make_task_configs("c")
        assert [config["part"] for config in configs] == ["0", "1"]
        assert configs[0]["task.class"] == "tests.connect.plain_connectors:CountTask"


async def test_more_tasks_than_allowed_are_refused_unless_it_is_not_enforced(
    tmp_path: Path,
) -> None:
    async with a_worker(tmp_path) as (worker, _):
        await worker.start_connector("c", watched(3), STARTED, 1)
        with pytest.raises(ConnectError, match="has generated 3 tasks, which is greater than 2"):
            await worker.make_task_configs("c")
        await worker.start_connector("c", watched(3, **{"tasks.max.enforce": "false"}), STARTED, 1)
        assert len(await worker.make_task_configs("c")) == 3


async def test_task_configurations_have_references_in_place_of_secrets(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=hunter22\ntasks=3\n")
    reference = f"${{file:{tmp_path}/secrets:password}}"
    provider = {"config_providers": "file", "config_providers_file_class": "file"}

    def fail() -> None:
        raise RuntimeError("hunter22 was refused")

    async with a_worker(tmp_path, **provider) as (worker, told):
        props = watched(1, password=reference)
        await worker.start_connector("c", props, STARTED, 1)
        assert Watched.instances[0].props["password"] == "hunter22"
        (config,) = await worker.make_task_configs("c")
        assert config["password"] == reference
        tasks = reference.replace("password", "tasks")
        await worker.start_connector("c", watched(3, **{"tasks.max": tasks}), STARTED, 1)
        assert len(await worker.make_task_configs("c")) == 3
        Watched.on_start = fail
        await worker.start_connector("c", props, STARTED, 1)
        assert states(told) == ["RUNNING", "RUNNING", "FAILED"]
        trace = told.connectors[-1][1].trace or ""
        assert "was refused" in trace
        assert "hunter22" not in trace


async def test_a_connector_that_does_not_answer_has_failed_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector_runner, "ANSWER_S", 0.05)
    answered = threading.Event()
    Watched.on_start = answered.wait
    keys = {"task_shutdown_graceful_timeout_ms": "50"}
    async with a_worker(tmp_path, **keys) as (worker, told):
        await worker.start_connector("c", watched(1), STARTED, 1)
        assert states(told) == ["FAILED"]
        assert "Connector c has not answered start in 0.05 s" in (told.connectors[0][1].trace or "")
        with pytest.raises(ConnectError, match="has not answered task_configs"):
            await worker.make_task_configs("c")
        await worker.stop_connector("c")
        answered.set()


async def test_what_cannot_start_is_a_failed_connector(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, told):
        for props, why in (
            ({"connector.class": "Nobody"}, "Failed to find any class"),
            (watched(1, **{"tasks.max": "0"}), "must be at least 1"),
            (connector("Keep"), "Must configure one of topics or topics.regex"),
        ):
            await worker.start_connector("c", props, STARTED, 1)
            assert why in (told.connectors[-1][1].trace or "")
        assert states(told) == ["FAILED"] * 3


async def test_an_instance_asks_for_reconfiguration_and_fails_itself(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, told):
        await worker.start_connector("c", watched(1), STARTED, 1)
        context = Watched.instances[0].context
        context.request_reconfiguration()
        context.fail(ValueError("the source is gone"))
        await told.until(lambda: len(told.connectors) == 2)
        assert told.reconfigured == ["c"]
        assert (told.connectors[-1][1].trace or "").endswith("ValueError: the source is gone\n")
        await worker.stop_connector("c")
        context.request_reconfiguration()
        await worker.start_connector("c", watched(1), STARTED, 2)
        assert told.reconfigured == ["c"]
