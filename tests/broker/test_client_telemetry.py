"""Metrics that clients push (KIP-714): who is asked for what, what is taken, what is shown."""

import math
from pathlib import Path
from typing import Any

import pytest

from minikafka import ConfigChange, ConfigResource
from minikafka.broker.telemetry import clients as telemetry_clients
from minikafka.broker.telemetry.clients import CODECS, ClientTelemetry
from minikafka.broker.telemetry.readings import Readings, name_of
from minikafka.broker.telemetry.subscriptions import Subscriptions
from minikafka.protocol.api import ApiKey
from minikafka.protocol.client_metrics import INTERVAL_MS
from minikafka.protocol.compression import Codec, compress
from minikafka.protocol.control.records import CLIENT_METRICS, TOPIC, ConfigRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.protocol.otlp import Pushed, Sample
from minikafka.protocol.types import uuid_to_text

from ..simulation.stage import Stage, staged
from ..support import otlp
from ..support.scrape import Scrape
from .conftest import MakeBroker
from .edge_support import Client, FakeBroker
from .metrics_support import Told

A, B = bytes(range(16)), bytes(range(100, 116))
CLIENT = {
    "client_id": "app-1",
    "client_instance_id": uuid_to_text(A),
    "client_software_name": "librdkafka",
    "client_software_version": "2.16.1",
    "client_source_address": "10.0.0.5",
    "client_source_port": "40000",
}
METRICS = otlp.metrics_data(
    otlp.total("org.apache.kafka.producer.connection.creation.total", otlp.point(7)),
    otlp.gauge("org.apache.kafka.producer.node.request.latency.avg", otlp.point(2.5, node_id=1)),
    resource=[("transactional_id", "tx")],
)


def configs(**subscriptions: str) -> dict[tuple[int, str], dict[str, str]]:
    """Subscriptions by name, each as `key=value; key=value`."""
    return {
        (CLIENT_METRICS, name): dict(setting.strip().split("=", 1) for setting in text.split(";"))
        for name, text in subscriptions.items()
    }


def asking_for(**subscriptions: str) -> ClientTelemetry:
    telemetry = ClientTelemetry(1 << 20)
    assert telemetry.on_configs(configs(**subscriptions)) == []
    return telemetry


class Pusher:
    """A client that does as it is told, at times that the test sets."""

    def __init__(self, telemetry: ClientTelemetry, instance_id: bytes = A) -> None:
        self.telemetry = telemetry
        self.instance_id = instance_id
        self.now_ms = 0
        self.subscription_id = 0
        self.client = {**CLIENT, "client_instance_id": uuid_to_text(instance_id)}

    def ask(self) -> ErrorCode:
        try:
            asked = self.telemetry.ask(self.instance_id, self.client, self.now_ms)
        except ApiError as error:
            return error.code
        self.subscription_id = asked.subscription_id
        return ErrorCode.NONE

    def push(self, metrics: bytes = METRICS, codec: int = 0, **changes: Any) -> ErrorCode:
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=metrics,
        )
        for name, value in changes.items():
            setattr(request, name, value)
        try:
            self.telemetry.push(request, self.client, self.now_ms)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def later(self, milliseconds: int) -> "Pusher":
        self.now_ms += milliseconds
        return self


def every_second(**more: str) -> Pusher:
    return Pusher(asking_for(all="interval.ms=1000; metrics=*", **more))


def shown(readings: Readings) -> Scrape:
    return Scrape([readings.families])


# Subscriptions.


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("", True),
        ("client_id=app-.*", True),
        ("client_id=app", False),
        ("client_id=app-1, client_software_name=librdkafka", True),
        ("client_id=app-1, client_software_name=apache-kafka-java", False),
        (r"client_software_version=2\.\d+\.1", True),
        (r"client_source_address=10\.0\..*, client_source_port=4\d*", True),
        (f"client_instance_id={uuid_to_text(A)}", True),
        (f"client_instance_id={uuid_to_text(B)}", False),
    ],
)
def test_a_subscription_fits_if_all_its_expressions_do(match: str, fits: bool) -> None:
    asked = Subscriptions(configs(one=f"metrics=a; match={match}")).asked_of(A, CLIENT)
    assert asked.metrics == (("a",) if fits else ())


