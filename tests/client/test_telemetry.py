"""Clients that push their metrics to brokers (KIP-714), against brokers that ask for them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from minikafka import Producer as SyncProducer
from minikafka.aio import Admin, Consumer, Producer
from minikafka.client.errors import ClientClosed, RequestTimedOut
from minikafka.client.net.backoff import Backoff
from minikafka.client.telemetry import pushing
from minikafka.protocol.api import ApiKey
from minikafka.protocol.compression import Codec
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.otlp import Pushed
from minikafka.protocol.types import ZERO_UUID, uuid_to_text

from .fake_broker import FakeCluster, FakeNode, Silence
from .fake_group import install as install_group
from .fake_telemetry import INSTANCE, FakeTelemetry, install
from .test_group import member, read
from .test_sync import cluster as cluster

PREFIX = "org.apache.kafka."
Setup = tuple[FakeCluster, FakeTelemetry]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    return install(monkeypatch)


async def until(cluster: FakeCluster, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        await cluster.until(condition)


async def two_pushes(setup: Setup) -> None:
    """Wait for two pushes, of which the second was made after the call."""
    cluster, telemetry = setup
    seen = len(telemetry.pushes)
    await until(cluster, lambda: len(telemetry.pushes) >= seen + 2)


def values(pushed: Pushed) -> dict[str, float]:
    return {
        sample.name.removeprefix(PREFIX): sample.value
        for sample in pushed.samples
        if not sample.attributes
    }


async def test_a_client_asks_and_pushes_until_it_is_closed(setup: Setup) -> None:
    cluster, telemetry = setup
    async with cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
            assert await producer.client_instance_id() == uuid_to_text(INSTANCE)
            await until(cluster, lambda: len(telemetry.pushes) >= 3)
    assert [request.client_instance_id for request in telemetry.asked] == [ZERO_UUID]
    requests = [request for request, _ in telemetry.pushes]
    assert [request.terminating for request in requests] == [False] * (len(requests) - 1) + [True]
    assert {request.client_instance_id for request in requests} == {INSTANCE}
    assert {request.compression_type for request in requests} == {int(Codec.ZSTD)}
    last = telemetry.pushes[-1][1]
    assert values(last)["producer.record.send.total"] == 1
    assert [sample.name for sample in last.samples if sample.attributes == {"node_id": "1"}] == [
        "org.apache.kafka.producer.node.request.latency.avg",
        "org.apache.kafka.producer.node.request.latency.max",
    ]


async def test_growth_is_pushed_where_that_is_asked_for(setup: Setup) -> None:
    cluster, telemetry = setup
    telemetry.is_delta = True
    telemetry.metrics = [PREFIX + "producer.record.send.total"]
    async with cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            for _ in range(3):
                await producer.send("t", b"x")
                await two_pushes(setup)
    pushed = [values(each) for _, each in telemetry.pushes]
    assert sum(each["producer.record.send.total"] for each in pushed) == 3
    assert pushed[-1] == {"producer.record.send.total": 0}


async def test_a_consumer_says_whose_member_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _, telemetry = install(monkeypatch)
    cluster, group = install_group(monkeypatch)
    async with cluster:
        cluster.create("t")
        async with member(cluster, client_rack="r1") as consumer:
            await consumer.subscribe(["t"])
            async with asyncio.timeout(20):
                while not consumer.assignment():
                    await consumer.poll(100)
            (name,) = group.members
            await two_pushes((cluster, telemetry))
            _, pushed = telemetry.pushes[-1]
    assert pushed.resource == {"client_rack": "r1", "group_id": "g", "group_member_id": name}
    assert values(pushed)["consumer.coordinator.assigned.partitions"] == 1


async def test_where_nothing_is_wanted_clients_ask_and_push_nothing(setup: Setup) -> None:
    cluster, telemetry = setup
    telemetry.metrics = []
    async with cluster:
        async with Admin(cluster.bootstrap) as admin:
            await until(cluster, lambda: len(telemetry.asked) >= 3)
            assert await admin.client_instance_id() == uuid_to_text(INSTANCE)
        assert telemetry.pushes == []
        assert [request.client_instance_id for request in telemetry.asked[:2]] == [
            ZERO_UUID,
            INSTANCE,
        ]


async def test_with_brokers_that_take_no_metrics_nothing_runs() -> None:
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"x")
            reporter = producer._engine.reporter
            assert not reporter._has_begun
            assert reporter._timer is None
            with pytest.raises(RequestTimedOut, match="do they take metrics"):
                await producer.client_instance_id(timeout_ms=10)
        assert cluster.sent(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS) == []


async def test_a_client_can_be_told_to_push_nothing(setup: Setup) -> None:
    cluster, telemetry = setup
    async with cluster:
        async with Consumer(cluster.bootstrap, enable_metrics_push=False) as consumer:
            await consumer.partitions_for(cluster.create("t").name)
            with pytest.raises(ValueError, match=r"enable\.metrics\.push"):
                await consumer.client_instance_id()
        assert telemetry.asked == []


async def test_a_subscription_that_changes_is_asked_for_under_the_same_id(setup: Setup) -> None:
    cluster, telemetry = setup
    async with cluster, Admin(cluster.bootstrap):
        await until(cluster, lambda: bool(telemetry.pushes))
        telemetry.subscription_id = 2
        telemetry.metrics = [PREFIX + "admin.client.request."]
        telemetry.codecs = [Codec.NONE]
        seen = len(telemetry.pushes)
        await until(cluster, lambda: len(telemetry.pushes) > seen)
        request, pushed = telemetry.pushes[seen]
        assert (request.subscription_id, request.compression_type) == (2, 0)
        assert all(".request." in sample.name for sample in pushed.samples)
        assert [one.client_instance_id for one in telemetry.asked] == [ZERO_UUID, INSTANCE]


async def test_a_broker_that_refuses_for_good_is_asked_no_more(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, telemetry = setup
    telemetry.ask_codes = [ErrorCode.INVALID_REQUEST]
    async with cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            await until(cluster, lambda: bool(telemetry.asked))
            await producer.send("t", b"x")
            await until(cluster, lambda: "none are pushed any more" in caplog.text)
            assert producer._engine.reporter._timer is None
    assert len(telemetry.asked) == 1
    (warned,) = [each for each in caplog.records if "INVALID_REQUEST" in each.message]
    assert warned.levelno == logging.WARNING


async def test_pushes_go_on_when_the_broker_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "RETRY", Backoff(5, 20))
    cluster, telemetry = install(monkeypatch, nodes=2)
    by: list[int] = []

    def note(node: FakeNode, key: int, request: Any) -> None:
        if key == ApiKey.PUSH_TELEMETRY:
            by.append(node.node_id)

    cluster.fault = note
    async with cluster, Admin(cluster.bootstrap):
        await until(cluster, lambda: bool(by))
        dead = by[-1]
        await cluster.nodes[dead].stop()
        seen = len(telemetry.pushes)
        await until(cluster, lambda: len(telemetry.pushes) > seen + 1)
        assert by[-1] != dead


async def test_closing_does_not_wait_for_a_broker_that_is_silent(setup: Setup) -> None:
    cluster, telemetry = setup

    def ignore(node: FakeNode, key: int, request: Any) -> None:
        if key == ApiKey.PUSH_TELEMETRY:
            raise Silence

    async with cluster:
        producer = await Producer(cluster.bootstrap).start()
        await until(cluster, lambda: bool(telemetry.pushes))
        cluster.fault = ignore
        async with asyncio.timeout(20):
            await producer.close(timeout_ms=10)
        assert producer.is_closed


async def test_a_client_that_closes_wakes_who_waits_for_its_id() -> None:
    async with FakeCluster() as cluster:
        producer = await Producer(cluster.bootstrap).start()
        waiting = asyncio.ensure_future(producer.client_instance_id(timeout_ms=60_000))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(ClientClosed):
            async with asyncio.timeout(20):
                await waiting


async def test_a_group_that_is_read_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, telemetry = install(monkeypatch)
    async with cluster:
        part = cluster.create("t").partitions[0]
        async with Producer(cluster.bootstrap) as producer:
            for number in range(5):
                await producer.send("t", b"%d" % number)
        async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            await read(consumer, 5)
        assert part.log_end_offset == 5
    request, pushed = telemetry.pushes[-1]
    assert request.terminating
    assert values(pushed)["consumer.fetch.manager.records.consumed.total"] == 5
    assert values(pushed)["consumer.fetch.manager.records.lag.max"] == 0


def test_clients_for_ordinary_code_push_too(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    made, telemetry = install(monkeypatch)
    cluster.versions = made.versions
    with SyncProducer(cluster.bootstrap) as producer:
        assert producer.client_instance_id(timeout_ms=20_000) == uuid_to_text(INSTANCE)
    assert telemetry.pushes[-1][0].terminating
