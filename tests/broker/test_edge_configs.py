"""Settings described and altered at a broker's edge: each resource stands for itself."""

import re
from typing import Any

import pytest

from minikafka import ConfigResource
from minikafka.broker.admission.limits import bounds_of
from minikafka.broker.publishing import bound_connections
from minikafka.broker.topic_defaults import check_dynamic
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes
from minikafka.protocol.control import records as r
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import alter_configs as whole
from minikafka.protocol.messages import incremental_alter_configs as incremental
from minikafka.protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ResourceType,
)
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.runtime.errors import ConfigError

from ..simulation.stage import Stage, staged
from .conftest import MakeBroker
from .edge_support import TOPIC, FakeBroker, settle

BROKER = ResourceType.BROKER


def change(
    name: str, value: str | None, operation: int = ConfigOperation.SET
) -> incremental.AlterableConfig:
    return incremental.AlterableConfig(name=name, value=value, config_operation=operation)


def altering(
    *resources: tuple[int, str, list[incremental.AlterableConfig]],
) -> incremental.IncrementalAlterConfigsRequest:
    return incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=configs
            )
            for kind, name, configs in resources
        ]
    )


async def ask(broker: FakeBroker, request: object, version: int) -> dict[tuple[int, str], Any]:
    """The answer, a result for each resource."""
    client = broker.connect()
    client.send(request, version)
    await settle()
    (response,) = client.responses()
    return {(each.resource_type, each.resource_name): each for each in response.responses}


@pytest.mark.parametrize("value", ["", None])
async def test_a_brokers_setting_is_taken_back_as_kafkas_tool_does_it(
    make_broker: MakeBroker, value: str | None
) -> None:
    broker = make_broker()
    delete = change("message.max.bytes", value, ConfigOperation.DELETE)
    request = altering((BROKER, "", [delete]))
    ok = whole.AlterConfigsResourceResponse(resource_type=BROKER, resource_name="")
    broker.controller.answer = encode_bytes(
        incremental.IncrementalAlterConfigsResponse(responses=[ok]), 1
    )
    results = await ask(broker, request, 1)
    assert results[BROKER, ""].error_code == ErrorCode.NONE
    key, version, body = broker.controller.requests[-1]
    assert key == ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert decode(incremental.IncrementalAlterConfigsRequest, version, body) == request