def test_what_is_not_known_of_a_client_does_not_fit() -> None:
    subscriptions = Subscriptions(configs(one="metrics=a; match=client_id=.*"))
    assert subscriptions.asked_of(A, {}).metrics == ()
    assert subscriptions.asked_of(A, {"client_id": ""}).metrics == ("a",)


def test_what_several_subscriptions_ask_for_is_put_together() -> None:
    three = configs(
        a="metrics=p,q; interval.ms=900000",
        b="metrics=q,r; interval.ms=600000",
        c="metrics=x; interval.ms=100; match=client_id=other",
    )
    asked = Subscriptions(three).asked_of(A, CLIENT)
    assert (asked.metrics, asked.interval_ms) == (("p", "q", "r"), 600_000)
    everything = Subscriptions({**three, **configs(d="metrics=*")}).asked_of(A, CLIENT)
    assert (everything.metrics, everything.interval_ms) == (("*",), INTERVAL_MS)


def test_the_subscription_id_tells_clients_and_what_they_are_asked_for_apart() -> None:
    def id_of(instance_id: bytes, **subscriptions: str) -> int:
        return Subscriptions(configs(**subscriptions)).asked_of(instance_id, CLIENT).subscription_id

    first = id_of(A, x="metrics=a")
    assert first == id_of(A, y="metrics=a"), "two brokers, or another name: the same id"
    others = [id_of(B, x="metrics=a"), id_of(A, x="metrics=b"), id_of(A, x="interval.ms=100")]
    assert len({first, *others}) == 4
    assert all(-(1 << 31) <= each < 1 << 31 for each in (first, *others))


def test_a_subscription_that_this_broker_cannot_read_is_left_out() -> None:
    telemetry = ClientTelemetry(1000)
    (why,) = telemetry.on_configs(configs(new="metrics=a; newer.key=1", old="metrics=b"))
    assert why.startswith("'new': newer.key=1: unknown key")
    assert telemetry.ask(A, CLIENT, 0).metrics == ("b",)


def test_without_a_subscription_nothing_is_kept_and_clients_ask_again_later() -> None:
    telemetry = ClientTelemetry(1000)
    telemetry.on_configs({(TOPIC, "t"): {"retention.ms": "5"}})
    client = Pusher(telemetry)
    asked = telemetry.ask(A, CLIENT, 0)
    assert (asked.metrics, asked.interval_ms) == ((), INTERVAL_MS)
    assert client.ask() == ErrorCode.NONE
    assert client.push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert len(telemetry) == 0


# Questions and pushes.


def test_a_client_asks_and_pushes_once_in_each_interval() -> None:
    client = every_second()
    assert client.ask() == ErrorCode.NONE
    assert client.later(10).push() == ErrorCode.NONE, "the first push comes when it likes"
    for _ in range(3):
        assert client.later(500).push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert client.later(500).push() == ErrorCode.NONE
    assert client.telemetry.taken == 4
    assert client.telemetry.throttled == 3


def test_a_push_that_is_a_little_early_is_taken() -> None:
    client = every_second()
    client.ask()
    assert client.push() == ErrorCode.NONE
    assert client.later(899).push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.later(1).push() == ErrorCode.NONE


def test_a_question_that_is_early_is_throttled() -> None:
    client = every_second()
    assert client.ask() == ErrorCode.NONE
    assert client.later(500).ask() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.later(500).ask() == ErrorCode.NONE


