"""Exactly-once sources (KIP-618), transactions below sinks, and groups, on a real broker."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minikafka.aio import Admin, Consumer, NewTopic, Producer
from minikafka.connect.herding import BadRequest
from minikafka.connect.states import State, TargetState, TaskId
from minikafka.connect.worker import Worker

from ..support.cluster import Cluster, running_cluster
from . import plain_connectors as plain
from .lab import CLASSES, WITHIN_S, Told, connector, running_worker, start
from .plain_connectors import KeepTask

# uvloop may wait for ever when it is closed under sockets that a task left (decision 0008).
pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.plain_loop]
names = (f"x{number}" for number in itertools.count())
TASK = TaskId("c", 0)
LONG = {"transaction__boundary": "interval", "transaction__boundary__interval__ms": "600000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    directory = tmp_path_factory.mktemp("connect")
    with running_cluster(directory, brokers=1, broker_settings=settings) as one:
        yield one


@pytest.fixture
async def topic(cluster: Cluster) -> str:
    name = next(names)
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
    return name


@asynccontextmanager
async def exactly_once(
    cluster: Cluster, directory: Path, group: str, **overrides: str
) -> AsyncIterator[tuple[Worker, Told]]:
    keys = {
        "group_id": group,
        "config_storage_topic": "configs",
        "status_storage_topic": "statuses",
        "offset_storage_topic": f"{group}-offsets",
        "offset_storage_partitions": "2",
        "offset_storage_replication_factor": "1",
        "exactly_once_source_support": "enabled",
    }
    async with running_worker(cluster.bootstrap, directory, **keys | overrides) as both:
        yield both


async def read(cluster: Cluster, topic: str, level: str = "read_committed") -> list[str]:
    settings: dict[str, Any] = {"isolation_level": level, "auto_offset_reset": "earliest"}
    async with Consumer(cluster.bootstrap, **settings) as consumer:
        consumer.assign([(topic, 0)])
        (end,) = (await consumer.end_offsets([(topic, 0)])).values()
        found: list[str] = []
        while await consumer.position((topic, 0)) < end:
            found += [(record.value or b"").decode() for record in await consumer.poll(500)]
        return found


async def until_read(cluster: Cluster, topic: str, count: int, level: str) -> list[str]:
    async with asyncio.timeout(WITHIN_S):
        while len(found := await read(cluster, topic, level)) < count:
            pass
    return found


async def test_x_35_records_of_a_task_that_ends_before_its_commit_are_invisible_and_come_once(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    for event in (plain.StuckTask.gate, plain.StuckTask.polled):
        event.clear()
    limit = {"task_shutdown_graceful_timeout_ms": "1"}
    async with exactly_once(cluster, tmp_path, topic, **limit) as (worker, told):
        await start(worker, connector("CountThenHang", topic=topic, until="10", **LONG))
        await until_read(cluster, topic, 10, "read_uncommitted")
        assert await read(cluster, topic) == []
        await worker.stop_tasks([TASK])
        assert told.states(TASK) == ["RUNNING"]
        plain.StuckTask.gate.set()
        await start(worker, connector("Count", topic=topic, until="10"))
        found = await until_read(cluster, topic, 10, "read_committed")
        assert found == [str(number) for number in range(10)]
        assert len(await read(cluster, topic, "read_uncommitted")) == 20


async def test_x_36_an_older_run_of_a_task_is_fenced_before_the_newer_one_reads_its_offsets(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    again = {"minikafka_connect_task_restart_backoff_ms": "1"}
    async with exactly_once(cluster, tmp_path, topic, **again) as (old, told):
        props = connector("Count", topic=topic, until="20")
        await start(old, props | {key.replace("__", "."): v for key, v in LONG.items()})
        await until_read(cluster, topic, 20, "read_uncommitted")
        async with exactly_once(cluster, tmp_path, topic) as (new, _):
            await start(new, props)
            found = await until_read(cluster, topic, 20, "read_committed")
            assert found == [str(number) for number in range(20)]
            await old.stop_tasks([TASK])
            assert told.states(TASK) == ["RUNNING", "FAILED"]
            assert "A newer producer has taken over" in told.trace(TASK)
            assert "started again" not in told.trace(TASK)
            offsets = await new.offsets("c", props)
            assert offsets["offsets"] == [{"partition": {"part": "a"}, "offset": {"next": 20}}]
            assert await read(cluster, topic) == found


async def test_fencing_ends_the_transactions_of_all_tasks_that_a_connector_had(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    async with exactly_once(cluster, tmp_path, topic) as (worker, told):
        props = connector("Count", topic=topic, until="5", **LONG)
        for task, part in enumerate("abc"):
            await worker.start_task(
                TaskId("c", task), props, props | {"part": part}, TargetState.STARTED, 1
            )
        await until_read(cluster, topic, 15, "read_uncommitted")
        await worker.fence("c", props, 3)
        tasks = [TaskId("c", task) for task in range(3)]
        await worker.stop_tasks(tasks)
        assert [told.states(task)[-1] for task in tasks] == ["FAILED"] * 3
    assert await read(cluster, topic) == []


async def test_x_39_a_task_ends_its_transactions_and_what_it_aborts_is_not_seen(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    props = connector("Bounded", topic=topic, transaction__boundary="connector")
    async with exactly_once(cluster, tmp_path, topic) as (worker, _):
        await start(worker, props)
        assert await until_read(cluster, topic, 2, "read_committed") == ["2", "3"]
        async with asyncio.timeout(WITHIN_S):
            while "4" not in await read(cluster, topic, "read_uncommitted"):
                pass
        await worker.stop_tasks([TASK])
        offsets = await worker.offsets("c", props)
        assert offsets["offsets"] == [{"partition": {"part": "a"}, "offset": {"next": 4}}]
    assert await read(cluster, topic) == ["2", "3"]


async def test_a_batch_that_is_one_transaction_is_not_committed_up_to_its_bad_record(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    props = connector("Whole", topic=topic, transaction__boundary="connector") | {
        "transforms": "f",
        "transforms.f.type": f"{CLASSES}:FailAt17",
    }
    async with exactly_once(cluster, tmp_path, topic) as (worker, told):
        await start(worker, props)
        await told.until_state(TASK, State.FAILED)
        assert (await worker.offsets("c", props))["offsets"] == []
    assert await read(cluster, topic) == []


async def test_offsets_of_records_that_are_all_dropped_are_committed(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    props = connector("Count", topic=topic, until="7") | {
        "transforms": "d",
        "transforms.d.type": f"{CLASSES}:DropAll",
    }
    async with exactly_once(cluster, tmp_path, topic) as (worker, _):
        await start(worker, props)
        async with asyncio.timeout(WITHIN_S):
            while not (found := (await worker.offsets("c", props))["offsets"]):
                pass
        assert found == [{"partition": {"part": "a"}, "offset": {"next": 7}}]
    assert await read(cluster, topic, "read_uncommitted") == []


@pytest.mark.parametrize("kind", ["distributed", "standalone"])
async def test_a_connector_with_offsets_of_its_own_goes_on_from_them(
    cluster: Cluster, tmp_path: Path, topic: str, kind: str
) -> None:
    props, other = connector("Count", topic=topic, until="5"), {}
    if kind == "distributed":
        props["offsets.storage.topic"] = f"{topic}-own"
    else:
        other = {"config_storage_topic": ""}
    for until in (5, 8):
        async with exactly_once(cluster, tmp_path, topic, **other) as (worker, _):
            await start(worker, props | {"until": f"{until}"})
            found = await until_read(cluster, topic, until, "read_committed")
            assert found == [str(number) for number in range(until)]
            await worker.stop_tasks([TASK])
            offsets = (await worker.offsets("c", props))["offsets"]
            assert offsets == [{"partition": {"part": "a"}, "offset": {"next": until}}]
    own = f"{topic}-own" if kind == "distributed" else f"{topic}-offsets"
    async with Admin(cluster.bootstrap) as admin:
        assert own in [each.name for each in await admin.list_topics()]
    if kind == "standalone":
        (line,) = (tmp_path / "offsets").read_text().splitlines()
        assert json.loads(line) == {"key": ["c", {"part": "a"}], "value": {"next": 8}}


async def test_x_43_a_sink_never_sees_what_was_aborted(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    KeepTask.kept.clear()
    async with Producer(cluster.bootstrap, transactional_id=topic) as producer:
        for number in range(6):
            await producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        props = connector("Keep", topics=topic, name=topic)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            async with asyncio.timeout(WITHIN_S):
                while not (await worker.offsets(topic, props))["offsets"]:
                    pass
            await producer.begin_transaction()
            producer.send(topic, b"open")
            await producer.flush()
            await worker.stop_tasks([TaskId(topic, 0)])
        await producer.abort_transaction()
    assert [record.value for record in KeepTask.kept] == ["0", "2", "4"]


async def test_x_21_offsets_of_a_sink_are_those_of_its_group(
    cluster: Cluster, tmp_path: Path, topic: str
) -> None:
    KeepTask.kept.clear()
    async with Producer(cluster.bootstrap) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number)
    props, task = connector("Keep", topics=topic, name=topic), TaskId(topic, 0)
    at = {"kafka_topic": topic, "kafka_partition": 0}
    wanted = [{"partition": at, "offset": {"kafka_offset": 4}}]
    async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
        await start(worker, props)
        async with asyncio.timeout(WITHIN_S):
            while not (found := (await worker.offsets(topic, props))["offsets"]):
                pass
        assert found == [{"partition": at, "offset": {"kafka_offset": 6}}]
        for asked in (
            worker.alter_offsets(topic, props, wanted),
            worker.reset_offsets(topic, props),
        ):
            with pytest.raises(BadRequest, match="tasks haven't stopped completely yet"):
                await asked
        await worker.stop_tasks([task])
        KeepTask.kept.clear()
        await worker.alter_offsets(topic, props, wanted)
        await start(worker, props)
        await told.until_state(task, State.RUNNING, 2)
        async with asyncio.timeout(WITHIN_S):
            while len(KeepTask.kept) < 2:
                await worker.offsets(topic, props)
        await worker.stop_tasks([task])
        assert [record.value for record in KeepTask.kept] == ["4", "5"]
        for _ in range(2):
            await worker.reset_offsets(topic, props)
            assert await worker.offsets(topic, props) == {"offsets": []}
