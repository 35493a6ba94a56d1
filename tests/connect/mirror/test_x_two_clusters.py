"""MM2's connectors between two real clusters: scenarios X-45 to X-49."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import pytest

from minikafka.aio import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from minikafka.client.admin.lag_types import PartitionLag
from minikafka.client.errors import BootstrapError
from minikafka.client.records import ConsumerRecord
from minikafka.connect.api import ConnectError
from minikafka.connect.mirror.checkpoint import MirrorCheckpoint
from minikafka.connect.mirror.codec import Checkpoint, Heartbeat
from minikafka.connect.mirror.heartbeat import MirrorHeartbeat
from minikafka.connect.mirror.mm2_config import CHECKPOINT, HEARTBEAT, SOURCE, Flow, Mm2Config
from minikafka.connect.mirror.source import MirrorSource
from minikafka.connect.mirror.status import GroupPlace, lines_of, places_of

from ...support.cluster import Cluster, running_cluster
from .small_worker import Context, Offsets, Running, running

pytestmark = [pytest.mark.slow, pytest.mark.processes]
names = (f"t{number}" for number in itertools.count())
CLASSES = {SOURCE: MirrorSource, CHECKPOINT: MirrorCheckpoint, HEARTBEAT: MirrorHeartbeat}
TO_B, TO_A = Flow("A", "B"), Flow("B", "A")


class Pair(NamedTuple):
    a: Cluster
    b: Cluster

    def props(self, flow: Flow, connector: str, keys: dict[str, str]) -> dict[str, str]:
        """The properties of a connector, as from a file with these keys too."""
        return Mm2Config(self.texts(keys)).connector_props(flow, connector)

    def texts(self, keys: dict[str, str]) -> dict[str, str]:
        return {
            "clusters": "A, B",
            "A.bootstrap.servers": self.a.bootstrap,
            "B.bootstrap.servers": self.b.bootstrap,
            "A->B.enabled": "true",
            "B->A.enabled": "true",
            "replication.factor": "1",
            "heartbeats.replication.enabled": "false",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.interval.seconds": "1",
            **{
                f"{each}.topic.replication.factor": "1"
                for each in ("offset-syncs", "checkpoints", "heartbeats")
            },
            **keys,
        }

    @asynccontextmanager
    async def run(
        self, flow: Flow, connector: str, keys: dict[str, str], offsets: Offsets | None = None
    ) -> AsyncIterator[Running]:
        props = self.props(flow, connector, keys)
        async with running(CLASSES[connector](), props, offsets) as one:
            yield one


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("mirror")
    keys = ("offsets.topic", "transaction.state.log")
    alone = {f"{key}.replication.factor": "1" for key in keys} | {
        "transaction.state.log.min.isr": "1"
    }
    with (
        running_cluster(directory / "a", broker_settings=alone) as a,
        running_cluster(directory / "b", broker_settings=alone) as b,
    ):
        yield Pair(a, b)


async def make(cluster: Cluster, topic: str, partitions: int = 1, **configs: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        keys = {key.replace("_", "."): value for key, value in configs.items()}
        await admin.create_topics([NewTopic(topic, partitions, 1, configs=keys)])


async def write(cluster: Cluster, topic: str, values: list[bytes], partition: int = 0) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
        await producer.flush()


async def read(cluster: Cluster, topic: str, count: int) -> list[ConsumerRecord]:
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        found: list[ConsumerRecord] = []
        async with asyncio.timeout(30):
            while len(found) < count:
                found += await consumer.poll(1000)
        return found


async def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.alter_group_offsets(group, {TopicPartition(topic, 0): offset})


async def committed(cluster: Cluster, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Wait until a group has committed offsets; nothing is told of that."""
    async with Admin(cluster.bootstrap) as admin, asyncio.timeout(30):
        while not (found := await admin.list_group_offsets(group)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


async def test_records_keep_partition_time_key_value_and_headers(pair: Pair) -> None:
    topic = next(names)
    await make(pair.a, topic, partitions=2)
    async with Producer(pair.a.bootstrap) as producer:
        headers = (("h", b"1"), ("null", None))
        await producer.send(
            topic, b"v", b"k", partition=1, timestamp_ms=1_700_000_000_000, headers=headers
        )
        await producer.send(topic, None, b"k", partition=0, timestamp_ms=1)
    async with pair.run(TO_B, SOURCE, {"topics": topic}) as mirror:
        await mirror.until(2)
    found = sorted(await read(pair.b, f"A.{topic}", 2), key=lambda each: each.partition)
    assert [each[1:] for each in found] == [
        (0, 0, 1, found[0].timestamp_type, b"k", None, ()),
        (1, 0, 1_700_000_000_000, found[1].timestamp_type, b"k", b"v", headers),
    ]


async def test_new_topics_partitions_and_settings_are_found_by_a_refresh(pair: Pair) -> None:
    one, other = next(names), next(names)
    await make(pair.a, one, retention_ms="1000000", min_insync_replicas="1")
    async with (
        pair.run(TO_B, SOURCE, {"topics": f"{one},{other}"}) as mirror,
        Admin(pair.a.bootstrap) as source,
        Admin(pair.b.bootstrap) as target,
    ):
        await source.create_partitions({one: 3})
        await source.create_topics([NewTopic(other, 2, 1)])
        connector = mirror.connector
        assert isinstance(connector, MirrorSource)
        await asyncio.to_thread(connector.refresh)
        assert mirror.context.reconfigured == 1
        assigned = [each["task.assigned.partitions"] for each in connector.task_configs(2)]
        assert [json.loads(each) for each in assigned] == [
            [[one, 0], [one, 2], [other, 1]],
            [[one, 1], [other, 0]],
        ]
        found = await target.describe_topics([f"A.{one}", f"A.{other}"])
        assert [len(each.partitions) for each in found.values()] == [3, 2]
        await asyncio.to_thread(connector.refresh)
        assert mirror.context.reconfigured == 1
        resource = ConfigResource.topic(f"A.{one}")
        configs = (await target.describe_configs([resource]))[resource]
        assert configs["retention.ms"].value == "1000000"


async def test_x_45_two_ways_by_default_make_no_loop_and_heartbeats_go_both_ways(
    pair: Pair,
) -> None:
    topic = next(names)
    for cluster, text in ((pair.a, b"from a"), (pair.b, b"from b")):
        await make(cluster, topic)
        await write(cluster, topic, [text])
    async with AsyncExitStack() as stack:
        beats = [
            await stack.enter_async_context(pair.run(flow, HEARTBEAT, {})) for flow in (TO_A, TO_B)
        ]
        for each in beats:
            await each.until(1)
        beating = {"heartbeats.replication.enabled": "true"}
        mirrors = [
            await stack.enter_async_context(
                pair.run(flow, SOURCE, {"topics": f".*{topic}", **beating})
            )
            for flow in (TO_B, TO_A)
        ]
        for each in mirrors:
            await each.until(2)
            assert isinstance(each.connector, MirrorSource)
            await asyncio.to_thread(each.connector.refresh)
        known = [
            {topic for topic, _ in json.loads(props["task.assigned.partitions"])}
            for mirror in mirrors
            for props in [mirror.connector.task_configs(1)[0]]
        ]
    assert known == [{topic, "heartbeats"}, {topic, "heartbeats"}]
    for cluster, other, text in ((pair.a, "B", b"from b"), (pair.b, "A", b"from a")):
        async with Admin(cluster.bootstrap) as admin:
            there = [each.name for each in await admin.list_topics()]
        assert [each for each in there if topic in each] == sorted([topic, f"{other}.{topic}"])
        assert [each.value for each in await read(cluster, f"{other}.{topic}", 1)] == [text]
        (beat, *_) = await read(cluster, f"{other}.heartbeats", 1)
        assert beat.key is not None
        assert beat.value is not None
        alias = "A" if other == "B" else "B"
        assert Heartbeat.decode(beat.key, beat.value)[:2] == (alias, other)


async def test_x_46_two_ways_of_the_same_name_make_no_loop_with_the_header(pair: Pair) -> None:
    topic = next(names)
    for cluster, text in ((pair.a, b"from a"), (pair.b, b"from b")):
        await make(cluster, topic)
        await write(cluster, topic, [text])
    keys = {
        "topics": topic,
        "replication.policy.class": "IdentityReplicationPolicy",
        "mirror.provenance.header": "true",
    }
    async with pair.run(TO_B, SOURCE, keys) as there, pair.run(TO_A, SOURCE, keys) as back:
        await there.until(1)
        await back.until(1)
        # What came from the other side is seen and dropped, which a new record behind it proves.
        await write(pair.a, topic, [b"again from a"])
        await write(pair.b, topic, [b"again from b"])
        await there.until(2)
        await back.until(2)
        assert (there.mirrored, back.mirrored) == (2, 2)
        (dropped,) = there.tasks[0].metrics().values()  # type: ignore[attr-defined]
        assert dropped["dropped-count"] >= 1
    everything = [b"again from a", b"again from b", b"from a", b"from b"]
    for cluster in pair:
        found = await read(cluster, topic, 4)
        assert sorted(each.value or b"" for each in found) == everything
        assert {len(each.headers) for each in found} == {0, 1}


async def test_x_47_a_group_that_moves_reads_each_record_and_few_again(pair: Pair) -> None:
    topic, group = next(names), f"group-{next(names)}"
    await make(pair.b, f"A.{topic}")
    await write(pair.b, f"A.{topic}", [b"older"] * 7)
    await make(pair.a, topic)
    await write(pair.a, topic, numbers(500))
    await commit(pair.a, group, topic, 430)
    keys = {
        "topics": topic,
        "groups": group,
        "offset.lag.max": "20",
        "sync.group.offsets.enabled": "true",
    }
    async with pair.run(TO_B, SOURCE, keys) as mirror:
        await mirror.until(500)
    async with pair.run(TO_B, CHECKPOINT, keys) as checkpoints:
        await checkpoints.until(1)
        moved = TopicPartition(f"A.{topic}", 0)
        found = await committed(pair.b, group)
    (record, *_) = await read(pair.b, "A.checkpoints.internal", 1)
    assert record.key is not None
    assert record.value is not None
    last = Checkpoint.decode(record.key, record.value)
    assert (last.group, last.partition, last.upstream) == (group, moved, 430)
    assert found[moved].offset == last.downstream
    again = 430 + 7 - last.downstream
    assert 0 <= again <= 20
    consumer = Consumer(pair.b.bootstrap, group_id=group, enable_auto_commit=False)
    async with consumer, asyncio.timeout(30):
        await consumer.subscribe([f"A.{topic}"])
        values: list[bytes | None] = []
        while len(values) < 70 + again:
            values += [each.value for each in await consumer.poll(1000)]
    assert values == numbers(70 + again, 430 - again)


async def test_x_48_a_translation_is_never_beyond_what_is_mirrored(pair: Pair) -> None:
    topic, group = next(names), f"group-{next(names)}"
    await make(pair.a, topic)
    async with Producer(pair.a.bootstrap, transactional_id=topic) as producer:
        for number in range(30):
            await producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            if number % 3 == 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    async with Admin(pair.a.bootstrap) as admin:
        end = (await admin.list_offsets({TopicPartition(topic, 0): -1}))[TopicPartition(topic, 0)]
    await commit(pair.a, group, topic, end.offset)
    keys = {
        "topics": topic,
        "groups": group,
        "sync.group.offsets.enabled": "true",
        "A.consumer.isolation.level": "read_committed",
    }
    async with pair.run(TO_B, SOURCE, keys) as mirror:
        await mirror.until(20)
        assert mirror.mirrored == 20
    moved = TopicPartition(f"A.{topic}", 0)
    async with pair.run(TO_B, CHECKPOINT, keys), Admin(pair.b.bootstrap) as admin:
        found = await committed(pair.b, group)
        lag = (await admin.describe_group_lag(group))[moved]
    assert found[moved].offset == 20
    assert isinstance(lag, PartitionLag)
    assert lag.records == 0


async def test_x_49_a_topic_made_anew_fails_and_is_never_mirrored_in_silence(pair: Pair) -> None:
    topic, offsets = next(names), Offsets()
    await make(pair.a, topic)
    await write(pair.a, topic, numbers(3))
    async with pair.run(TO_B, SOURCE, {"topics": topic}, offsets) as mirror:
        await mirror.until(3)
        async with Admin(pair.a.bootstrap) as admin:
            await admin.delete_topics([topic])
            await make(pair.a, topic)
        await write(pair.a, topic, numbers(9, 100))
        error = await mirror.ended()
    assert isinstance(error, ConnectError)
    assert f"A: {topic}-0: the topic was deleted and made anew" in str(error)
    with pytest.raises(ConnectError, match=r"made anew: records were lost.* Set on\.gap=earliest"):
        async with pair.run(TO_B, SOURCE, {"topics": topic}, offsets):
            raise AssertionError("it started")
    keys = {"topics": topic, "on.gap": "earliest"}
    async with pair.run(TO_B, SOURCE, keys, offsets) as mirror:
        await mirror.until(9)
        (metrics,) = mirror.tasks[0].metrics().values()  # type: ignore[attr-defined]
        assert metrics["gap-count"] == 1
    found = await read(pair.b, f"A.{topic}", 12)
    assert [each.value for each in found] == numbers(3) + numbers(9, 100)


async def test_records_that_retention_took_before_they_were_mirrored_fail_the_task(
    pair: Pair,
) -> None:
    topic, offsets = next(names), Offsets()
    await make(pair.a, topic)
    await write(pair.a, topic, numbers(3))
    async with pair.run(TO_B, SOURCE, {"topics": topic}, offsets) as mirror:
        await mirror.until(3)
    await write(pair.a, topic, numbers(5, 3))
    async with Admin(pair.a.bootstrap) as admin:
        await admin.delete_records({TopicPartition(topic, 0): 6})
    async with pair.run(TO_B, SOURCE, {"topics": topic}, offsets) as mirror:
        error = await mirror.ended()
    assert isinstance(error, ConnectError)
    assert "the log does not hold offset 3" in str(error)
    async with pair.run(TO_B, SOURCE, {"topics": topic, "on.gap": "earliest"}, offsets) as mirror:
        await mirror.until(2)
    assert [each.value for each in await read(pair.b, f"A.{topic}", 5)] == [
        *numbers(3),
        *numbers(2, 6),
    ]


async def test_the_end_of_a_transaction_that_retention_took_is_no_lost_record(pair: Pair) -> None:
    topic, offsets = next(names), Offsets()
    keys = {"topics": topic}
    await make(pair.a, topic)
    async with (
        Producer(pair.a.bootstrap, transactional_id=topic) as producer,
        producer.transaction(),
    ):
        producer.send(topic, b"1", partition=0)
    async with pair.run(TO_B, SOURCE, keys, offsets) as mirror:
        await mirror.until(1)
        await mirror.until_at(1)
    async with Admin(pair.a.bootstrap) as admin:
        await admin.delete_records({TopicPartition(topic, 0): 2})
    await write(pair.a, topic, [b"2"])
    async with pair.run(TO_B, SOURCE, keys, offsets) as mirror:
        await mirror.until(1)
    assert [each.value for each in await read(pair.b, f"A.{topic}", 2)] == [b"1", b"2"]


async def test_a_record_that_passed_the_target_counts_as_read(pair: Pair) -> None:
    topic, offsets = next(names), Offsets()
    await make(pair.a, topic)
    async with Admin(pair.b.bootstrap) as admin, Producer(pair.a.bootstrap) as producer:
        there = (await admin.describe_cluster()).cluster_id.encode()
        await producer.send(topic, b"1", partition=0)
        await producer.send(topic, b"2", partition=0, headers=(("minikafka-mirror", there),))
    keys = {"topics": topic, "mirror.provenance.header": "true"}
    async with pair.run(TO_B, SOURCE, keys, offsets) as mirror:
        await mirror.until(1)
        await mirror.until_at(1)
        assert mirror.mirrored == 1


async def test_the_status_tells_offsets_and_lags_at_both_ends(pair: Pair) -> None:
    topic, group, late = next(names), f"group-{next(names)}", f"group-{next(names)}"
    await make(pair.a, topic)
    await write(pair.a, topic, numbers(10))
    await commit(pair.a, group, topic, 7)
    keys = {"topics": topic, "groups": f"{group},{late}", "offset.lag.max": "0"}
    async with pair.run(TO_B, SOURCE, keys) as mirror:
        await mirror.until(10)
    async with pair.run(TO_B, CHECKPOINT, keys) as checkpoints:
        await checkpoints.until(1)
    await commit(pair.a, late, topic, 10)
    places = await places_of(Mm2Config(pair.texts(keys)), TO_B)
    assert places == [
        GroupPlace("A->B", group, topic, 0, 7, 10, 3, 7, 10, 3),
        GroupPlace("A->B", late, topic, 0, 10, 10, 0, None, 10, None),
    ]
    assert lines_of(places)[1].split() == f"A->B {group} {topic} 0 7 10 3 7 10 3".split()


async def test_a_flow_that_only_has_heartbeats_has_no_places_of_groups() -> None:
    texts = {
        "clusters": "A, B",
        "A.bootstrap.servers": "127.0.0.1:1",
        "B.bootstrap.servers": "127.0.0.1:1",
        "A->B.enabled": "true",
    }
    assert await places_of(Mm2Config(texts), TO_A) == []


async def test_a_topic_that_the_target_refuses_does_not_hold_up_the_others(pair: Pair) -> None:
    topic, long = next(names), "l" * 248
    await make(pair.a, topic)
    await make(pair.a, long)
    await write(pair.a, topic, [b"1"])
    async with pair.run(TO_B, SOURCE, {"topics": f"{topic},l*"}) as mirror:
        await mirror.until(1)
    assert [each.value for each in await read(pair.b, f"A.{topic}", 1)] == [b"1"]


async def test_heartbeats_need_no_source(pair: Pair) -> None:
    keys = {"A.bootstrap.servers": "127.0.0.1:1", "A.bootstrap.timeout.ms": "100"}
    async with pair.run(TO_B, HEARTBEAT, keys) as beats:
        await beats.until(1)


async def test_a_source_that_does_not_answer_fails_connector_and_task(pair: Pair) -> None:
    keys = {"A.bootstrap.servers": "127.0.0.1:1", "A.bootstrap.timeout.ms": "100"}
    with pytest.raises(BootstrapError):
        async with pair.run(TO_B, SOURCE, keys):
            raise AssertionError("it started")
    props = pair.props(TO_B, SOURCE, keys) | {"task.assigned.partitions": '[["t", 0]]'}
    with pytest.raises(BootstrapError):
        await MirrorSource.task().start(props, Context(Offsets()))
    groups = pair.props(TO_B, CHECKPOINT, keys) | {"task.assigned.groups": '["g"]'}
    with pytest.raises(BootstrapError):
        await MirrorCheckpoint.task().start(groups, Context(Offsets()))
