"""Changes of topic and broker configuration."""

from typing import Any

import pytest

from minikafka.controller.metadata.configuration import (
    SUBSCRIPTIONS_MAX,
    alter_whole,
    incremental_alter,
)
from minikafka.protocol.control.records import BROKER, CLIENT_METRICS, TOPIC
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import alter_configs
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .machine import Machine, error

SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def machine() -> Machine:
    made = Machine(brokers_up=1)
    made.create("t", 1, 1)
    return made


def test_keys_are_set_changed_and_unset(machine: Machine) -> None:
    assert error(machine.configure("t", retention_ms="5", segment_bytes="1000")) == 0
    machine.configure("t", retention_ms="6")
    assert machine.image.configs[TOPIC, "t"] == {"retention.ms": "6", "segment.bytes": "1000"}
    machine.configure("t", operation=DELETE, retention_ms=None, segment_bytes=None)
    assert machine.image.configs == {}


def test_a_whole_configuration_unsets_what_it_does_not_name(machine: Machine) -> None:
    machine.configure("t", retention_ms="5", segment_bytes="1000")

    def alter(name: str, **configs: str) -> Any:
        resource = alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[
                alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource])
        return machine.carry_out(alter_whole(machine.cluster, request)).responses[0]

    assert error(alter("t", retention_ms="6")) == 0
    assert machine.image.configs[TOPIC, "t"] == {"retention.ms": "6"}
    assert error(alter("t", retention_ms="soon")) == ErrorCode.INVALID_CONFIG
    assert error(alter("x")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert machine.image.configs[TOPIC, "t"] == {"retention.ms": "6"}
    assert error(alter("t")) == 0
    assert machine.image.configs == {}


def test_a_topic_may_say_that_it_is_not_tiered(machine: Machine) -> None:
    answer = machine.configure(
        "t",
        remote_storage_enable="false",
        local_retention_ms="1000",
        local_retention_bytes="-2",
        remote_log_copy_disable="false",
        remote_log_delete_on_disable="true",
    )
    assert error(answer) == 0
    assert machine.image.configs[TOPIC, "t"]["local.retention.ms"] == "1000"
    answer = machine.configure("t", remote_storage_enable="true")
    assert "Tiered Storage functionality is disabled in the broker" in answer.error_message


def test_what_changes_nothing_writes_nothing(machine: Machine) -> None:
    machine.configure("t", retention_ms="5")
    length = len(machine.log)
    machine.configure("t", retention_ms="5")
    machine.configure("t", operation=DELETE, segment_bytes=None)
    assert len(machine.log) == length


def test_lists_grow_and_shrink_from_their_default(machine: Machine) -> None:
    machine.configure("t", operation=APPEND, cleanup_policy="compact")
    assert machine.image.configs[TOPIC, "t"] == {"cleanup.policy": "delete,compact"}
    machine.configure("t", operation=SUBTRACT, cleanup_policy="delete")
    assert machine.image.configs[TOPIC, "t"] == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"name": "x", "retention_ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"name": "t", "retention_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "retentionms": "1"}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "retention_ms": None}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "operation": APPEND, "retention_ms": "1"}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "operation": 7, "retention_ms": "1"}, ErrorCode.INVALID_REQUEST),
        ({"name": "t", "remote_storage_enable": "true"}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "local_retention_ms": "-3"}, ErrorCode.INVALID_CONFIG),
        ({"name": "t", "min_compaction_lag_ms": "2", "max_compaction_lag_ms": "1"}, 40),
        ({"name": "t", "kind": 8, "retention_ms": "1"}, ErrorCode.INVALID_REQUEST),
        ({"name": "b", "kind": BROKER, "retention_ms": "1"}, ErrorCode.INVALID_REQUEST),
        ({"name": "01", "kind": BROKER, "log_retention_ms": "1"}, ErrorCode.INVALID_REQUEST),
        ({"name": "9" * 50, "kind": BROKER, "log_retention_ms": "1"}, ErrorCode.INVALID_REQUEST),
        ({"name": "1", "kind": BROKER, "log_retention_ms": "1" * 40_000}, 40),
        ({"name": "1", "kind": BROKER, "unclean_leader_election_enable": "true"}, 40),
        ({"name": "", "kind": BROKER, "unclean_leader_election_enable": "maybe"}, 40),
        ({"name": "", "kind": BROKER, "min_insync_replicas": "0"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_set(machine: Machine, how: dict[str, Any], code: int) -> None:
    length = len(machine.log)
    answer = machine.configure(**how)
    assert error(answer) == code
    assert answer.error_message
    assert len(machine.log) == length


def test_broker_keys_that_only_brokers_know_are_kept_for_them(machine: Machine) -> None:
    assert error(machine.configure("1", kind=BROKER, log_retention_ms="5")) == 0
    assert machine.image.configs[BROKER, "1"] == {"log.retention.ms": "5"}


def test_each_resource_stands_for_itself_and_is_named_once(machine: Machine) -> None:
    change = AlterableConfig(name="retention.ms", config_operation=SET, value="1")
    bad = AlterableConfig(name="nonsense", config_operation=SET, value="1")
    machine.create("u", 1, 1)
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change, bad]),
            AlterConfigsResource(resource_type=TOPIC, resource_name="u", configs=[change]),
            AlterConfigsResource(resource_type=TOPIC, resource_name="u", configs=[change]),
            AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change, change]),
        ]
    )
    answer = machine.carry_out(incremental_alter(machine.cluster, request))
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.INVALID_CONFIG,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert machine.image.configs == {(TOPIC, "u"): {"retention.ms": "1"}}


