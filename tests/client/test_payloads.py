"""The bytes that a client pushes, read back by the reader of brokers."""

from dataclasses import replace
from math import nan

import pytest

from minikafka.client.measures import MEASURES
from minikafka.client.telemetry.payloads import Payloads, Reading
from minikafka.client.telemetry.pushing import Subscription
from minikafka.protocol.compression import Codec
from minikafka.protocol.otlp import Pushed, read_metrics

WANTED = Subscription(bytes(16), 1, 1_000, Codec.NONE, 1 << 20, False, ("*",))
KAFKA = "org.apache.kafka."


def reading(now_ns: int, labels: dict[str, str] | None = None, **values: float) -> Reading:
    """A producer's metrics, NaN but for `values`, whose names have underscores."""
    every = {measure.name: nan for measure in MEASURES["producer"]}
    every |= {name.replace("_", "-"): value for name, value in values.items()}
    latencies = {1: {"request-latency-avg": 2.5, "request-latency-max": nan}}
    return Reading(now_ns, every, latencies, labels or {})


def read(data: bytes) -> Pushed:
    return read_metrics(data, samples_max=1_000, fields_max=30_000)


def values(data: bytes) -> dict[str, float]:
    return {sample.name.removeprefix(KAFKA): sample.value for sample in read(data).samples}


def test_totals_are_sums_and_all_else_is_a_gauge() -> None:
    made = Payloads("producer", 5)
    data = made.make(
        reading(9, {"transactional_id": "t"}, request_total=7, batch_size_avg=1.5), WANTED
    )
    pushed = read(data)
    assert pushed.resource == {"transactional_id": "t"}
    assert pushed.is_whole
    assert [tuple(sample) for sample in pushed.samples] == [
        (KAFKA + "producer.request.total", {}, 7.0, True, False),
        (KAFKA + "producer.batch.size.avg", {}, 1.5, False, False),
        (KAFKA + "producer.node.request.latency.avg", {"node_id": "1"}, 2.5, False, False),
    ]


def test_the_names_are_those_of_kip_714() -> None:
    for kind, names in {
        "producer": (
            "producer.connection.creation.rate",
            "producer.connection.creation.total",
            "producer.produce.throttle.time.avg",
            "producer.produce.throttle.time.max",
            "producer.record.queue.time.avg",
            "producer.record.queue.time.max",
        ),
        "consumer": (
            "consumer.connection.creation.rate",
            "consumer.connection.creation.total",
            "consumer.poll.idle.ratio.avg",
            "consumer.coordinator.commit.latency.avg",
            "consumer.coordinator.commit.latency.max",
            "consumer.coordinator.assigned.partitions",
            "consumer.coordinator.rebalance.latency.avg",
            "consumer.coordinator.rebalance.latency.max",
            "consumer.coordinator.rebalance.latency.total",
            "consumer.fetch.manager.fetch.latency.avg",
            "consumer.fetch.manager.fetch.latency.max",
        ),
        "admin": ("admin.client.connection.creation.total",),
    }.items():
        every = {measure.name: 1.0 for measure in MEASURES[kind]}
        node = {4: {"request-latency-avg": 1.0, "request-latency-max": 2.0}}
        found = values(Payloads(kind, 0).make(Reading(1, every, node, {}), WANTED))
        first = "admin.client" if kind == "admin" else kind
        node_names = (f"{first}.node.request.latency.{end}" for end in ("avg", "max"))
        assert [name for name in (*names, *node_names) if name not in found] == []
        assert len(found) == len(MEASURES[kind]) + 2


def test_only_what_is_wanted_is_pushed() -> None:
    wanted = replace(WANTED, metrics=(KAFKA + "producer.re",))
    found = values(
        Payloads("producer", 0).make(
            reading(1, request_total=1, record_send_total=2, connection_count=3), wanted
        )
    )
    assert sorted(found) == ["producer.record.send.total", "producer.request.total"]


def test_growth_counts_from_the_last_push_that_was_taken() -> None:
    made, wanted = Payloads("producer", 0), replace(WANTED, is_delta=True)

    def push(count: float) -> float:
        data = made.make(reading(1, request_total=count, connection_count=count), wanted)
        (gauge, total, _) = read(data).samples
        assert (total.is_delta, gauge.is_delta, gauge.value) == (True, False, count)
        return total.value

    assert push(10) == 10
    assert push(12) == 12, "the first was not taken"
    made.on_taken()
    assert push(15) == 3
    made.on_taken()
    # Totals that are pushed as they are count as taken too.
    assert values(made.make(reading(1, request_total=20), WANTED))["producer.request.total"] == 20
    made.on_taken()
    assert push(21) == 1


@pytest.mark.parametrize("labels", [{}, {"group_id": "g" * 200}])
def test_what_is_beyond_the_limit_is_left_out(labels: dict[str, str]) -> None:
    every = {measure.name: 1.0 for measure in MEASURES["producer"]}
    whole = Payloads("producer", 0).make(Reading(1, every, {}, labels), WANTED)
    assert len(values(whole)) == len(every)
    for limit in (0, 100, 400, 1_000, len(whole) // 2, len(whole) - 1):
        wanted = replace(WANTED, max_bytes=limit, is_delta=True)
        made = Payloads("producer", 0)
        data = made.make(Reading(1, every, {}, labels), wanted)
        pushed = read(data)
        assert pushed.is_whole
        assert len(data) <= limit or not pushed.samples
        assert len(pushed.samples) < len(every)
        # What was left out has not been taken.
        made.on_taken()
        later = read(made.make(Reading(1, every, {}, labels), replace(WANTED, is_delta=True)))
        grown = {sample.name for sample in later.samples if sample.is_delta and sample.value}
        assert grown.isdisjoint(sample.name for sample in pushed.samples)


def test_texts_of_any_length_and_script_are_written() -> None:
    labels = {"group_id": "größe", "client_rack": "r" * 255}
    pushed = read(Payloads("producer", 0).make(reading(1, labels), WANTED))
    assert pushed.resource == labels