def test_a_changed_subscription_is_asked_for_at_once() -> None:
    client = every_second()
    client.ask()
    client.push()
    client.telemetry.on_configs(configs(all="interval.ms=1000; metrics=org"))
    assert client.later(1000).push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.later(1).ask() == ErrorCode.NONE
    assert client.push() == ErrorCode.NONE
    assert client.telemetry.unknown == 1


def test_a_change_that_does_not_concern_a_client_leaves_its_id_and_its_turn() -> None:
    client = every_second()
    client.ask()
    client.push()
    both = configs(all="interval.ms=1000; metrics=*", b="metrics=x; match=client_id=other")
    client.telemetry.on_configs(both)
    assert client.later(500).push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.later(500).push() == ErrorCode.NONE


def test_a_client_of_another_broker_may_go_on_here() -> None:
    client = every_second()
    client.ask()
    client.telemetry = asking_for(all="interval.ms=1000; metrics=*")
    assert client.push() == ErrorCode.NONE


def test_the_last_push_comes_at_any_time_and_ends_it() -> None:
    client = every_second()
    client.ask()
    client.push()
    assert client.later(10).push(terminating=True) == ErrorCode.NONE
    assert client.later(10_000).push() == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\x01"])
def test_an_id_of_nobody_does_not_push(instance_id: bytes) -> None:
    client = every_second()
    client.instance_id = instance_id
    assert client.push() == ErrorCode.INVALID_REQUEST
    assert len(client.telemetry) == 0


@pytest.mark.parametrize("codec", list(Codec))
def test_metrics_come_in_every_codec(codec: Codec) -> None:
    client = every_second()
    client.ask()
    assert client.push(bytes(compress(codec, METRICS)), codec) == ErrorCode.NONE
    assert client.telemetry.taken == 1


@pytest.mark.parametrize(
    ("metrics", "codec", "error"),
    [
        (METRICS, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (METRICS, -1, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(2001), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(compress(Codec.ZSTD, bytes(1 << 20))), Codec.ZSTD, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(compress(Codec.GZIP, bytes(1 << 20))), Codec.GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
        (METRICS, Codec.LZ4, ErrorCode.INVALID_RECORD),
        (b"metrics", Codec.NONE, ErrorCode.INVALID_RECORD),
    ],
)
def test_m_19_metrics_that_cannot_be_read_are_refused(
    metrics: bytes, codec: int, error: ErrorCode
) -> None:
    client = every_second()
    client.telemetry.max_bytes = 2000
    client.ask()
    assert client.push(metrics, codec) == error
    assert client.telemetry.taken == 0
    assert client.telemetry.readings.length == 0


def test_after_a_codec_that_is_not_known_here_the_client_may_ask_at_once() -> None:
    client = every_second()
    client.ask()
    client.push(codec=9)
    assert client.ask() == ErrorCode.NONE
    client.push(b"metrics")
    assert client.ask() == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_push_without_metrics_is_taken_and_shows_nothing() -> None:
    client = every_second()
    client.ask()
    assert client.push(b"") == ErrorCode.NONE
    assert shown(client.telemetry.readings).names == []


def test_whoever_was_silent_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_clients, "CLIENTS_MAX", 2)
    telemetry = asking_for(all="interval.ms=1000; metrics=*")
    first, second, third = (Pusher(telemetry, bytes([n]) * 16) for n in (1, 2, 3))
    for client in (first, second):
        client.ask()
    first.later(500).push()
    third.ask()
    assert len(telemetry) == 2
    assert first.ask() == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "it is remembered"
    assert second.later(500).ask() == ErrorCode.NONE, "it is taken for a new one"


def test_a_silent_client_is_forgotten_after_a_minute_or_three_intervals() -> None:
    short, long = every_second(), Pusher(asking_for(all="interval.ms=60000; metrics=*"))
    for client, silent_ms in ((short, 60_000), (long, 180_000)):
        client.ask()
        client.push()
        client.telemetry.expire(silent_ms - 1)
        assert len(client.telemetry) == 1
        assert "kafka_client_info" in shown(client.telemetry.readings).names
        client.telemetry.expire(silent_ms)
        assert len(client.telemetry) == 0
        assert shown(client.telemetry.readings).names == []


def test_a_client_that_has_ended_is_shown_for_another_minute() -> None:
    client = Pusher(asking_for(all="interval.ms=60000; metrics=*"))
    client.ask()
    client.push(terminating=True)
    client.telemetry.expire(59_999)
    assert shown(client.telemetry.readings).names
    client.telemetry.expire(60_000)
    assert not shown(client.telemetry.readings).names


def test_when_the_last_subscription_goes_nobody_is_remembered() -> None:
    client = every_second()
    client.ask()
    client.telemetry.on_configs({})
    assert len(client.telemetry) == 0


# What is shown.


def sample(name: str, value: float = 1, counter: bool = False, **attributes: str) -> Sample:
    return Sample(name, attributes, value, counter, False)


def take(readings: Readings, instance_id: bytes, *samples: Sample, **client: str) -> bool:
    who = {"client_id": "c", "client_instance_id": uuid_to_text(instance_id), **client}
    return readings.take(instance_id, who, Pushed({}, list(samples), True), 1000)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("org.apache.kafka.producer.record.send.total", "kafka_client_producer_record_send"),
        ("com.example.a-b", "kafka_client_com_example_a_b"),
        ("org.apache.kafka.", "kafka_client_"),
        ("x_total_total", "kafka_client_x"),
        ("x.created", "kafka_client_x"),
        ("größe\n", "kafka_client_gr__e_"),
    ],
)
def test_a_metric_is_shown_under_a_name_that_prometheus_takes(metric: str, name: str) -> None:
    assert name_of(metric) == name


