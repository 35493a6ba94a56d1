"""Stops, cancelled starts and failures while the code of a task or connector does not come back."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from minikafka.connect import task_runner
from minikafka.connect.api import SourceConnector
from minikafka.connect.hosts import ThreadHost
from minikafka.connect.records import SourceRecord
from minikafka.connect.source_delivery import AtLeastOnce
from minikafka.connect.states import State, TargetState, TaskId
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.errors import MinikafkaError
from minikafka.runtime.runtime import SystemRuntime

from ..client.fake_broker import FakeCluster, Refuse
from . import plain_connectors as plain
from .lab import WITHIN_S, connector, running_worker, start

HERE = "tests.connect.test_worker_stops"
TASK = TaskId("c", 0)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for event in (plain.StuckTask.gate, plain.StuckTask.polled, plain.StuckTask.left):
        event.clear()
    CountThenWaitTask.came_back.clear()
    Slow.started.clear()
    Slow.gate.clear()


class Slow(plain.Count):
    """A connector whose start waits for the test."""

    gate: ClassVar[threading.Event] = threading.Event()
    started: ClassVar[threading.Event] = threading.Event()

    def start(self, props: Any, context: Any) -> None:
        self.started.set()
        self.gate.wait(60)
        super().start(props, context)


class CancelledTask(plain.AsyncCountTask):
    """Lets out the cancellation of something that it has cancelled itself."""

    async def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner
        yield []


class Cancelled(SourceConnector):
    task = CancelledTask


class CountThenWaitTask(plain.CountTask):
    """Does not come back from the poll behind its records, unless it heeds its stop."""

    heeds: ClassVar[bool] = False
    came_back: ClassVar[threading.Event] = threading.Event()

    def poll(self) -> list[SourceRecord] | None:
        found = super().poll()
        while found is None and not plain.StuckTask.gate.wait(0.01):
            if self.heeds and self.context.stopping:
                self.came_back.set()
                return None
        return found


class CountThenWait(SourceConnector):
    task = CountThenWaitTask


async def test_a_run_whose_successor_was_cancelled_is_still_stopped(tmp_path: Path) -> None:
    limit = {"task_shutdown_graceful_timeout_ms": "200"}
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path, **limit) as (worker, told):
            await start(worker, connector("Stuck", topic="t"))
            await asyncio.to_thread(plain.StuckTask.polled.wait, 30)
            again = asyncio.create_task(start(worker, connector("Stuck", topic="t")))
            await asyncio.sleep(0)
            again.cancel()
            await asyncio.wait([again])
            await worker.stop_tasks([TASK])
            assert not [each for each in asyncio.all_tasks() if each.get_name() == "task c-0"]
            plain.StuckTask.gate.set()
            await asyncio.to_thread(plain.StuckTask.left.wait, 30)
            assert told.states(TASK) == ["RUNNING"]
        assert cluster.topics["t"].partitions[0].values() == []
    assert not (tmp_path / "offsets").exists()


async def test_a_stopped_connector_is_not_started_by_what_was_asked_before(tmp_path: Path) -> None:
    Slow.gate.set()
    props = {"connector.class": f"{HERE}:Slow", "name": "c"}
    async with running_worker("127.0.0.1:1", tmp_path) as (worker, told):
        await worker.start_connector("c", props, TargetState.PAUSED, 1)
        worker.set_target("c", TargetState.STARTED)
        await worker.stop_connector("c")
        await asyncio.sleep(0.05)
        assert not Slow.started.is_set()
        assert [status.state for _, status in told.connectors] == [State.PAUSED]


async def test_a_connector_that_does_not_come_back_from_its_start_is_left_behind(
    tmp_path: Path,
) -> None:
    props = {"connector.class": f"{HERE}:Slow", "name": "c"}
    limit = {"task_shutdown_graceful_timeout_ms": "50"}
    async with running_worker("127.0.0.1:1", tmp_path, **limit) as (worker, _):
        await worker.start_connector("c", props, TargetState.PAUSED, 1)
        worker.set_target("c", TargetState.STARTED)
        await asyncio.to_thread(Slow.started.wait, WITHIN_S)
        async with asyncio.timeout(WITHIN_S):
            await worker.stop_connector("c")
        Slow.gate.set()


async def test_an_async_task_that_lets_out_a_cancellation_has_failed(tmp_path: Path) -> None:
    props = {"connector.class": f"{HERE}:Cancelled", "name": "c", "topic": "t", "until": "1"}
    async with (
        FakeCluster() as cluster,
        running_worker(cluster.bootstrap, tmp_path) as (worker, told),
    ):
        await start(worker, props)
        await told.until_state(TASK, State.FAILED)
        assert "CancelledError" in told.trace(TASK)


@pytest.mark.parametrize("heeds", [True, False])
async def test_a_failure_is_told_though_a_poll_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heeds: bool
) -> None:
    props = {"connector.class": f"{HERE}:CountThenWait", "name": "c", "topic": "t", "until": "1"}
    monkeypatch.setattr(CountThenWaitTask, "heeds", heeds)
    limit = {} if heeds else {"offset_flush_timeout_ms": "50"}
    if not heeds:
        monkeypatch.setattr(task_runner, "STOP_TASK_MS", 50)

    def refuse(_: Any, key: int, __: Any) -> None:
        if key == ApiKey.PRODUCE:
            raise Refuse(ErrorCode.INVALID_RECORD)

    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = refuse
        async with running_worker(cluster.bootstrap, tmp_path, **limit) as (worker, told):
            await start(worker, props)
            await told.until_state(TASK, State.FAILED)
            assert "INVALID_RECORD" in told.trace(TASK)
            plain.StuckTask.gate.set()
            assert CountThenWaitTask.came_back.is_set() is heeds


async def test_clients_that_are_being_closed_when_their_task_is_abandoned_are_closed_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"task_shutdown_graceful_timeout_ms": "100"}
    closing, closed = asyncio.Event(), asyncio.Event()
    close = AtLeastOnce.close

    async def slowly(delivery: AtLeastOnce, timeout_ms: int) -> None:
        closing.set()
        await asyncio.sleep(0.3)
        await close(delivery, timeout_ms)
        closed.set()

    monkeypatch.setattr(AtLeastOnce, "close", slowly)
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path, **limit) as (worker, told):
            await start(worker, connector("Count", topic="t", until="1"))
            await told.until_state(TASK, State.RUNNING)
            await worker.stop_tasks([TASK])
            assert closing.is_set() is closed.is_set() is True


async def test_nothing_is_called_on_a_host_that_was_left() -> None:
    runtime = SystemRuntime("connect")
    host = ThreadHost(runtime, "left", lambda *_: None, lambda *_: asyncio.sleep(0))
    host.leave()
    with pytest.raises(MinikafkaError, match="has ended"):
        async with asyncio.timeout(WITHIN_S):
            await host.call("stop")
    runtime.close()
