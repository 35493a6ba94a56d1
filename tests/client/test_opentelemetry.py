"""What OpenTelemetry is told of clients: names, attributes, and from where it may collect."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from minikafka import Admin as SyncAdmin
from minikafka import Consumer as SyncConsumer
from minikafka import Producer as SyncProducer
from minikafka.aio import Admin, Consumer, Producer
from minikafka.client.measures import MEASURES

from .fake_broker import FakeCluster
from .test_consumer import fill
from .test_group import read
from .test_sync import cluster as cluster

pytest.importorskip("opentelemetry.sdk.metrics")

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum

from minikafka.client import opentelemetry
from minikafka.client.opentelemetry import CLOSED_KEPT, observe

SENT = "messaging.client.sent.messages"
CONSUMED = "messaging.client.consumed.messages"

Points = dict[str, dict[str, tuple[float, dict[str, Any]]]]


class Reader:
    """A meter provider, and what it collects."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def points(self) -> Points:
        """Values and attributes by metric and client id."""
        found: Points = {}
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "minikafka"
                for metric in scope.metrics:
                    assert isinstance(metric.data, Sum) == is_total(metric.name), metric.name
                    for point in metric.data.data_points:
                        assert isinstance(point, NumberDataPoint)
                        attributes = dict(point.attributes or {})
                        at = found.setdefault(metric.name, {})
                        at[str(attributes["messaging.client.id"])] = (point.value, attributes)
        return found


def is_total(name: str) -> bool:
    return name.endswith("_total") or name.startswith("messaging.")


async def test_a_producer_is_reported_under_the_names_of_the_conventions() -> None:
    reader = Reader()
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap, client_id="p") as producer:
            observe(producer, reader.provider)
            for _ in range(3):
                await producer.send("t", b"x")
            points = reader.points()
            assert points[SENT]["p"] == (
                3,
                {
                    "messaging.system": "kafka",
                    "messaging.client.id": "p",
                    "messaging.operation.name": "send",
                },
            )
            assert points["kafka.producer.response_total"]["p"][0] >= 3
            assert points["kafka.producer.request_latency_avg"]["p"][0] >= 0
            assert points["kafka.producer.buffer_total_bytes"]["p"][0] == 33_554_432
            assert "kafka.producer.record_send_rate" not in points
            assert "kafka.producer.compression_rate_avg" in points
            assert "kafka.producer.record_send_total" not in points


async def test_a_consumer_is_reported_with_its_group() -> None:
    reader = Reader()
    async with FakeCluster() as cluster:
        fill(cluster.create("t").partitions[0], 20)
        async with Consumer(
            cluster.bootstrap,
            client_id="c",
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            observe(consumer, reader.provider)
            consumer.assign([("t", 0)])
            consumer.seek(("t", 0), 0)
            await read(consumer, 15)
            points = reader.points()
            value, attributes = points[CONSUMED]["c"]
            assert value == 15
            assert attributes["messaging.operation.name"] == "poll"
            assert attributes["messaging.consumer.group.name"] == "g"
            assert points["kafka.consumer.records_lag_max"]["c"][0] == 5
            # Nothing was committed, so there is no value to be told.
            assert "kafka.consumer.commit_latency_avg" not in points


async def test_all_that_has_a_value_is_reported() -> None:
    reader = Reader()
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        observe(admin, reader.provider)
        found = reader.points()
    names = [one.name for one in MEASURES["admin"] if not one.is_rate]
    assert sorted(found) == sorted(f"kafka.admin.{name.replace('-', '_')}" for name in names)


async def test_collecting_in_another_thread_reads_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, here = Reader(), threading.get_ident()
    async with FakeCluster() as cluster, Producer(cluster.bootstrap) as producer:
        observe(producer, reader.provider)
        read_in: list[int] = []
        metrics = producer.metrics

        def noted() -> dict[str, float]:
            read_in.append(threading.get_ident())
            return metrics()

        monkeypatch.setattr(producer, "metrics", noted)
        points = await asyncio.to_thread(reader.points)
    assert points["kafka.producer.connection_count"]["minikafka"][0] == 1
    assert read_in == [here], "one collection reads a client once"


async def test_a_loop_that_is_busy_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opentelemetry, "WAIT_S", 0.05)
    reader, found = Reader(), list[Points]()
    async with FakeCluster() as cluster, Producer(cluster.bootstrap) as producer:
        observe(producer, reader.provider)
        thread = threading.Thread(target=lambda: found.append(reader.points()))
        thread.start()
        thread.join(60)  # without an await: the loop is busy until the collection has ended
        assert found == [{}]
        assert reader.points()


