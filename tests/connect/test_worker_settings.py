"""The keys of workers and connectors, and the settings of clients that follow from them."""

import pytest

from minikafka.connect.clients import Clients, check_overrides, sink_group, transactional_id
from minikafka.connect.cluster_settings import cluster_settings
from minikafka.connect.common_config import SINK_CONFIG, SOURCE_CONFIG, check_sink
from minikafka.connect.config_def import BadConfig
from minikafka.connect.group_member import MARGIN_MS
from minikafka.connect.states import TaskId
from minikafka.connect.topic_creation import new_topic
from minikafka.connect.worker_config import WorkerConfig, worker_config
from minikafka.runtime.errors import ConfigError

STANDALONE = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "offsets",
}
DISTRIBUTED = STANDALONE | {
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
TASK = TaskId("c", 1)


def test_defaults_are_kafkas() -> None:
    config = worker_config(STANDALONE)
    assert not config.is_distributed
    assert not config.is_exactly_once
    assert (config.offset_flush_interval_ms, config.task_shutdown_graceful_timeout_ms) == (
        60_000,
        5_000,
    )
    assert (config.offset_storage_partitions, config.status_storage_partitions) == (25, 5)
    assert config.task_restart_backoff_ms == 0
    assert config.listeners == ("http://:8083",)


@pytest.mark.parametrize(
    ("props", "why"),
    [
        ({"group.id": ""}, "group.id"),
        ({"status.storage.topic": ""}, "status.storage.topic"),
        ({"heartbeat.interval.ms": "10000"}, "must be less than session.timeout.ms"),
        ({"offset.flush.intervall.ms": "1"}, "did you mean offset.flush.interval.ms"),
        ({"exactly.once.source.support": "yes"}, "must be one of disabled, preparing, enabled"),
        (
            {"config.storage.topic": "", "offset.storage.file.filename": ""},
            "is required for a standalone worker",
        ),
        (
            {
                "config.storage.topic": "",
                "offset.storage.topic": "",
                "exactly.once.source.support": "enabled",
            },
            "is required for exactly.once.source.support=enabled",
        ),
    ],
)
def test_what_cannot_work_is_refused(props: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        worker_config(DISTRIBUTED | props)


def test_prefixed_keys_are_passed_on_and_others_of_kafka_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    props = {"producer.linger.ms": "7", "plugin.discovery": "hybrid_warn"}
    props |= {"connect.protocol": "eager", "worker.unsync.backoff.ms": "1"}
    config = worker_config(DISTRIBUTED | props | {"offset.storage.segment.bytes": "1000"})
    assert config.props["producer.linger.ms"] == "7"
    assert config.storage_configs("offset.storage.") == {
        "cleanup.policy": "compact",
        "segment.bytes": "1000",
    }
    for key in ("plugin.discovery", "connect.protocol", "worker.unsync.backoff.ms"):
        assert f"{key} has no effect" in caplog.text


@pytest.mark.parametrize(("stop_ms", "warns"), [("5667", False), ("5668", True)])
def test_it_is_told_if_tasks_may_outlive_their_session(
    stop_ms: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(task_shutdown_graceful_timeout_ms=stop_ms)
    times = cluster_settings(config, "http://a/", lambda props: True).times
    assert (times.silence_ms + int(stop_ms) + MARGIN_MS <= times.session_timeout_ms) is not warns
    assert ("may still run when others have got them" in caplog.text) is warns


def config_of(**keys: str) -> WorkerConfig:
    return worker_config(DISTRIBUTED | {key.replace("_", "."): v for key, v in keys.items()})


def test_clients_are_named_after_their_task_and_take_overrides() -> None:
    config = config_of(producer_linger_ms="7", producer_acks="1", bootstrap_servers="h:1")
    props = {"producer.override.acks": "all", "consumer.override.max.poll.records": "9"}
    clients = Clients(config, "c", props)
    producer = clients.producer(TASK)
    assert producer["bootstrap_servers"] == ("h:1",)
    assert producer["client_id"] == "connector-producer-c-1"
    assert (producer["linger_ms"], producer["acks"]) == ("7", "all")
    assert clients.producer(TASK, letters=True)["client_id"] == "connector-dlq-producer-c-1"
    consumer = clients.consumer(TASK)
    assert (consumer["group_id"], consumer["max_poll_records"]) == ("connect-c", "9")
    assert consumer["auto_offset_reset"] == "earliest"
    assert consumer["isolation_level"] == "read_committed"
    assert consumer["enable_auto_commit"] is False
    assert clients.transactional(TASK)["transactional_id"] == "g-c-1"
    assert transactional_id(config, TASK) == "g-c-1"


def test_a_sinks_group_may_be_overridden() -> None:
    assert sink_group("c", {}) == "connect-c"
    assert sink_group("c", {"consumer.override.group.id": "mine"}) == "mine"


@pytest.mark.parametrize(
    ("policy", "key", "allowed"),
    [
        ("All", "producer.override.acks", True),
        ("None", "producer.override.acks", False),
        ("Principal", "admin.override.acks", False),
        ("Principal", "consumer.override.sasl.jaas.config", True),
    ],
)
def test_overrides_are_those_that_the_policy_permits(policy: str, key: str, allowed: bool) -> None:
    if allowed:
        check_overrides({key: "x"}, policy)
    else:
        with pytest.raises(BadConfig, match=f"{key}: the worker's .* is {policy}"):
            check_overrides({key: "x"}, policy)


def test_each_kind_of_connector_has_kafkas_common_keys() -> None:
    both = {"name": "c", "connector.class": "X"}
    assert SOURCE_CONFIG.parse(both)["transaction.boundary"] == "poll"
    assert SINK_CONFIG.parse(both)["errors.tolerance"] == "none"
    assert "topics" not in SOURCE_CONFIG.keys
    assert "exactly.once.support" not in SINK_CONFIG.keys
    for wrong in (
        {"name": "a\nb"},
        {"tasks.max": "0"},
        {"transforms": "a,a"},
        {"name": ""},
        {"name": "n" * 2001},
    ):
        with pytest.raises(BadConfig):
            SINK_CONFIG.parse(both | wrong)


@pytest.mark.parametrize(
    ("props", "why"),
    [
        ({}, "Must configure one of topics or topics.regex"),
        ({"topics": "a", "topics.regex": "b"}, "mutually exclusive"),
        ({"topics.regex": "("}, "Invalid value"),
        ({"topics": "a,b", "errors.deadletterqueue.topic.name": "b"}, "The DLQ topic 'b'"),
        ({"topics.regex": ".*", "errors.deadletterqueue.topic.name": "b"}, "The DLQ topic 'b'"),
    ],
)
def test_the_topics_of_a_sink_are_given_in_one_way(props: dict[str, str], why: str) -> None:
    check_sink({"topics": "a"})
    with pytest.raises(BadConfig, match=why):
        check_sink(props)


def test_groups_of_topics_are_created_with_their_own_settings() -> None:
    props = {
        "topic.creation.groups": "big, small",
        "topic.creation.default.partitions": "5",
        "topic.creation.default.replication.factor": "2",
        "topic.creation.big.include": "x.*,y",
        "topic.creation.big.exclude": "xx",
        "topic.creation.big.partitions": "50",
        "topic.creation.big.cleanup.policy": "compact",
    }
    for name, partitions, configs in (
        ("x1", 50, {"cleanup.policy": "compact"}),
        ("xx", 5, {}),
        ("z", 5, {}),
    ):
        found = new_topic(props, name)
        assert found is not None
        assert (found.num_partitions, found.replication_factor) == (partitions, 2)
        assert found.configs == configs
    assert new_topic({}, "x") is None
    for wrong in ({"topic.creation.default.partitions": "0"}, {"topic.creation.big.include": "("}):
        with pytest.raises(BadConfig, match=r"topic\.creation\."):
            new_topic(props | wrong, "x1" if "big" in str(wrong) else "z")
