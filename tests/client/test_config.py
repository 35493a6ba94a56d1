from typing import Any

import pytest

from minikafka.aio import Admin, Consumer, Producer
from minikafka.client.config import (
    INSTEAD,
    KNOWN_UNUSED,
    AdminConfig,
    AdminSettings,
    CommonConfig,
    CommonSettings,
    ConsumerConfig,
    ConsumerSettings,
    ProducerConfig,
    ProducerSettings,
    configured,
    settings_like,
)
from minikafka.client.net.address import Address
from minikafka.runtime.config import objects_of, settings_of
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime


@pytest.mark.parametrize(
    ("table", "keywords"),
    [
        (CommonConfig, CommonSettings),
        (ProducerConfig, ProducerSettings),
        (ConsumerConfig, ConsumerSettings),
        (AdminConfig, AdminSettings),
    ],
)
def test_keywords_and_table_name_the_same_settings(table: type, keywords: Any) -> None:
    fields = {row.field for row in settings_of(table)} - {"bootstrap_servers"}
    fields |= set(objects_of(table))
    assert set(keywords.__annotations__) | set(CommonSettings.__annotations__) == fields
    for row in settings_of(table):
        assert row.field == row.key.replace(".", "_")
        assert row.key not in KNOWN_UNUSED


def test_dotted_keys_and_keywords_mean_the_same() -> None:
    dotted = Producer.from_config({"bootstrap.servers": "a:1,b:2", "linger.ms": "7", "acks": "1"})
    keywords = Producer(["a:1", "b:2"], linger_ms=7, acks=1)
    assert dotted.config == keywords.config
    assert dotted.config.bootstrap_servers == ("a:1", "b:2")


def test_a_mapping_given_for_the_servers_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigError, match=r"from_config\(...\)") as caught:
        Producer({"bootstrap.servers": "a:1", "sasl.password": "secret"})  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_keys_of_other_clients_name_ours() -> None:
    with pytest.raises(ConfigError, match=r"^retries=3: .*use delivery\.timeout\.ms instead"):
        Producer("a:1", retries=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"use linger\.ms instead"):
        Producer.from_config({"queue.buffering.max.ms": "5"})
    with pytest.raises(ConfigError, match="unknown key"):
        Consumer("a:1", retries=3)  # type: ignore[call-arg]
    ours = {row.key for table in (ProducerConfig, ConsumerConfig) for row in settings_of(table)}
    assert set(INSTEAD.values()) <= ours
    assert not set(INSTEAD) & (ours | set(KNOWN_UNUSED))


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        Producer("a:1", lingerms=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        Consumer.from_config({"auto.offset.rest": "latest"})


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"acks": "2"}, "acks"),
        ({"linger_ms": -1}, "linger.ms"),
        ({"batch_size": "many"}, "batch.size"),
        ({"compression_type": "rar"}, "compression.type"),
        ({"acks": 1, "enable_idempotence": True}, "acks"),
        ({"max_in_flight_requests_per_connection": 6}, "max.in.flight.requests.per.connection"),
        ({"bootstrap_servers": "nowhere"}, "bootstrap.servers"),
        ({"bootstrap_servers": ""}, "bootstrap.servers"),
        ({"bootstrap_servers": "a:99999"}, "bootstrap.servers"),
        ({"security_protocol": "TLS"}, "security.protocol"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key"),
        ({"ssl.key.location": "x"}, "ssl.key.location"),
        ({"linger_ms": 1, "linger.ms": 2}, "linger.ms"),
    ],
)
def test_bad_values_name_the_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Producer.from_config(settings)
    assert caught.value.key == key


def test_idempotence_follows_acks_unless_said() -> None:
    assert Producer("a:1").config.is_idempotent
    assert not Producer("a:1", acks=1).config.is_idempotent
    assert not Producer("a:1", acks="0").config.is_idempotent
    assert not Producer("a:1", enable_idempotence=False).config.is_idempotent
    assert Producer("a:1", acks="-1").config.acks_number == -1


def test_more_in_flight_is_allowed_without_idempotence() -> None:
    made = Producer("a:1", acks=1, max_in_flight_requests_per_connection=20)
    assert made.config.max_in_flight_requests_per_connection == 20


def test_a_key_of_kafka_without_meaning_here_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    Consumer.from_config({"receive.buffer.bytes": "1024"})
    assert "receive.buffer.bytes has no effect" in caplog.text


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"heartbeat.interval.ms": "45000"}, "heartbeat.interval.ms"),
        ({"partition.assignment.strategy": ""}, "partition.assignment.strategy"),
        ({"partition.assignment.strategy": "range,mine"}, "partition.assignment.strategy"),
        ({"group.instance.id": "one"}, "group.instance.id"),
        ({"group.protocol": "consumer"}, "group.protocol"),
    ],
)
def test_bad_values_of_a_member_name_the_key(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Consumer.from_config(settings)
    assert caught.value.key == key


def test_an_empty_value_of_an_optional_setting_is_none() -> None:
    assert (
        configured(ProducerConfig, "a:1", {"enable_idempotence": None}).enable_idempotence is None
    )


def test_the_default_is_this_machine() -> None:
    assert Admin().config.bootstrap_servers == ("localhost:9092",)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("a:1", "a", 1), ("127.0.0.1:9092", "127.0.0.1", 9092), ("[::1]:9092", "::1", 9092)],
)
def test_addresses_are_read_and_shown(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == (host, port)
    assert str(Address.parse(text)) == text


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="p";'


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.username": "a", "sasl.password": "p"},
        {"sasl_jaas_config": JAAS},
    ],
)
def test_a_login_is_read_from_either_form(settings: dict[str, str]) -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **settings}
    config = configured(AdminConfig, "a:1", given)
    runtime = SystemRuntime()
    security = config.security.steps(runtime)
    runtime.close()
    assert security is not None
    assert security.credentials is not None
    assert security.credentials.name == "a"
    assert "'p'" not in repr(config)
    again = configured(AdminConfig, "a:1", config.security.as_arguments())
    assert again.security.as_arguments() == config.security.as_arguments()


def test_another_kind_of_client_connects_as_this_one_does() -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "p",
        "client.id": "mine",
        "request.timeout.ms": 1_234,
        "group.id": "g",
    }
    one = configured(ConsumerConfig, "a:1,b:2", given)
    other = configured(ProducerConfig, None, settings_like(one))
    assert settings_like(other) == settings_like(one)
    assert (other.client_id, other.request_timeout_ms) == ("mine", 1_234)
    assert [str(each) for each in other.bootstrap_servers] == ["a:1", "b:2"]
    assert other.security.sasl_username == "a"


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "sasl.mechanism"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "sasl.password"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.jaas.config": JAAS}, "sasl.jaas"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}, "sasl.jaas"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.replace('"a"', '""')}, "sasl.jaas"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS.replace(";", " tokenauth=true;")},
            "sasl.jaas",
        ),
        ({"sasl.mechanisms": "PLAIN"}, "sasl.mechanisms"),
        ({"sasl.pasword": "hunter2"}, "sasl.pasword"),
        ({"sasl.plain.password": "hunter2"}, "sasl.plain.password"),
    ],
)
@pytest.mark.parametrize("table", [AdminConfig, ProducerConfig, ConsumerConfig])
def test_a_login_that_is_not_whole_names_the_key(
    table: type[AdminConfig], settings: dict[str, str], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(table, "a:1", {"security.protocol": "SASL_PLAINTEXT", **settings})
    assert caught.value.key.startswith(key)
    assert "hunter2" not in str(caught.value)
