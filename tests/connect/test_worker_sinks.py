"""Sink tasks on a worker, against a fake cluster with groups."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from minikafka.aio import Producer
from minikafka.connect.api import Retry
from minikafka.connect.herding import BadRequest
from minikafka.connect.records import SinkRecord
from minikafka.connect.states import State, TargetState, TaskId
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import records
from minikafka.protocol.types import TopicPartition

from ..client.fake_broker import FakeCluster, Refuse
from ..client.fake_group import FakeGroup, install
from .lab import CLASSES, connector, running_worker, start, until
from .plain_connectors import AsyncKeepTask, ColumnKeepTask, KeepTask

TASK = TaskId("c", 0)
T0 = TopicPartition("t", 0)
Both = tuple[FakeCluster, FakeGroup]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    for kept in (KeepTask.kept, KeepTask.calls, AsyncKeepTask.kept, ColumnKeepTask.batches):
        kept.clear()
    ColumnKeepTask.refused.clear()
    monkeypatch.setattr(KeepTask, "on_put", None)
    return install(monkeypatch)


async def produce(cluster: FakeCluster, count: int, topic: str = "t") -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, key=b"k", headers=[("h", b"1")], timestamp_ms=7)


def committed(group: FakeGroup, offset: int) -> Callable[[], bool]:
    return lambda: group.committed.get(T0, (-1,))[0] == offset


def numbers(kept: Sequence[SinkRecord]) -> list[str]:
    return [record.value for record in kept]


@pytest.mark.parametrize(("kind", "task"), [("Keep", KeepTask), ("AsyncKeep", AsyncKeepTask)])
async def test_records_come_once_and_are_committed(
    both: Both, tmp_path: Path, kind: str, task: Any
) -> None:
    cluster, group = both
    async with cluster:
        cluster.create("t")
        await produce(cluster, 30)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector(kind, topics="t"))
            await until(cluster, committed(group, 30))
            assert told.topics == [(TASK, "t")]
            await worker.stop_tasks([TASK])
            assert told.states(TASK) == ["RUNNING", "UNASSIGNED"]
    assert numbers(task.kept) == [str(number) for number in range(30)]
    first = task.kept[0]
    assert (first.topic, first.partition, first.offset, first.key) == ("t", 0, 0, "k")
    assert (first.timestamp_ms, first.headers[0].key) == (7, "h")
    if task is KeepTask:
        assert KeepTask.calls[0] == ("open", [T0])
        assert KeepTask.calls[-1] == ("close", [T0])


@pytest.mark.parametrize("kind", ["Keep", "Count"])
async def test_a_task_that_never_ran_stops_as_others_do(
    both: Both, tmp_path: Path, kind: str
) -> None:
    cluster, _ = both
    async with cluster, running_worker(cluster.bootstrap, tmp_path) as (worker, told):
        await start(worker, connector(kind, topics="t", topic="t"), TargetState.PAUSED)
        await told.until_state(TASK, State.PAUSED)
        await worker.stop_tasks([TASK])
        assert told.states(TASK) == ["PAUSED", "UNASSIGNED"]
    assert not cluster.sent(ApiKey.JOIN_GROUP)


async def test_a_pattern_names_the_topics(both: Both, tmp_path: Path) -> None:
    cluster, group = both
    async with cluster:
        cluster.create("t")
        cluster.create("other")
        await produce(cluster, 3)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("Keep", topics__regex="t.*"))
            await until(cluster, committed(group, 3))
    assert KeepTask.calls[0] == ("open", [T0])


async def test_a_sink_of_columns_is_given_whole_batches_and_again_if_it_asks(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    raw = {"key.converter": "ByteArrayConverter", "value.converter": "ByteArrayConverter"}
    async with cluster:
        cluster.create("t")
        await produce(cluster, 40)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("ColumnKeep", topics="t") | raw)
            await until(cluster, committed(group, 40))
    assert ColumnKeepTask.refused
    rows = [row for _, batch in ColumnKeepTask.batches for row in batch.to_pylist()]
    assert rows == [
        {"offset": number, "timestamp_ms": 7, "key": b"k", "value": b"%d" % number}
        for number in range(40)
    ]


def fail_at_17(**keys: str) -> dict[str, str]:
    return connector("Keep", topics="t", **keys) | {"value.converter": f"{CLASSES}:ConvertTo17"}


async def test_x_30_bad_records_are_dead_letters_and_offsets_are_committed_behind_them(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    letters = {
        "errors__deadletterqueue__topic__name": "letters",
        "errors__deadletterqueue__context__headers__enable": "true",
        "errors__tolerance": "all",
    }
    async with cluster:
        cluster.create("t")
        cluster.create("letters")
        for _ in range(10):
            await produce(cluster, 100)
        order: list[tuple[str, int]] = []

        def note(_: Any, key: int, request: Any) -> None:
            if key == ApiKey.PRODUCE:
                order.append(("letters", cluster.topics["letters"].partitions[0].log_end_offset))
            elif key == ApiKey.OFFSET_COMMIT:
                order.append(("commit", group.committed[T0][0]))

        cluster.after = note
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, fail_at_17(**letters))
            await until(cluster, committed(group, 1000))
            await worker.stop_tasks([TASK])
            assert told.states(TASK) == ["RUNNING", "UNASSIGNED"]
    assert len(KeepTask.kept) == 990
    (part,) = cluster.topics["letters"].partitions
    written = [record for batch in part.batches for record in records(batch)]
    assert [(record.key, record.value) for record in written] == [(b"k", b"17")] * 10
    headers = [dict(record.headers) for record in written]
    assert headers[0]["h"] == b"1"
    assert headers[0]["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert [int(each["__connect.errors.offset"] or b"") for each in headers] == list(
        range(17, 1000, 100)
    )
    there = 0
    for what, number in order:
        if what == "letters":
            there = number
        else:
            assert there >= (number + 82) // 100


async def test_x_31_a_dead_letter_that_cannot_be_written_fails_the_task_and_skips_nothing(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    keys = {"errors__deadletterqueue__topic__name": "letters", "errors__tolerance": "all"}

    def refuse(_: Any, key: int, request: Any) -> None:
        if key == ApiKey.PRODUCE and request.topic_data[0].topic_id == topic.topic_id:
            raise Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async with cluster:
        cluster.create("t")
        topic = cluster.create("letters")
        await produce(cluster, 100)
        cluster.fault = refuse
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, fail_at_17(**keys))
            await told.until_state(TASK, State.FAILED)
            assert "a dead letter could not be written" in told.trace(TASK)
    assert group.committed.get(T0, (0,))[0] <= 17


async def test_x_32_without_tolerance_the_offsets_before_the_bad_record_are_committed(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    async with cluster:
        cluster.create("t")
        await produce(cluster, 100)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, fail_at_17())
            await told.until_state(TASK, State.FAILED)
            assert "17 is a bad number" in told.trace(TASK)
    assert group.committed[T0][0] == 17
    assert numbers(KeepTask.kept) == [str(number) for number in range(17)]


async def test_x_33_a_dead_letter_names_the_topic_that_was_read(both: Both, tmp_path: Path) -> None:
    cluster, group = both
    props = connector("Keep", topics="t") | {
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.tolerance": "all",
        "transforms": "r,f",
        "transforms.r.type": f"{CLASSES}:Rename",
        "transforms.f.type": f"{CLASSES}:FailAt17",
    }
    async with cluster:
        cluster.create("t")
        cluster.create("letters")
        await produce(cluster, 18)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, props)
            await until(cluster, committed(group, 18))
    assert {record.topic: None for record in KeepTask.kept} == {"renamed": None}
    (letter,) = records(cluster.topics["letters"].partitions[0].batches[0])
    assert dict(letter.headers)["__connect.errors.topic"] == b"t"


async def test_a_record_that_the_task_reports_is_a_dead_letter_before_its_offset(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    keys = {"errors__deadletterqueue__topic__name": "letters", "errors__tolerance": "all"}

    def report(task: KeepTask, given: Sequence[SinkRecord]) -> None:
        for record in given:
            if record.value == "3":
                reported: Any = task.context.report(record, ValueError("3 is odd"))
                reported.result(30)

    KeepTask.on_put = report
    async with cluster:
        cluster.create("t")
        cluster.create("letters")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("Keep", topics="t", **keys))
            await until(cluster, committed(group, 5))
    assert cluster.topics["letters"].partitions[0].values() == [b"3"]


async def test_a_task_may_report_more_records_than_fit_on_the_way_without_waiting(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    keys = {"errors__deadletterqueue__topic__name": "letters", "errors__tolerance": "all"}

    def report(task: KeepTask, given: Sequence[SinkRecord]) -> None:
        for record in given:
            task.context.report(record, ValueError("odd"))

    KeepTask.on_put = report
    async with cluster:
        cluster.create("t")
        cluster.create("letters")
        await produce(cluster, 1_500)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector("Keep", topics="t", **keys))
            await until(cluster, committed(group, 1_500))
            assert told.states(TASK) == ["RUNNING"]
    assert len(cluster.topics["letters"].partitions[0].values()) == 1_500


async def test_x_34_a_sink_that_asks_for_it_gets_the_same_batch_again_and_stays_a_member(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    tries: list[list[str]] = []

    def refuse(task: KeepTask, given: Sequence[SinkRecord]) -> None:
        tries.append(numbers(given))
        if len(tries) < 8:
            raise Retry("not yet", 20)

    KeepTask.on_put = refuse
    async with cluster:
        cluster.create("t")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector("Keep", topics="t"))
            await until(cluster, committed(group, 5))
            assert told.states(TASK) == ["RUNNING"]
    assert tries == [["0", "1", "2", "3", "4"]] * 8
    assert group.generation == 1


async def test_a_sink_may_seek_and_ask_for_a_commit(both: Both, tmp_path: Path) -> None:
    cluster, group = both

    def seek(task: KeepTask, given: Sequence[SinkRecord]) -> None:
        if len(KeepTask.kept) == 0:
            task.context.seek(T0, 3)
            task.context.request_commit()

    KeepTask.on_put = seek
    interval = {"offset_flush_interval_ms": "600000"}
    async with cluster:
        cluster.create("t")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path, **interval) as (worker, _):
            await start(worker, connector("Keep", topics="t"))
            await until(cluster, lambda: group.commits[:1] == [{T0: 3}])
            await until(cluster, lambda: len(KeepTask.kept) == 7)
    assert numbers(KeepTask.kept) == ["0", "1", "2", "3", "4", "3", "4"]


async def test_offsets_that_the_task_cannot_make_safe_are_read_again(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, group = both
    failures = [RuntimeError("disk full")]

    def flush(self: KeepTask, offsets: Any) -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(KeepTask, "flush", flush)
    async with cluster:
        cluster.create("t")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, _):
            await start(worker, connector("Keep", topics="t"))
            await until(cluster, committed(group, 5))
    assert numbers(KeepTask.kept) == ["0", "1", "2", "3", "4"] * 2


async def test_a_paused_sink_stays_a_member_and_is_given_nothing(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    async with cluster:
        cluster.create("t")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path) as (worker, told):
            await start(worker, connector("Keep", topics="t"))
            await until(cluster, committed(group, 5))
            worker.set_target("c", TargetState.PAUSED)
            await told.until_state(TASK, State.PAUSED)
            await produce(cluster, 5)
            worker.set_target("c", TargetState.STARTED)
            await told.until_state(TASK, State.RUNNING, 2)
            await until(cluster, committed(group, 10))
    assert group.generation == 1
    assert len(KeepTask.kept) == 10


async def test_x_12_a_sink_that_ignores_its_stop_commits_nothing_late(
    both: Both, tmp_path: Path
) -> None:
    cluster, group = both
    loop, inside, gate = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def hang(task: KeepTask, given: Sequence[SinkRecord]) -> None:
        loop.call_soon_threadsafe(inside.set)
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(30)

    KeepTask.on_put = hang
    limit = {"task_shutdown_graceful_timeout_ms": "1"}
    async with cluster:
        cluster.create("t")
        await produce(cluster, 5)
        async with running_worker(cluster.bootstrap, tmp_path, **limit) as (worker, told):
            await start(worker, connector("Keep", topics="t"))
            await inside.wait()
            await worker.stop_tasks([TASK])
            gate.set()
            await until(cluster, lambda: bool(cluster.sent(ApiKey.LEAVE_GROUP)))
            assert told.states(TASK) == ["RUNNING"]
    assert group.commits == []


async def test_x_21_wrong_offsets_of_a_sink_are_refused(both: Both, tmp_path: Path) -> None:
    cluster, _ = both
    props = connector("Keep", topics="t")
    async with (
        cluster,
        running_worker(cluster.bootstrap, tmp_path) as (worker, _told),
    ):
        for wrong in (
            {"partition": {"kafka_topic": "t"}, "offset": None},
            {"partition": {"kafka_topic": "t", "kafka_partition": -1}, "offset": None},
            {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"at": 1}},
            {},
        ):
            with pytest.raises(BadRequest):
                await worker.alter_offsets("c", props, [wrong])
