"""What clients measure: each value moved by its cause, and the table of all of them."""

import asyncio
import math
from typing import Any

import pytest

from minikafka import Admin as SyncAdmin
from minikafka import Consumer as SyncConsumer
from minikafka import Producer as SyncProducer
from minikafka.aio import Admin, Consumer, Producer
from minikafka.client.errors import BufferFull
from minikafka.client.measures import MEASURES, Measure
from minikafka.client.metrics import TimeSpent
from minikafka.client.network_metrics import NetworkMetrics
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode, Refuse, Silence
from .fake_group import install as install_group
from .fake_transactions import install as install_transactions
from .test_consumer import fill
from .test_group import member, read
from .test_producer import first_times
from .test_sync import cluster as cluster

THROTTLE_MS = 70


@pytest.fixture
def throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fake brokers say that they held produces and fetches back for THROTTLE_MS."""
    produce, fetch = fake_broker.produce, fake_broker.fetch

    def slow_produce(node: FakeNode, request: ProduceRequest) -> ProduceResponse | None:
        answer = produce(node, request)
        assert answer is not None
        answer.throttle_time_ms = THROTTLE_MS
        return answer

    async def slow_fetch(node: FakeNode, request: FetchRequest) -> FetchResponse:
        answer = await fetch(node, request)
        answer.throttle_time_ms = THROTTLE_MS
        return answer

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.PRODUCE, slow_produce)
    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.FETCH, slow_fetch)


def names(measures: tuple[Measure, ...]) -> list[str]:
    return sorted(measure.name for measure in measures)


async def test_the_table_names_what_clients_measure() -> None:
    async with FakeCluster() as cluster:
        async with Producer(cluster.bootstrap) as producer:
            assert sorted(producer.metrics()) == names(MEASURES["producer"])
        async with Consumer(cluster.bootstrap) as consumer:
            assert sorted(consumer.metrics()) == names(MEASURES["consumer"])
        async with Admin(cluster.bootstrap) as admin:
            assert sorted(admin.metrics()) == names(MEASURES["admin"])
    # Whatever is a rate of late, its total is measured too.
    for measures in MEASURES.values():
        every = names(measures)
        for measure in measures:
            stem = measure.name.partition("-rate")[0]
            assert not measure.is_rate or f"{stem}-total" in every
        assert len(every) == len(set(every))


# -- connections


def test_connections_requests_and_answers_are_counted() -> None:
    now = [10]
    network = NetworkMetrics(lambda: now[0])
    assert not network.latencies()
    for address in ("a:1", "a:1", "b:1"):
        network.on_opened(address)
    network.on_sent(100)
    network.on_sent(300)
    now[0] = 40
    network.on_answered("a:1", 50, 10)
    found = network.read()
    assert (found["connection-creation-total"], found["connection-count"]) == (3, 3)
    assert (found["request-total"], found["outgoing-byte-total"]) == (2, 400)
    assert (found["request-size-avg"], found["request-size-max"]) == (200, 300)
    assert (found["response-total"], found["incoming-byte-total"]) == (1, 50)
    assert found["network-io-total"] == 3
    assert network.latencies()["a:1"] == {"request-latency-avg": 30, "request-latency-max": 30}
    assert math.isnan(network.latencies()["b:1"]["request-latency-avg"])


def test_a_broker_is_forgotten_with_its_last_connection() -> None:
    network = NetworkMetrics(lambda: 5)
    network.on_opened("a:1")
    network.on_opened("a:1")
    network.on_closed("a:1")
    assert list(network.latencies()) == ["a:1"]
    network.on_closed("a:1")
    network.on_answered("a:1", 1, 1)
    assert network.latencies() == {}
    assert network.read()["connection-close-total"] == 2
    assert network.read()["connection-count"] == 0


async def test_an_admin_measures_its_connections() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Admin(cluster.bootstrap) as admin:
            before = admin.metrics()
            await admin.describe_topics(["t"])
            after = admin.metrics()
            assert after["connection-count"] == after["connection-creation-total"] == 1
            assert after["request-total"] == after["response-total"] > before["request-total"]
            assert after["outgoing-byte-total"] > before["outgoing-byte-total"]
            assert after["incoming-byte-total"] > before["incoming-byte-total"]
        last = admin.metrics()
        assert (last["connection-count"], last["connection-close-total"]) == (0, 1)


# -- time spent


def test_time_is_summed_up_by_kind_whatever_the_call_ends_in() -> None:
    now = [0]
    spent = TimeSpent(lambda: now[0], ("a", "b"))
    with spent.counted("a"), spent.counted("b"):
        now[0] += 3

    def fail() -> None:
        with spent.counted("a"):
            now[0] += 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert spent.read() == {"a-time-ns-total": 5_000, "b-time-ns-total": 3_000}


async def test_calls_of_a_transactional_producer_are_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, _ = install_transactions(monkeypatch, 2)
    async with cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, transactional_id="one") as producer:
            kinds = ("init", "begin", "send-offsets", "commit", "abort")
            timed = [f"txn-{kind}-time-ns-total" for kind in kinds]
            assert [producer.metrics()[name] > 0 for name in timed] == [True, *[False] * 4]
            async with producer.transaction():
                await producer.send("t", b"x")
                await producer.send_offsets({}, "g")
            await producer.begin_transaction()
            await producer.abort_transaction()
            await producer.flush()
            found = producer.metrics()
    assert all(found[name] > 0 for name in (*timed, "flush-time-ns-total"))


# -- producers


async def test_without_acknowledgements_records_are_counted_too() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, acks="0") as producer:
            await producer.send("t", b"x")
            found = producer.metrics()
    assert found["record-send-total"] == found["records-per-request-avg"] == 1
    assert math.isnan(found["request-latency-avg"])


@pytest.mark.usefixtures("throttled")
async def test_a_producer_tells_how_long_it_was_held_back() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
            assert producer.metrics()["produce-throttle-time-max"] == THROTTLE_MS


async def test_calls_that_wait_for_room_are_counted() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        asked = asyncio.Event()

        def ignore(node: FakeNode, key: int, request: Any) -> None:
            if key == ApiKey.PRODUCE:
                asked.set()
                raise Silence

        cluster.fault = ignore
        async with Producer(cluster.bootstrap, buffer_memory=100, max_block_ms=20) as producer:
            producer.send("t", b"x" * 100)
            async with asyncio.timeout(20):
                await asked.wait()
            with pytest.raises(BufferFull):
                producer.send("t", b"y")
            with pytest.raises(BufferFull):
                await producer.drain()
            found = producer.metrics()
            assert found["buffer-available-bytes"] == 0
            assert found["buffer-exhausted-total"] == 2
            assert found["bufferpool-wait-time-ns-total"] > 0
            assert found["waiting-threads"] == 0
            assert found["requests-in-flight"] == 1
            assert found["metadata-age"] >= 0
            await producer.close(0)


def test_threads_that_wait_for_room_are_counted(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.fault = first_times(1000, Silence())
    with SyncProducer(cluster.bootstrap, buffer_memory=100, max_block_ms=20) as producer:
        producer.send("t", b"x" * 100)
        with pytest.raises(BufferFull):
            producer.send("t", b"y")
        with pytest.raises(BufferFull):
            producer.send_batch("t", [])
        found = producer.metrics()
        assert found["buffer-exhausted-total"] == 2
        assert found["bufferpool-wait-time-ns-total"] > 0
        producer.close(0)


# -- consumers


async def test_a_consumer_tells_how_far_it_is_from_both_ends() -> None:
    async with FakeCluster() as cluster:
        part = cluster.create("t").partitions[0]
        fill(part, 20)
        async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            assert math.isnan(consumer.metrics()["records-lag-max"])
            assert math.isnan(consumer.metrics()["records-lead-min"])
            consumer.assign([("t", 0)])
            await read(consumer, 15)
            found = consumer.metrics()
            assert (found["records-lag-max"], found["records-lead-min"]) == (5, 15)


@pytest.mark.usefixtures("throttled")
async def test_a_consumer_tells_where_its_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = install_group(monkeypatch)
    fill(cluster.create("t").partitions[0], 20)
    async with cluster, member(cluster) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 20)
        await consumer.commit()
        await consumer.committed()
        await consumer.poll(30)
        found = consumer.metrics()
        assert found["fetch-throttle-time-avg"] == THROTTLE_MS
        assert found["commit-sync-time-ns-total"] > 0
        assert found["committed-time-ns-total"] > 0
        assert 0 < found["poll-idle-ratio-avg"] <= 1


# -- for ordinary code


def test_the_metrics_of_a_closed_client_can_be_read(cluster: FakeCluster) -> None:
    cluster.create("t")
    clients: list[Any] = [
        SyncProducer(cluster.bootstrap),
        SyncConsumer(cluster.bootstrap),
        SyncAdmin(cluster.bootstrap),
    ]
    for client in clients:
        with client:
            assert client.metrics()["connection-count"] > 0
            assert not client.is_closed
        assert client.is_closed
        assert client.metrics()["connection-count"] == 0
        assert client.metrics()["request-total"] > 0


async def test_a_refused_request_is_answered_all_the_same() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        cluster.fault = first_times(1, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
            found = producer.metrics()
    assert found["record-retry-total"] == 1
    assert found["request-total"] == found["response-total"]
