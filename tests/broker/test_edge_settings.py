"""The broker's configuration: keys, bounds, rules across keys, defaults of topics."""

import pytest

from minikafka.broker.config import (
    BrokerConfig,
    advertised_listeners,
    bound_listeners,
    controller_addresses,
    inter_broker_listener,
)
from minikafka.broker.settings import read_settings
from minikafka.broker.topic_defaults import BROKER_KEYS, SYNONYMS, TopicDefaults, check_dynamic
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import MetadataImage
from minikafka.runtime.config import settings_of
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.kafka_keys import KNOWN_UNUSED
from minikafka.storage.delay_config import DelayConfig
from minikafka.storage.route_config import RouteConfig
from minikafka.storage.topic_config import WITHOUT_EFFECT, TopicConfig
from minikafka.storage.ttl_config import TtlConfig

GIVEN = {"node.id": "1", "controller.quorum.bootstrap.servers": "c:9093"}


def read(**settings: str) -> BrokerConfig:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return read_settings({**GIVEN, **given}).config


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"lisseners": "x"}, "lisseners=x: unknown key; did you mean listeners?"),
        ({"num.partitions": "0"}, "num.partitions=0: must be at least 1"),
        ({"log.retention.ms": "soon"}, "log.retention.ms=soon: must be an integer"),
        ({"log.retention.hours": "soon"}, "log.retention.hours=soon: must be an integer"),
        ({"listeners": "here"}, "listeners=here: 'here' is not NAME://host:port"),
        ({"listeners": "P://h:70000"}, "listeners=P://h:70000: there is no port 70000"),
        ({"listeners": "A://h:1,A://h:2"}, "listener A is named twice"),
        ({"listeners": "PLAINTEXT://h:1,B://h:1"}, "two listeners have one address"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners: is required"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "needs a host that others can reach"),
        ({"advertised.listeners": "X://h:1"}, "listener X is advertised but not in listeners"),
        ({"inter.broker.listener.name": "X"}, "inter.broker.listener.name=X: listener X is not"),
        (
            {"listener.name.outside.ssl.client.auth": "none"},
            "listener.name.outside.ssl.client.auth: there is no listener outside",
        ),
        (
            {"listener.name.plaintext.ssl.keystore.pasword": "secret"},
            "unknown key; did you mean listener.name.plaintext.ssl.keystore.password?",
        ),
        (
            {"listener.name.plaintex.ssl.client.auth": "none"},
            "no listener plaintex; did you mean listener.name.plaintext.ssl.client.auth?",
        ),
        (
            {"listener.name.plaintext.plan.sasl.jaas.config": "secret"},
            "unknown key; did you mean listener.name.plaintext.plain.sasl.jaas.config?",
        ),
        (
            {"listener.name.plaintext.plain.sasl.jaas.confg": "secret"},
            "unknown key; did you mean listener.name.plaintext.plain.sasl.jaas.config?",
        ),
        (
            {"listener.name.PLAINTEXT.sasl.enabled.mechanisms": "PLAIN"},
            "did you mean listener.name.plaintext.sasl.enabled.mechanisms?",
        ),
        (
            {"listeners.name.plaintext.ssl.client.auth": "none"},
            "unknown key; did you mean listener.name.plaintext.ssl.client.auth?",
        ),
        (
            {
                "listeners": "PLAINTEXT://h:1,SSL://h:2",
                "listener.name.ssl.ssl.client.auth": "maybe",
            },
            "ssl.client.auth=maybe: must be one of none, requested, required",
        ),
        ({"listeners": "INSIDE://h:1"}, "listener INSIDE is missing, and its name is no security"),
        ({"listener.security.protocol.map": "A:TLS"}, "=TLS: must be one of PLAINTEXT, SSL, SASL"),
        (
            {"security.inter.broker.protocol": "SSL"},
            "security.inter.broker.protocol=SSL: listener SSL is not an advertised listener",
        ),
        (
            {
                "security.inter.broker.protocol": "PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            },
            "cannot be set together with inter.broker.listener.name=PLAINTEXT",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "is not NAME:PROTOCOL"),
        ({"controller.quorum.bootstrap.servers": "c"}, "=c: is not host:port"),
        ({"controller.quorum.bootstrap.servers": ""}, "is required: where is the controller?"),
        ({"replica.fetch.wait.max.ms": "40000"}, "must not exceed replica.lag.time.max.ms"),
        ({"node.id": ""}, "node.id=: must be an integer"),
    ],
)
def test_what_cannot_be_is_named_with_key_value_and_reason(
    settings: dict[str, str], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings({**GIVEN, **settings})
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_key_of_one_listener_that_changes_nothing_is_worth_a_warning() -> None:
    given = {
        "listener.name.plaintext.ssl.provider": "SunJSSE",
        "listener.name.plaintext.sasl.server.max.receive.size": "1",
        "listener.name.plaintext.ssl.client.auth": "none",
        "listener.name.controller.ssl.client.auth": "none",
    }
    warned = read_settings({**GIVEN, **given}).warnings
    assert [warning.partition(": ")[::2] for warning in warned] == [
        (
            "listener.name.plaintext.ssl.provider has no effect",
            "it configures Java's security classes",
        ),
        (
            "listener.name.plaintext.sasl.server.max.receive.size has no effect",
            "sasl.server.max.receive.size is for all listeners together",
        ),
    ]


def test_no_value_is_resolved() -> None:
    """As CVE-2024-31141 was: a value named a file or a variable, whose content was put there."""
    for text in ("${file:/etc/passwd:root}", "${env:HOME}", "$HOME"):
        assert read(broker_rack=text).broker_rack == text


def test_a_file_of_kafkas_own_is_taken_with_a_warning_for_each_key_without_meaning() -> None:
    settings = read_settings(
        {
            "process.roles": "broker",
            "broker.id": "7",
            "controller.quorum.voters": "100@10.0.0.1:9093,101@[::1]:9093",
            "num.network.threads": "3",
            "log.segment.bytes": "1000000",
            "offsets.topic.replication.factor": "1",
            "broker.session.timeout.ms": "3000",
            "metadata.log.dir": "/m",
            "confluent.anything": "1",
        }
    )
    assert settings.config.node_id == 7
    assert controller_addresses(settings.config) == (("10.0.0.1", 9093), ("::1", 9093))
    warned = [warning.split()[0] for warning in settings.warnings]
    assert warned == ["process.roles", "num.network.threads"]


def test_listeners_are_told_as_advertised() -> None:
    config = read(
        listeners="PLAINTEXT://0.0.0.0:9092,OUTSIDE://0.0.0.0:0",
        advertised_listeners="PLAINTEXT://b1.inside:9092,OUTSIDE://203.0.113.9:31092",
        listener_security_protocol_map="OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
    )
    assert [(one.name, one.port) for one in bound_listeners(config)] == [
        ("PLAINTEXT", 9092),
        ("OUTSIDE", 0),
    ]
    assert advertised_listeners(config)[1].host == "203.0.113.9"
    assert inter_broker_listener(config) == "PLAINTEXT"


def test_no_key_is_both_spoken_and_said_to_mean_nothing() -> None:
    spoken = {key for row in settings_of(BrokerConfig) for key in (row.key, *row.aliases)}
    assert sorted((spoken | set(BROKER_KEYS)) & set(KNOWN_UNUSED)) == []


def test_every_synonym_is_of_a_topics_key_and_every_topics_key_has_one() -> None:
    topics_own = {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        *WITHOUT_EFFECT,
        *(row.key for row in settings_of(DelayConfig)),
        *(row.key for row in settings_of(RouteConfig)),
        *(row.key for row in settings_of(TtlConfig)),
    }
    keys = {row.key for row in settings_of(TopicConfig)}
    assert sorted(SYNONYMS) == sorted(keys - topics_own)


def test_a_topics_settings_are_laid_over_those_of_the_brokers_over_the_files() -> None:
    defaults = TopicDefaults(1, {"log.retention.hours": "2", "log.segment.bytes": "5000"})
    image = MetadataImage()
    assert defaults.config_of(image, "t").retention_ms == 7_200_000
    image.apply(r.ConfigRecord(4, "", "log.retention.ms", "60"), 0)
    assert defaults.config_of(image, "t").retention_ms == 60
    image.apply(r.ConfigRecord(4, "1", "log.retention.minutes", "1"), 1)
    image.apply(r.ConfigRecord(4, "2", "log.retention.ms", "1"), 2)
    assert defaults.config_of(image, "t").retention_ms == 60_000
    image.apply(r.ConfigRecord(2, "t", "retention.ms", "5"), 3)
    assert defaults.config_of(image, "t").retention_ms == 5
    assert defaults.config_of(image, "u").retention_ms == 60_000
    assert defaults.config_of(image, "u").segment_bytes == 5000


def test_a_throttle_is_that_of_this_broker_or_of_all_or_the_files() -> None:
    key = "leader.replication.throttled.rate"
    defaults, image = TopicDefaults(1, {key: "5"}), MetadataImage()
    assert defaults.broker_value(image, key) == 5
    image.apply(r.ConfigRecord(4, "", key, "6"), 0)
    image.apply(r.ConfigRecord(4, "2", key, "1"), 1)
    assert defaults.broker_value(image, key) == 6
    image.apply(r.ConfigRecord(4, "1", key, "7"), 2)
    assert defaults.broker_value(image, key) == 7
    assert TopicDefaults(1, {}).broker_value(MetadataImage(), key) == 2**63 - 1


def test_throttled_replicas_are_pairs_or_all() -> None:
    key = "follower.replication.throttled.replicas"
    image = MetadataImage()
    for value in ("*", "0:1,12:3", ""):
        image.apply(r.ConfigRecord(2, "t", key, value), image.offset + 1)
        TopicDefaults(1, {}).config_of(image, "t")
    for value in ("*,0:1", "0", "0:", "a:1"):
        image.apply(r.ConfigRecord(2, "t", key, value), image.offset + 1)
        with pytest.raises(ConfigError, match=key):
            TopicDefaults(1, {}).config_of(image, "t")


def test_hours_that_mean_for_ever_are_not_multiplied() -> None:
    defaults = TopicDefaults(1, {"log.retention.hours": "-1"})
    assert defaults.config_of(MetadataImage(), "t").retention_ms == -1


def test_only_what_topics_inherit_can_change_while_the_broker_runs() -> None:
    check_dynamic("log.retention.hours", "5")
    check_dynamic("log.retention.hours", None)
    check_dynamic("leader.replication.throttled.rate", "1000")
    check_dynamic("log.cleaner.backoff.ms", "1000")
    for key, value in (("node.id", "5"), ("log.retention.hours", "x"), ("nope", "1")):
        with pytest.raises(ConfigError, match=key):
            check_dynamic(key, value)


def test_what_kafka_changes_at_run_time_and_means_nothing_here_is_checked_and_taken() -> None:
    taken = {
        "background.threads": "20",
        "log.cleaner.threads": "2",
        "num.io.threads": "16",
        "transaction.partition.verification.enable": "true",
    }
    for key, value in taken.items():
        assert key in KNOWN_UNUSED
        check_dynamic(key, value)
        check_dynamic(key, None)
        with pytest.raises(ConfigError, match=f"{key}=many: must be"):
            check_dynamic(key, "many")


def test_what_is_read_can_be_written_and_read_again() -> None:
    config = read(num_partitions="5", log_dirs="/a,/b")
    rows = settings_of(type(config))
    written = {row.key: row.format(getattr(config, row.field)) for row in rows}
    assert read_settings({key: value for key, value in written.items() if value}).config == config