def test_metrics_are_shown_with_whose_they_are() -> None:
    client = every_second()
    client.ask()
    client.push()
    found = shown(client.telemetry.readings)
    whose = {"client_id": "app-1", "client_instance_id": uuid_to_text(A)}
    assert found("kafka_client_producer_connection_creation_total", **whose) == 7
    latency = "kafka_client_producer_node_request_latency_avg"
    assert found(latency, node_id=1, **whose) == 2.5
    known = {**CLIENT, "transactional_id": "tx"}
    del known["client_source_port"]
    (info,) = (each for each in found.samples if each.name == "kafka_client_info")
    assert info.labels == known


def test_a_push_replaces_the_one_before() -> None:
    readings = Readings(10_000)
    take(readings, A, sample("x", 1, topic="t"), sample("x", 2, topic="u"), sample("y"))
    take(readings, B, sample("x", 3, topic="t"))
    take(readings, A, sample("x", 4, topic="t"))
    found = shown(readings)
    assert sorted(found.every("kafka_client_x")) == [3, 4]
    assert "kafka_client_y" not in found.names


def test_what_others_push_as_another_kind_is_not_shown() -> None:
    readings = Readings(10_000)
    assert take(readings, A, sample("x"))
    assert not take(readings, B, sample("x", counter=True), sample("y"))
    assert shown(readings).names == ["kafka_client_info", "kafka_client_x", "kafka_client_y"]
    readings.forget(A)
    assert take(readings, B, sample("x", 5, counter=True))
    assert shown(readings)("kafka_client_x_total") == 5


def test_growth_and_a_metric_that_is_named_like_ours_are_not_shown() -> None:
    readings = Readings(10_000)
    assert not take(readings, A, Sample("x", {}, 1, True, True))
    assert not take(readings, A, sample("info", 5))
    found = shown(readings)
    assert found.names == ["kafka_client_info"]
    assert found("kafka_client_info") == 1