async def test_one_refused_resource_leaves_the_others_to_the_controller(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    topic = (ResourceType.TOPIC, TOPIC, [change("retention.ms", "1")])
    request = altering((BROKER, "1", [change("node.id", "5")]), topic)
    ok = whole.AlterConfigsResourceResponse(resource_type=2, resource_name=TOPIC)
    broker.controller.answer = encode_bytes(
        incremental.IncrementalAlterConfigsResponse(responses=[ok]), 1
    )
    results = await ask(broker, request, 1)
    assert list(results) == [(BROKER, "1"), (ResourceType.TOPIC, TOPIC)], "in the order asked"
    assert results[BROKER, "1"].error_code == ErrorCode.INVALID_CONFIG
    assert "node.id=5: cannot be changed while" in results[BROKER, "1"].error_message
    assert results[ResourceType.TOPIC, TOPIC].error_code == ErrorCode.NONE
    _, version, body = broker.controller.requests[-1]
    sent = decode(incremental.IncrementalAlterConfigsRequest, version, body)
    assert sent == altering(topic)


async def test_without_a_controller_what_was_refused_here_keeps_its_own_error(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    broker.controller.answer = ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller")
    request = altering(
        (BROKER, "1", [change("node.id", "5")]),
        (ResourceType.TOPIC, TOPIC, [change("retention.ms", "1")]),
    )
    results = await ask(broker, request, 1)
    assert results[BROKER, "1"].error_code == ErrorCode.INVALID_CONFIG
    assert results[ResourceType.TOPIC, TOPIC].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_one_refused_resource_of_whole_configurations_leaves_the_others(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()

    def replacing(kind: int, name: str, key: str, value: str | None) -> Any:
        config = whole.AlterableConfig(name=key, value=value)
        return whole.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])

    topic = replacing(2, TOPIC, "retention.ms", "1")
    resources = [
        replacing(BROKER, "1", "node.id", "5"),
        replacing(2, "u", "retention.ms", None),
        topic,
    ]
    ok = whole.AlterConfigsResourceResponse(resource_type=2, resource_name=TOPIC)
    broker.controller.answer = encode_bytes(whole.AlterConfigsResponse(responses=[ok]), 2)
    results = await ask(broker, whole.AlterConfigsRequest(resources=resources), 2)
    assert [each.error_code for each in results.values()] == [
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    _, version, body = broker.controller.requests[-1]
    assert decode(whole.AlterConfigsRequest, version, body).resources == [topic]


async def described(
    broker: FakeBroker, kind: int, name: str, *keys: str
) -> dict[str, tuple[str | None, int]]:
    """Value and source of each key."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = broker.connect().ask(request, 4).results
    assert result.error_code == ErrorCode.NONE
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def test_each_key_of_a_time_is_described_in_its_own_unit(make_broker: MakeBroker) -> None:
    broker = make_broker(log_retention_minutes="90")
    keys = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    rolls = ("log.roll.ms", "log.roll.hours", "log.roll.jitter.ms", "log.roll.jitter.hours")
    default = ConfigSource.DEFAULT_CONFIG
    assert await described(broker, BROKER, "1", *keys, *rolls) == {
        "log.retention.ms": (None, default),
        "log.retention.minutes": ("90", ConfigSource.STATIC_BROKER_CONFIG),
        "log.retention.hours": ("168", default),
        "log.roll.ms": (None, default),
        "log.roll.hours": ("168", default),
        "log.roll.jitter.ms": (None, default),
        "log.roll.jitter.hours": ("0", default),
    }
    broker.image.apply(r.ConfigRecord(BROKER, "", "log.retention.ms", "1000"), 70)
    assert await described(broker, BROKER, "1", *keys) == {
        "log.retention.ms": ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        "log.retention.minutes": ("90", ConfigSource.STATIC_BROKER_CONFIG),
        "log.retention.hours": ("168", default),
    }
    assert list(await described(broker, BROKER, "", *keys)) == ["log.retention.ms"]


async def test_a_key_that_means_nothing_here_is_shown_once_it_is_set(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    key = "num.io.threads"
    assert key not in await described(broker, BROKER, "1")
    broker.image.apply(r.ConfigRecord(BROKER, "1", key, "16"), 70)
    shown = {key: ("16", ConfigSource.DYNAMIC_BROKER_CONFIG)}
    assert await described(broker, BROKER, "1", key) == shown


async def test_what_nobody_can_configure_here_is_described_as_empty(
    make_broker: MakeBroker,
) -> None:
    assert await described(make_broker(), ResourceType.GROUP, "1") == {}


async def test_a_subscription_to_clients_metrics_is_described_with_its_defaults(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker()
    kind, default = ResourceType.CLIENT_METRICS, ConfigSource.DEFAULT_CONFIG
    broker.image.apply(r.ConfigRecord(kind, "all", "metrics", "*"), 70)
    assert await described(broker, kind, "all") == {
        "interval.ms": ("300000", default),
        "metrics": ("*", ConfigSource.CLIENT_METRICS_CONFIG),
        "match": ("", default),
    }
    assert await described(broker, kind, "none", "metrics") == {"metrics": ("", default)}
    nameless = DescribeConfigsResource(resource_type=kind, resource_name="")
    (result,) = broker.connect().ask(DescribeConfigsRequest(resources=[nameless]), 4).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


async def test_the_bound_of_connections_changes_at_run_time(make_broker: MakeBroker) -> None:
    broker = make_broker(max_connections="1")
    check_dynamic("max.connections", "2")
    clients = [broker.connect(), broker.connect()]
    assert [client.transport.is_closed for client in clients] == [True, False]
    broker.image.apply(r.ConfigRecord(BROKER, "1", "max.connections", "2"), 70)
    bound_connections(broker.edge, broker.image)
    clients += [broker.connect(), broker.connect()]
    assert [client.transport.is_closed for client in clients] == [True, True, False, False]


async def test_the_bound_per_address_changes_at_run_time(make_broker: MakeBroker) -> None:
    broker = make_broker()
    check_dynamic("max.connections.per.ip", "1")
    broker.image.apply(r.ConfigRecord(BROKER, "", "max.connections.per.ip", "1"), 70)
    bound_connections(broker.edge, broker.image)
    clients = [broker.connect(), broker.connect()]
    assert [client.transport.is_closed for client in clients] == [False, True]


async def test_one_listener_has_bounds_that_change_at_run_time(make_broker: MakeBroker) -> None:
    broker = make_broker(
        listeners="PLAINTEXT://h:1,OUTSIDE://h:2",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    key = "listener.name.outside.max.connections"
    assert key not in await described(broker, BROKER, "1")
    await ask(broker, altering((BROKER, "1", [change(key, "1")])), 1)
    assert len(broker.controller.requests) == 1
    broker.image.apply(r.ConfigRecord(BROKER, "1", key, "1"), 70)
    bound_connections(broker.edge, broker.image)
    assert (await described(broker, BROKER, "1", key))[key][0] == "1"
    clients = [broker.connect("OUTSIDE"), broker.connect("OUTSIDE"), broker.connect()]
    assert [client.transport.is_closed for client in clients] == [True, False, False]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (
            "listener.name.outsid.max.connections",
            "1",
            "there is no such listener; did you mean listener.name.outside.max.connections?",
        ),
        ("listener.name.outside.max.connection.creation.rate", "0", "must be at least 1"),
        ("listener.name.outside.ssl.client.auth", "none", "cannot be changed while"),
        ("max.connections.per.ip.overrides", "host:3", "is not ADDRESS:NUMBER"),
        ("max.connections.per.ip.overrides", "10.0.0.1:many", "must end in a number"),
    ],
)
def test_bounds_that_cannot_be_set_are_named(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        check_dynamic(key, value, ["OUTSIDE"])


def test_addresses_have_numbers_of_their_own() -> None:
    given = {"max.connections.per.ip.overrides": "10.0.0.1:2, 0:0:0:0:0:0:0:1:3,[fe80::1]:4"}
    assert bounds_of(given, []).hosts == {"10.0.0.1": 2, "::1": 3, "fe80::1": 4}


async def test_keys_without_effect_are_taken_with_a_warning(
    make_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make_broker()
    threads = change("log.cleaner.threads", "4")
    tiers = change("local.retention.ms", "1000")
    await ask(broker, altering((BROKER, "1", [threads]), (2, TOPIC, [tiers])), 1)
    assert len(broker.controller.requests) == 1
    first, second = caplog.messages
    assert "'1'" in first
    assert "log.cleaner.threads (one worker process compacts" in first
    assert "'flights'" in second
    assert "local.retention.ms (there is no tiered storage)" in second


@staged(brokers=1, broker={"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "3600000"})
async def test_a_running_broker_compacts_as_often_as_it_is_told_to(stage: Stage) -> None:
    """As a whole: the setting goes through the controller to the cleaner, and back again."""
    stage.mute(1, 2, 3, 4, 11, 12)  # They compare logs batch by batch.
    compacted = {"cleanup.policy": "compact", "segment.bytes": "300", "min.insync.replicas": "1"}
    await stage.create_topic("t", replication=1, configs=compacted)
    producer = await stage.producer()
    for _ in range(20):
        await producer.send("t", b"value", key=b"key")
    log = stage.partition(1, "t").log
    before = sum(segment.size for segment in log.segments)
    await stage.sleep(120)
    assert sum(segment.size for segment in log.segments) == before
    await stage.alter_configs(1, {"log.cleaner.backoff.ms": "100"})
    await stage.until(
        lambda: sum(segment.size for segment in log.segments) < before / 2, "it is compacted", 60
    )
    await stage.alter_configs(1, {"log.cleaner.backoff.ms": None})
    shown = await stage.admin(lambda admin: admin.describe_configs([ConfigResource(BROKER, "1")]))
    (described,) = shown.values()
    assert described["log.cleaner.backoff.ms"].value == "3600000"


@staged(brokers=1, broker={"log.retention.check.interval.ms": "1000"})
async def test_a_running_broker_forgets_idle_producers_as_soon_as_it_is_told_to(
    stage: Stage,
) -> None:
    await stage.create_topic("t", replication=1, configs={"min.insync.replicas": "1"})
    await stage.send("t", b"value")
    producers = stage.partition(1, "t").log.producers
    assert len(list(producers)) == 1
    await stage.alter_configs(1, {"producer.id.expiration.ms": "5000"})
    await stage.sleep(10)
    assert list(producers) == []
