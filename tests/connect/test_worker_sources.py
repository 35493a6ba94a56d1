"""Source tasks on a worker, against a fake cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from minikafka.connect.states import State, TargetState, TaskId
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode

from ..client.fake_broker import FakeCluster, Refuse
from . import plain_connectors as plain
from .lab import CLASSES, WITHIN_S, connector, running_worker, start, until

TASK = TaskId("c", 0)


def lines(directory: Path) -> list[Any]:
    return [json.loads(line) for line in (directory / "offsets").read_text().splitlines()]


def values(cluster: FakeCluster, topic: str) -> list[str]:
    return [
        (value or b"").decode()
        for part in cluster.topics[topic].partitions
        for value in part.values()
    ]


@pytest.mark.parametrize("kind", ["Count", "AsyncCount"])
async def test_records_arrive_and_their_offsets_are_committed(tmp_path: Path, kind: str) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector(kind, topic="t", until="35"))
            await until(cluster, lambda: len(values(cluster, "t")) == 35)
            await worker.stop_tasks([TASK])
            assert told.states(TASK) == ["RUNNING", "UNASSIGNED"]
            assert told.topics == [(TASK, "t")]
        assert values(cluster, "t") == [str(number) for number in range(35)]
        assert lines(tmp_path) == [{"key": ["c", {"part": "a"}], "value": {"next": 35}}]
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector(kind, topic="t", until="37"))
            await until(cluster, lambda: len(values(cluster, "t")) == 37)
        assert values(cluster, "t") == [str(number) for number in range(37)]


async def test_a_task_in_a_process_of_its_own_does_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    props = connector("Count", topic="t", until="25", tasks__isolation="process")
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, props)
            await told.until_state(TASK, State.RUNNING)
            await until(cluster, lambda: len(values(cluster, "t")) == 25)
            await worker.stop_tasks([TASK])
            assert told.states(TASK) == ["RUNNING", "UNASSIGNED"]
    assert lines(tmp_path) == [{"key": ["c", {"part": "a"}], "value": {"next": 25}}]


async def test_an_async_task_has_no_process(tmp_path: Path) -> None:
    props = connector("AsyncCount", topic="t", until="1", tasks__isolation="process")
    async with (
        FakeCluster() as cluster,
        running_worker(cluster.bootstrap, tmp_path) as (worker, told),
    ):
        await start(worker, props)
        await told.until_state(TASK, State.FAILED)
        assert "tasks.isolation=process is for sync tasks" in told.trace(TASK)


async def test_x_12_a_task_that_ignores_its_stop_is_abandoned_and_commits_nothing(
    tmp_path: Path,
) -> None:
    for event in (plain.StuckTask.gate, plain.StuckTask.polled, plain.StuckTask.left):
        event.clear()
    limit = {"task_shutdown_graceful_timeout_ms": "1"}
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path, **limit) as (worker, told):
            await start(worker, connector("Stuck", topic="t"))
            await asyncio.to_thread(plain.StuckTask.polled.wait, 30)
            await worker.stop_tasks([TASK])
            assert worker.running_tasks() == []
            plain.StuckTask.gate.set()
            await asyncio.to_thread(plain.StuckTask.left.wait, 30)
            await worker.close()
            assert told.states(TASK) == ["RUNNING"]
        assert values(cluster, "t") == []
    assert not (tmp_path / "offsets").exists()


async def test_offsets_wait_for_the_acknowledgement_of_all_records_before_them(
    tmp_path: Path,
) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        held, refused = asyncio.Event(), asyncio.Event()

        def hold(_: Any, key: int, __: Any) -> None:
            if key == ApiKey.PRODUCE and not held.is_set():
                refused.set()
                raise Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)

        cluster.fault = hold
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("Count", topic="t", until="20"))
            async with asyncio.timeout(WITHIN_S):
                await refused.wait()
            assert (await worker.offsets("c", connector("Count")))["offsets"] == []
            held.set()
            await until(cluster, lambda: len(values(cluster, "t")) == 20)
    assert lines(tmp_path) == [{"key": ["c", {"part": "a"}], "value": {"next": 20}}]


@pytest.mark.parametrize("stage", ["TRANSFORMATION", "VALUE_CONVERTER"])
async def test_x_32_without_tolerance_a_bad_record_fails_the_task_behind_those_before_it(
    tmp_path: Path, stage: str
) -> None:
    props = connector("Count", topic="t", until="30")
    if stage == "TRANSFORMATION":
        props |= {"transforms": "f", "transforms.f.type": f"{CLASSES}:FailAt17"}
    else:
        props |= {"value.converter": f"{CLASSES}:ConvertTo17"}
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, props)
            await told.until_state(TASK, State.FAILED)
            assert "17 is a bad number" in told.trace(TASK)
            assert stage in told.trace(TASK)
            assert worker.running_tasks() == []
        assert values(cluster, "t") == [str(number) for number in range(17)]
    assert lines(tmp_path) == [{"key": ["c", {"part": "a"}], "value": {"next": 17}}]


async def test_with_tolerance_a_bad_record_is_left_out(tmp_path: Path) -> None:
    props = connector("Count", topic="t", until="30", errors__tolerance="all") | {
        "transforms": "f",
        "transforms.f.type": f"{CLASSES}:FailAt17",
    }
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            await until(cluster, lambda: len(values(cluster, "t")) == 29)
        assert "17" not in values(cluster, "t")
    assert lines(tmp_path)[0]["value"] == {"next": 30}


@pytest.mark.parametrize(("tolerance", "state"), [("none", "FAILED"), ("all", "RUNNING")])
async def test_a_record_that_is_too_large_fails_the_task_or_is_left_out(
    tmp_path: Path, tolerance: str, state: str
) -> None:
    props = connector("Large", topic="t", errors__tolerance=tolerance)
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, props)
            if tolerance == "none":
                await told.until_state(TASK, State.FAILED)
                assert "exceeds max.request.size" in told.trace(TASK)
            else:
                await until(cluster, lambda: len(values(cluster, "t")) == 2)
            assert told.states(TASK)[-1] == state
    if tolerance == "all":
        assert values(cluster, "t") == ["before", "after"]
        assert lines(tmp_path)[0]["value"] == {"next": 3}
    else:
        assert values(cluster, "t") == ["before"]


async def test_a_task_that_asks_for_it_hears_of_each_record(tmp_path: Path) -> None:
    plain.HearTask.heard.clear()
    props = connector("Hear", topic="t", until="3") | {
        "transforms": "d",
        "transforms.d.type": f"{CLASSES}:Drop1",
    }
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            await until(cluster, lambda: len(values(cluster, "t")) == 2)
            await worker.stop_tasks([TASK])
    heard = [each for each in plain.HearTask.heard if each[0] != "commit"]
    assert sorted(heard) == [("0", 0), ("1", None), ("2", 1)]
    assert plain.HearTask.heard[-1] == ("commit", None)


async def test_a_task_waits_for_a_cluster_that_is_away(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        settings = {"producer_buffer_memory": "100"}
        async with running_worker(cluster.bootstrap, tmp_path, **settings) as (worker, told):
            (node,) = cluster.nodes.values()
            await start(worker, connector("Count", topic="t", until="200"))
            await until(cluster, lambda: len(values(cluster, "t")) > 20)
            await node.stop()
            await node.start()
            await until(cluster, lambda: len(values(cluster, "t")) == 200)
            assert told.states(TASK) == ["RUNNING"]
    assert lines(tmp_path)[0]["value"] == {"next": 200}


async def test_a_paused_task_rests_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            props = connector("Count", topic="t", until="10")
            await start(worker, props, TargetState.PAUSED)
            await told.until_state(TASK, State.PAUSED)
            assert values(cluster, "t") == []
            worker.set_target("c", TargetState.STARTED)
            await until(cluster, lambda: len(values(cluster, "t")) == 10)
            worker.set_target("c", TargetState.PAUSED)
            await told.until_state(TASK, State.PAUSED, 2)
            worker.set_target("c", TargetState.STARTED)
            await told.until_state(TASK, State.RUNNING, 2)
            assert told.states(TASK) == ["PAUSED", "RUNNING", "PAUSED", "RUNNING"]


async def test_a_failed_task_is_started_again_where_the_worker_is_told_so(tmp_path: Path) -> None:
    plain.FlakyTask.starts.clear()
    backoff = {"minikafka_connect_task_restart_backoff_ms": "1"}
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path, **backoff) as (worker, told):
            await start(worker, connector("Flaky", topic="t", until="5"))
            await until(cluster, lambda: "t" in cluster.topics and len(values(cluster, "t")) == 5)
            assert told.states(TASK) == ["FAILED", "FAILED", "RUNNING"]
            traces = [status.trace or "" for _, status in told.tasks[:2]]
            assert traces[0].endswith(
                "RuntimeError: not yet\n\nThe task is started again in 1 ms, restart 1."
            )
            assert traces[1].endswith("started again in 2 ms, restart 2.")


async def test_a_task_that_leaves_by_sys_exit_or_cannot_be_made_is_a_failed_one(
    tmp_path: Path,
) -> None:
    async with (
        FakeCluster() as cluster,
        running_worker(cluster.bootstrap, tmp_path) as (worker, told),
    ):
        await start(worker, connector("Leaves", topic="t"))
        await told.until_state(TASK, State.FAILED)
        assert told.trace(TASK).endswith("SystemExit: 3\n")
        await start(worker, connector("Nobody", topic="t"))
        await told.until_state(TASK, State.FAILED, 2)
        assert "cannot be imported" in told.trace(TASK)


async def test_x_21_offsets_of_a_source_are_read_set_and_removed(tmp_path: Path) -> None:
    props = connector("Count", topic="t", until="12")
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            await until(cluster, lambda: len(values(cluster, "t")) == 12)
            await worker.stop_tasks([TASK])
            found = await worker.offsets("c", props)
            assert found == {"offsets": [{"partition": {"part": "a"}, "offset": {"next": 12}}]}
            changed = [{"partition": {"part": "a"}, "offset": {"next": 10}}]
            message = await worker.alter_offsets("c", props, changed)
            assert message.startswith("The Connect framework-managed offsets")
            await start(worker, props)
            await until(cluster, lambda: len(values(cluster, "t")) == 14)
            assert values(cluster, "t")[-2:] == ["10", "11"]
            await worker.stop_tasks([TASK])
            for _ in range(2):
                await worker.reset_offsets("c", props)
                assert await worker.offsets("c", props) == {"offsets": []}


async def test_missing_topics_are_created_as_the_source_says(tmp_path: Path) -> None:
    props = connector("Count", topic="new", until="3") | {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
    }
    async with FakeCluster() as cluster:
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            await until(
                cluster, lambda: "new" in cluster.topics and len(values(cluster, "new")) == 3
            )
        assert len(cluster.topics["new"].partitions) == 2


async def test_no_log_shows_what_a_config_provider_gave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secrets").write_text("until=hunter22\n")
    providers = {
        "config_providers": "file",
        "config_providers_file_class": "minikafka.connect.providers:FileProvider",
    }
    props = connector("Count", topic="t", until=f"${{file:{tmp_path}/secrets:until}}")
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with running_worker(cluster.bootstrap, tmp_path, **providers) as (worker, told):
            await start(worker, props)
            await told.until_state(TASK, State.FAILED)
            assert "invalid literal for int()" in told.trace(TASK)
    assert "invalid literal for int()" in caplog.text
    assert "hunter22" not in caplog.text + told.trace(TASK)


@pytest.mark.parametrize("asked", ["TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"])
async def test_a_topic_that_may_not_be_created_is_taken_to_be_there(
    tmp_path: Path, asked: str
) -> None:
    keys = {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
    }

    def refuse(_: Any, key: int, __: Any) -> None:
        if key == ApiKey.CREATE_TOPICS:
            raise Refuse(ErrorCode[asked])

    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = refuse
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("Count", topic="t", until="5") | keys)
            await until(cluster, lambda: len(values(cluster, "t")) == 5)