@pytest.mark.parametrize("value", [-1, math.nan])
def test_a_counter_that_counts_nothing_is_not_shown(value: float) -> None:
    readings = Readings(10_000)
    assert not take(readings, A, sample("x", value, counter=True), sample("y", value))
    assert shown(readings).names == ["kafka_client_info", "kafka_client_y"]


def test_m_19_no_label_of_a_client_breaks_a_scrape() -> None:
    readings = Readings(100_000)
    odd = {"a.b": 'say "x"\n', "a-b": "2", "9": "\0", "__name__": "n", "client_id": "other"}
    take(readings, A, Sample("x", odd, 1, False, False), client_id="y" * 1000)
    (found,) = (each for each in shown(readings).samples if each.name == "kafka_client_x")
    assert found.labels == {
        "a_b": "2",
        "attribute_9": "?",
        "name__": "n",
        "client_id": "y" * 255,
        "client_instance_id": uuid_to_text(A),
    }
    take(readings, A, sample("x", a='say "x"\n'))
    assert shown(readings)("kafka_client_x", a='say "x"?') == 1


def test_m_19_what_is_shown_is_bounded_and_the_oldest_push_gives_way() -> None:
    readings = Readings(1000)
    ids = [bytes([number]) * 16 for number in range(20)]
    for instance_id in ids:
        take(readings, instance_id, sample("x"))
        assert readings.length <= 1000
    kept = [each.labels["client_instance_id"] for each in shown(readings).samples]
    assert uuid_to_text(ids[-1]) in kept
    assert uuid_to_text(ids[0]) not in kept
    for instance_id in ids:
        readings.forget(instance_id)
    assert readings.length == 0
    assert shown(readings).names == []


def test_a_scrape_that_is_under_way_reads_what_was_there() -> None:
    readings = Readings(10_000)
    take(readings, A, sample("x", 1))
    take(readings, B, sample("x", 2))
    families = {family.name: family for family in readings.families()}
    take(readings, A, sample("y", 3))
    readings.forget(B)
    assert [value for _, value in families["kafka_client_x"].samples] == [1, 2]


# At the edge of a broker.


@pytest.fixture
def broker(make_broker: MakeBroker) -> FakeBroker:
    return make_broker(metrics_listener="127.0.0.1:0", telemetry_max_bytes="5000")


def subscribe(broker: FakeBroker, **settings: str) -> None:
    for key, value in settings.items():
        record = ConfigRecord(CLIENT_METRICS, "all", key.replace("_", "."), value)
        broker.image.apply(record, broker.image.offset + 1)
    assert broker.edge.telemetry is not None
    assert broker.edge.telemetry.on_configs(broker.image.configs) == []


def spoken(client: Client) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1.0")
    keys = client.ask(request, 3).api_keys
    return {each.api_key: (each.min_version, each.max_version) for each in keys}


async def test_only_a_broker_with_metrics_speaks_of_telemetry(
    make_broker: MakeBroker, broker: FakeBroker
) -> None:
    apis = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
    assert [spoken(broker.connect()).get(key) for key in apis] == [(0, 0), (0, 0)]
    assert [spoken(make_broker().connect()).get(key) for key in apis] == [None, None]


async def test_a_client_is_given_an_id_and_told_what_to_push(broker: FakeBroker) -> None:
    subscribe(broker, metrics="org.", match="client_software_name=x, client_id=test")
    client = broker.connect()
    spoken(client)
    told = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
    assert told.error_code == ErrorCode.NONE
    assert told.client_instance_id != bytes(16)
    assert told.requested_metrics == ["org."]
    assert told.push_interval_ms == INTERVAL_MS
    assert told.telemetry_max_bytes == 5000
    assert told.accepted_compression_types == list(CODECS)
    assert not told.delta_temporality
    again = GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id)
    assert client.ask(again, 0).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    other = broker.connect().ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
    assert other.requested_metrics == [], "this one did not say what software it is"