def test_a_subscription_to_clients_metrics_is_made_and_goes_with_its_last_key(
    machine: Machine,
) -> None:
    match = "client_id=app-.*, client_software_name=librdkafka"
    answer = machine.configure(
        "app", kind=CLIENT_METRICS, interval_ms="100", metrics="*", match=match
    )
    assert error(answer) == 0
    assert machine.image.configs[CLIENT_METRICS, "app"] == {
        "interval.ms": "100",
        "metrics": "*",
        "match": match,
    }
    machine.configure(
        "app", kind=CLIENT_METRICS, operation=DELETE, interval_ms="", metrics="", match=""
    )
    assert machine.image.configs == {}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"interval_ms": "99"}, "interval.ms=99: must be at least 100"),
        ({"interval_ms": "3600001"}, "interval.ms=3600001: must be at most 3600000"),
        ({"interval": "1000"}, "interval=1000: unknown key"),
        ({"match": "client_id"}, "match=client_id: must be SELECTOR=REGEX"),
        ({"match": "software=x"}, "match=software=x: must be SELECTOR=REGEX"),
        ({"match": "client_id=("}, "match=client_id=(: is no regular expression"),
        ({"match": "client_id=(?=a)"}, "match=client_id=(?=a): is no regular expression"),
    ],
)
def test_a_subscription_that_brokers_could_not_follow_is_refused(
    machine: Machine, keys: dict[str, Any], why: str
) -> None:
    answer = machine.configure("app", kind=CLIENT_METRICS, **keys)
    assert error(answer) == ErrorCode.INVALID_CONFIG
    assert answer.error_message.startswith(why)
    assert machine.image.configs == {}


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 250])
def test_a_subscription_has_a_printable_name(machine: Machine, name: str) -> None:
    answer = machine.configure(name, kind=CLIENT_METRICS, metrics="*")
    assert error(answer) == ErrorCode.INVALID_REQUEST


def test_subscriptions_to_clients_metrics_are_bounded_even_in_one_request(
    machine: Machine,
) -> None:
    def resource(name: str) -> AlterConfigsResource:
        change = AlterableConfig(name="metrics", config_operation=SET, value="*")
        return AlterConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configs=[change]
        )

    names = [f"s{number}" for number in range(SUBSCRIPTIONS_MAX + 1)]
    request = IncrementalAlterConfigsRequest(resources=[resource(name) for name in names])
    responses = machine.carry_out(incremental_alter(machine.cluster, request)).responses
    assert [error(each) for each in responses[:-1]] == [0] * SUBSCRIPTIONS_MAX
    assert error(responses[-1]) == ErrorCode.POLICY_VIOLATION
    assert error(machine.configure("s0", kind=CLIENT_METRICS, interval_ms="100")) == 0
    assert error(machine.configure("t0", kind=CLIENT_METRICS, interval_ms="100")) != 0