async def test_a_closed_client_is_reported_once_more() -> None:
    reader = Reader()
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Producer(cluster.bootstrap) as producer:
            observe(producer, reader.provider)
            await producer.send("t", b"x")
    assert reader.points()[SENT]["minikafka"][0] == 1
    assert reader.points() == {}
    assert reader.points() == {}


async def test_clients_of_the_same_id_are_told_apart() -> None:
    reader = Reader()
    async with FakeCluster() as cluster:
        cluster.create("t")
        async with Consumer(cluster.bootstrap) as consumer:
            async with Producer(cluster.bootstrap) as first, Producer(cluster.bootstrap) as second:
                for client in (first, second, consumer):
                    observe(client, reader.provider)
                await second.send("t", b"x")
                points = reader.points()
                assert {at: value for at, (value, _) in points[SENT].items()} == {
                    "minikafka": 0,
                    "minikafka-2": 1,
                }
                assert list(points[CONSUMED]) == ["minikafka-3"]
            reader.points()
            reader.points()
            async with Producer(cluster.bootstrap) as third:
                observe(third, reader.provider)
                assert list(reader.points()[SENT]) == ["minikafka"], "a free name is used again"


def test_clients_for_ordinary_code_are_observed_too(cluster: FakeCluster) -> None:
    cluster.create("t")
    reader = Reader()
    with (
        SyncProducer(cluster.bootstrap, client_id="p") as producer,
        SyncConsumer(cluster.bootstrap, client_id="c") as consumer,
        SyncAdmin(cluster.bootstrap, client_id="a") as admin,
    ):
        for client in (producer, consumer, admin):
            observe(client, reader.provider)
        seen: list[Points] = []
        producer.send("t", b"x", on_delivery=lambda *_: seen.append(reader.points())).result(5)
        producer.flush()
        assert seen[0][SENT]["p"][0] == 1, "a callback may collect"
        points = reader.points()
        assert points["kafka.consumer.connection_count"]["c"][0] > 0
        assert points["kafka.admin.request_total"]["a"][0] > 0
    assert reader.points()[SENT]["p"][0] == 1
    assert reader.points() == {}


async def test_what_nobody_collects_is_bounded() -> None:
    provider = NoOpMeterProvider()
    async with FakeCluster() as cluster:
        for _ in range(CLOSED_KEPT + 6):
            async with Admin(cluster.bootstrap) as admin:
                observe(admin, provider)
    assert len(opentelemetry._instruments_of(provider)._sources) <= CLOSED_KEPT + 1


async def test_only_clients_are_observed() -> None:
    with pytest.raises(TypeError, match="of minikafka, not 'x'"):
        observe("x", NoOpMeterProvider())  # type: ignore[arg-type]


def test_an_asyncio_client_is_observed_on_its_loop() -> None:
    async def make() -> Producer:
        return Producer("127.0.0.1:1")

    producer = asyncio.run(make())
    with pytest.raises(RuntimeError, match="running event loop"):
        observe(producer, NoOpMeterProvider())


GLOBAL = """
import asyncio
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from minikafka.aio import Consumer, Producer
from minikafka.client.opentelemetry import observe

async def main():
    observe(Producer("127.0.0.1:1"))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    set_meter_provider(provider)
    observe(Consumer("127.0.0.1:1"))
    observe(Producer("127.0.0.1:1"), provider)
    data = reader.get_metrics_data()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        if metric.name.endswith("connection_count"):
            for point in metric.data.data_points:
                print(metric.name, point.attributes["messaging.client.id"])

asyncio.run(main())
"""


def test_the_global_provider_may_be_set_after_the_first_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GLOBAL], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "kafka.producer.connection_count minikafka",
        "kafka.producer.connection_count minikafka-3",
        "kafka.consumer.connection_count minikafka-2",
    ]
    assert "conflict" not in done.stderr


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import minikafka.client.opentelemetry"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install 'minikafka[opentelemetry]'" in done.stderr