async def test_a_push_is_answered_and_a_bad_one_is_said_once(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    subscribe(broker, metrics="*", interval_ms="100")
    client = broker.connect()
    told = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)

    def push(metrics: bytes, subscription_id: int = told.subscription_id) -> ErrorCode:
        request = PushTelemetryRequest(
            client_instance_id=told.client_instance_id,
            subscription_id=subscription_id,
            terminating=True,
            compression_type=0,
            metrics=metrics,
        )
        return ErrorCode(client.ask(request, 0).error_code)

    telemetry = broker.edge.telemetry
    assert telemetry is not None
    assert push(METRICS) == ErrorCode.NONE
    assert telemetry.taken == 1
    assert push(METRICS) == ErrorCode.INVALID_REQUEST, "it had said that it ends"
    for _ in range(2):
        told.client_instance_id = broker.edge.runtime.rng.randbytes(16)
        assert push(b"x", 0) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        told = client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
        assert push(b"x", told.subscription_id) == ErrorCode.INVALID_RECORD
    (line,) = caplog.messages
    assert "metrics that client 'test' pushed from" in line
    assert "INVALID_RECORD: OTLP: a number has no end" in line


@pytest.mark.moves(
    "kafka_server_client_metrics_instance_count",
    "kafka_server_client_metrics_plugin_error_total",
    "kafka_server_client_metrics_plugin_export_total",
    "kafka_server_client_metrics_throttle_total",
    "kafka_server_client_metrics_unknown_subscription_request_total",
    "minikafka_client_metrics_cut_total",
)
async def test_what_clients_push_is_scraped_from_their_broker(tmp_path: Path) -> None:
    told = await Told(tmp_path).begin()
    try:
        telemetry = told.edge.telemetry
        assert telemetry is not None
        telemetry.on_configs(configs(all="metrics=*; interval.ms=1000"))
        name = "kafka_server_client_metrics_"
        assert told.scrape()(name + "instance_count") == 0
        client = Pusher(telemetry).later(told.runtime.monotonic_ms())
        client.ask()
        client.push()
        client.push(METRICS)
        client.push(terminating=True, subscription_id=client.subscription_id + 1)
        other = Pusher(telemetry, B).later(client.now_ms)
        other.ask()
        other.push(b"x")
        cut = Pusher(telemetry, B[::-1]).later(client.now_ms)
        cut.ask()
        cut.push(otlp.metrics_data(otlp.gauge("", otlp.point(1))))
        found = told.scrape()
        assert found("kafka_client_producer_connection_creation_total", client_id="app-1") == 7
        assert found(name + "instance_count") == 3
        assert found(name + "plugin_export_total") == 2
        assert found(name + "plugin_error_total") == 1
        assert found(name + "throttle_total") == 1
        assert found(name + "unknown_subscription_request_total") == 1
        assert found("minikafka_client_metrics_cut_total") == 1
    finally:
        await told.end()


@staged(brokers=2, broker={"metrics.listener": "0.0.0.0:9404"})
async def test_every_broker_follows_the_subscriptions(stage: Stage) -> None:
    """As a whole: an admin makes a subscription, and each broker asks clients for it."""
    subscription = ConfigResource.client_metrics("all")

    async def asked(broker: int) -> list[str]:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
        metrics: list[str] = (await stage.ask(broker, request, 0)).requested_metrics
        return metrics

    assert [await asked(broker) for broker in (1, 2)] == [[], []]
    change = ConfigChange("metrics", "org.")
    await stage.admin(lambda admin: admin.incremental_alter_configs({subscription: [change]}))
    await stage.sleep(1)
    assert [await asked(broker) for broker in (1, 2)] == [["org."], ["org."]]
    unset = ConfigChange("metrics", None, ConfigOperation.DELETE)
    await stage.admin(lambda admin: admin.incremental_alter_configs({subscription: [unset]}))
    await stage.sleep(1)
    assert [await asked(broker) for broker in (1, 2)] == [[], []]
