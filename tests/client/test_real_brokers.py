"""Our clients against real processes: what only a real cluster can show."""

import asyncio
import itertools
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minikafka import Admin as SyncAdmin
from minikafka import Consumer as SyncConsumer
from minikafka import Producer as SyncProducer
from minikafka import RetryPolicy
from minikafka.aio import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.client.admin.config_types import ConfigChange, ConfigResource
from minikafka.client.errors import AdminError, DeliveryTimeout
from minikafka.client.records import ConsumerRecord, RecordMetadata
from minikafka.protocol.errors import ErrorCode

from ..support.cluster import Cluster, running_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]
names = (f"t{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    metrics = {"metrics.listener": "127.0.0.1:0"}
    directory = tmp_path_factory.mktemp("clients")
    with running_cluster(directory, brokers=3, broker_settings=metrics) as one:
        yield one


@asynccontextmanager
async def new_topic(cluster: Cluster, partitions: int = 1) -> AsyncIterator[tuple[Admin, str]]:
    async with Admin(cluster.bootstrap) as admin:
        name = next(names)
        await admin.create_topics([NewTopic(name, partitions, 3)])
        yield admin, name


async def until_in_sync(admin: Admin, topic: str, size: int = 3) -> int:
    """Wait until so many replicas of partition 0 are in sync; give its leader."""
    async with asyncio.timeout(30):
        while True:
            (part, *_) = (await admin.describe_topics([topic]))[topic].partitions
            if len(part.isr) == size and part.leader_id > 0:
                return part.leader_id
            await asyncio.sleep(0.05)


async def read_all(cluster: Cluster, topic: str) -> list[ConsumerRecord]:
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.subscribe([topic])
        ends = await consumer.end_offsets(consumer.assignment())
        got: list[ConsumerRecord] = []
        async with asyncio.timeout(60):
            for partition, end in ends.items():
                while await consumer.position(partition) < end:
                    got += await consumer.poll(500, 5_000)
        return got


class Load:
    """Records in a row, one after the other, until told to stop; what was acknowledged where."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.failed: list[object] = []
        self._producer = producer
        self._topic = topic
        self._stop = asyncio.Event()
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._stop.is_set():
            number = self.sent
            self.sent += 1

            def done(error: object, sent: RecordMetadata | None, number: int = number) -> None:
                if sent is None:
                    self.failed.append(error)
                else:
                    self.acknowledged[number] = sent.offset
                self._news.set()

            self._producer.send(self._topic, b"%d" % number, on_delivery=done)
            await asyncio.sleep(0.001)

    async def until_more(self, count: int) -> None:
        target = len(self.acknowledged) + count
        async with asyncio.timeout(30):
            while len(self.acknowledged) < target:
                self._news.clear()
                await self._news.wait()

    async def stop(self) -> None:
        self._stop.set()
        await self._task
        await self._producer.flush()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_back_as_they_were_sent(cluster: Cluster, codec: str) -> None:
    async with new_topic(cluster, partitions=3) as (_, topic):
        async with Producer(cluster.bootstrap, compression_type=codec) as producer:
            deliveries = [
                producer.send(
                    topic,
                    None if n % 10 == 0 else b"v%d" % n * (n % 50),
                    None if n % 3 else b"k%d" % n,
                    headers=[("h", b"%d" % n), ("null", None)] if n % 2 else (),
                    timestamp_ms=1_700_000_000_000 + n,
                )
                for n in range(1000)
            ]
            sent = [await delivery for delivery in deliveries]
        where = {(one.topic, one.partition, one.offset): n for n, one in enumerate(sent)}
        got = await read_all(cluster, topic)
        assert len(got) == 1000
        for record in got:
            n = where[record.topic, record.partition, record.offset]
            assert record.value == (None if n % 10 == 0 else b"v%d" % n * (n % 50))
            assert record.key == (None if n % 3 else b"k%d" % n)
            assert tuple(record.headers) == ((("h", b"%d" % n), ("null", None)) if n % 2 else ())
            assert record.timestamp_ms == 1_700_000_000_000 + n


async def test_killed_leaders_lose_duplicate_and_reorder_nothing(cluster: Cluster) -> None:
    async with new_topic(cluster) as (admin, topic):
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            load = Load(producer, topic)
            for _ in range(2):
                leader = await until_in_sync(admin, topic)
                await load.until_more(200)
                await asyncio.to_thread(cluster.broker(leader).kill)
                await load.until_more(500)
                await asyncio.to_thread(cluster.broker(leader).start)
            await load.stop()
        got = await read_all(cluster, topic)
        assert load.failed == []
        assert [int(record.value or b"") for record in got] == list(range(load.sent))
        assert {n: got[n].offset for n in range(load.sent)} == load.acknowledged
        await until_in_sync(admin, topic)


async def test_a_stopped_leader_is_left_and_may_come_back(cluster: Cluster) -> None:
    async with new_topic(cluster) as (admin, topic):
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            load = Load(producer, topic)
            leader = await until_in_sync(admin, topic)
            await load.until_more(100)
            cluster.broker(leader).signal(signal.SIGSTOP)
            try:
                await load.until_more(2_000)
            finally:
                cluster.broker(leader).signal(signal.SIGCONT)
            await load.until_more(500)
            await load.stop()
        got = await read_all(cluster, topic)
        assert load.failed == []
        assert [int(record.value or b"") for record in got] == list(range(load.sent))
        await until_in_sync(admin, topic)


async def test_a_reader_follows_killed_leaders(cluster: Cluster) -> None:
    async with new_topic(cluster) as (admin, topic):
        async with (
            Producer(cluster.bootstrap, linger_ms=0) as producer,
            Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([(topic, 0)])
            seen: list[int] = []

            async def read(count: int) -> None:
                target = len(seen) + count
                async with asyncio.timeout(30):
                    while len(seen) < target:
                        seen.extend(int(r.value or b"") for r in await consumer.poll(500))

            load = Load(producer, topic)
            leader = await until_in_sync(admin, topic)
            await read(200)
            await asyncio.to_thread(cluster.broker(leader).kill)
            await read(500)
            await asyncio.to_thread(cluster.broker(leader).start)
            await load.stop()
            await read(load.sent - len(seen))
        assert seen == list(range(load.sent))
        await until_in_sync(admin, topic)


async def test_too_few_replicas_are_waited_for_until_the_deadline(cluster: Cluster) -> None:
    async with new_topic(cluster) as (admin, topic):
        await admin.incremental_alter_configs(
            {ConfigResource.topic(topic): [ConfigChange("min.insync.replicas", "3")]}
        )
        await until_in_sync(admin, topic)
        async with Producer(cluster.bootstrap, linger_ms=0, delivery_timeout_ms=1_500) as producer:
            await producer.send(topic, b"all three")
            leader = await until_in_sync(admin, topic)
            victim = next(n for n in (1, 2, 3) if n != leader)
            await asyncio.to_thread(cluster.broker(victim).kill)
            await until_in_sync(admin, topic, size=2)
            try:
                with pytest.raises(DeliveryTimeout, match="NOT_ENOUGH_REPLICAS"):
                    await producer.send(topic, b"too few")
            finally:
                await asyncio.to_thread(cluster.broker(victim).start)
            await until_in_sync(admin, topic)
            await producer.send(topic, b"three again")


async def test_the_admin_does_what_it_says(cluster: Cluster) -> None:
    async with new_topic(cluster, partitions=2) as (admin, topic):
        with pytest.raises(AdminError) as caught:
            await admin.create_topics([NewTopic(topic, 1, 1)])
        assert caught.value.errors[topic].code is ErrorCode.TOPIC_ALREADY_EXISTS
        await admin.create_partitions({topic: 5})
        described = (await admin.describe_topics([topic]))[topic]
        assert [one.partition for one in described.partitions] == [0, 1, 2, 3, 4]
        assert all(len(one.replicas) == 3 for one in described.partitions)
        resource = ConfigResource.topic(topic)
        await admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "12345")]})
        async with asyncio.timeout(10):
            while True:
                entry = (await admin.describe_configs([resource]))[resource]["retention.ms"]
                if entry.value == "12345":
                    break
                await asyncio.sleep(0.02)
        assert not entry.is_default
        broker = ConfigResource.broker(2)
        assert (await admin.describe_configs([broker]))[broker]["node.id"]
        cluster_view = await admin.describe_cluster()
        assert [one.node_id for one in cluster_view.brokers] == [1, 2, 3]
        offsets = await admin.list_offsets({TopicPartition(topic, 4): -1})
        assert offsets[TopicPartition(topic, 4)].offset == 0
        await admin.delete_topics([topic])
        async with asyncio.timeout(10):
            while True:
                if topic not in [one.name for one in await admin.list_topics()]:
                    break
                await asyncio.sleep(0.02)


async def test_offsets_by_time(cluster: Cluster) -> None:
    async with new_topic(cluster) as (_, topic):
        async with Producer(cluster.bootstrap, batch_size=100, linger_ms=0) as producer:
            for n in range(100):
                await producer.send(topic, b"%d" % n, timestamp_ms=1_000 * n)
        partition = TopicPartition(topic, 0)
        async with Consumer(cluster.bootstrap) as consumer:
            found = (await consumer.offsets_for_times({partition: 49_500}))[partition]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (50, 50_000)
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 100}


def test_the_sync_twins(cluster: Cluster, tmp_path: Path) -> None:
    topic = next(names)
    with SyncProducer(cluster.bootstrap, compression_type="lz4") as producer:
        for n in range(20_000):
            producer.send(topic, b"%d" % n, partition=0)
    with SyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        got = [int(next(consumer).value or b"") for _ in range(20_000)]
    assert got == list(range(20_000))


def shown(cluster: Cluster, name: str, instance_id: str) -> float:
    """The newest value that any broker shows of a client, NaN if none does."""
    found = [float("nan")]
    for node_id in (1, 2, 3):
        host, port = cluster.broker(node_id).ready["metrics"]
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=20) as response:
            families = text_string_to_metric_families(response.read().decode())
        found += [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and sample.labels["client_instance_id"] == instance_id
        ]
    return max(found[1:], default=found[0])


def test_a_client_s_metrics_are_shown_by_its_broker(cluster: Cluster) -> None:
    name, total = next(names), "kafka_client_producer_record_send_total"
    with SyncAdmin(cluster.bootstrap) as admin:
        wanted = {"metrics": "org.apache.kafka.producer.", "interval.ms": "100"}
        subscription = ConfigResource.client_metrics("ours")
        admin.incremental_alter_configs(
            {subscription: [ConfigChange(key, value) for key, value in wanted.items()]}
        )
        admin.create_topics([NewTopic(name, 1, 3)])
        with SyncProducer(cluster.bootstrap, enable_metrics_push=False) as silent:
            # All three brokers have it, so all have followed the metadata beyond the subscription.
            silent.send(name, b"0").result(20)
        with SyncProducer(cluster.bootstrap) as producer:
            me = producer.client_instance_id(timeout_ms=20_000)
            producer.send(name, b"1").result(20)
            wait_until(lambda: shown(cluster, total, me) == 1)
            producer.send(name, b"2").result(20)
        assert shown(cluster, total, me) == 2, "the last push tells the rest"


def test_the_sync_worker_keeps_the_records_of_a_key_in_order(cluster: Cluster) -> None:
    """R-46, with a member that leaves in between."""
    topic, group = next(names), next(names)
    with SyncAdmin(cluster.bootstrap) as admin, SyncProducer(cluster.bootstrap) as producer:
        admin.create_topics([NewTopic(topic, 2, 3)])
        for number in range(20):
            for key in (b"a", b"b"):
                producer.send(topic, b"%s%d" % (key, number), key, partition=1)
        producer.flush()
    fails = {b"a0": 2, b"a7": 1}
    handled: list[bytes] = []

    def run_until(count: int) -> None:
        with (
            SyncConsumer(
                cluster.bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                partition_assignment_strategy="range",
            ) as consumer,
            consumer.with_retries(RetryPolicy(backoff_ms=(300, 600), order="key")) as worker,
        ):

            def handle(record: ConsumerRecord) -> None:
                assert record.value is not None
                if fails.get(record.value, 0):
                    fails[record.value] -= 1
                    raise ValueError("not yet")
                handled.append(record.value)
                if len(handled) == count:
                    worker.stop()

            worker.subscribe([topic])
            worker.run(handle)

    run_until(25)
    run_until(40)
    for key in (b"a", b"b"):
        ends = [each for each in handled if each.startswith(key)]
        assert ends == [b"%s%d" % (key, number) for number in range(20)]
    assert handled.index(b"b19") < handled.index(b"a0"), "b is not held up"
