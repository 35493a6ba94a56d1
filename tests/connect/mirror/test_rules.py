"""What of a source is mirrored: topics, partitions, settings, ACLs."""

from typing import Any

import pytest

from minikafka.client.admin.acl_types import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from minikafka.client.admin.config_types import ConfigChange, ConfigEntry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.mirror.keys import CHECKPOINT, SOURCE, client_settings
from minikafka.connect.mirror.patterns import NameFilter
from minikafka.connect.mirror.rules import FlowRules, TopicPlan
from minikafka.protocol.messages.describe_configs import ConfigSource
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation

PROPS = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


def rules(**more: str) -> FlowRules:
    texts = {key.replace("_", "."): value for key, value in more.items()}
    return FlowRules(SOURCE.parse(PROPS | texts))


def test_topics_are_mirrored_but_internal_ones_and_those_of_the_target() -> None:
    topics = ["orders", "heartbeats", "B.orders", "C.orders", "C.B.x", "__offsets", "a.internal"]
    topics += ["mm2-offset-syncs.B.internal", "orders.replica", "connect-internal"]
    assert [each for each in topics if rules().mirrors(each)] == [
        "orders",
        "heartbeats",
        "C.orders",
    ]


def test_patterns_match_whole_names_and_excludes_take_precedence() -> None:
    some = rules(topics="orders, pay.*", topics_exclude="payroll")
    names = ["orders", "orders2", "payments", "payroll", "heartbeats"]
    assert [some.mirrors(each) for each in names] == [True, False, True, False, True]
    quiet = rules(topics="orders", heartbeats_replication_enabled="false")
    assert not quiet.mirrors("heartbeats")
    assert not rules(topics="").mirrors("orders")


def test_groups_are_filtered_alike() -> None:
    groups = NameFilter(CHECKPOINT.parse(PROPS), "groups")
    names = ["billing", "console-consumer-7", "connect-x", "__internal"]
    assert [groups.takes(each) for each in names] == [True, False, False, False]


def test_a_malformed_pattern_names_its_key() -> None:
    with pytest.raises(BadConfig, match=r"configuration topics\.exclude: missing \)"):
        rules(topics_exclude="(a")


def test_partitions_only_grow() -> None:
    plan = rules().plan(
        {"new": 3, "more": 4, "fewer": 1, "same": 2}, {"A.more": 2, "A.fewer": 5, "A.same": 2}
    )
    assert plan == TopicPlan({"A.new": 3}, {"A.more": 4})


def entry(name: str, value: str, *, own: bool = True, **more: Any) -> ConfigEntry:
    source = ConfigSource.TOPIC_CONFIG if own else ConfigSource.DEFAULT_CONFIG
    flags = {"is_read_only": False, "is_sensitive": False} | more
    return ConfigEntry(name, value, source, **flags)


def test_settings_of_the_topic_follow_the_source() -> None:
    source = [
        entry("retention.ms", "5"),
        entry("cleanup.policy", "delete", own=False),
        entry("segment.bytes", "7"),
        entry("min.insync.replicas", "2"),
        entry("only.here", "1"),
        entry("compression.type", "zstd"),
        entry("secret", "x", is_sensitive=True),
    ]
    target = [
        entry("retention.ms", "9"),
        entry("cleanup.policy", "compact"),
        entry("segment.bytes", "7"),
        entry("min.insync.replicas", "1", own=False),
        entry("compression.type", "producer", own=False),
        entry("secret", "y"),
    ]
    changes = rules().config_changes(
        {each.name: each for each in source}, {each.name: each for each in target}
    )
    assert changes == [
        ConfigChange("retention.ms", "5"),
        ConfigChange("cleanup.policy", None, ConfigOperation.DELETE),
        ConfigChange("compression.type", "zstd"),
    ]


def acl(
    topic: str,
    operation: AclOperation,
    permission: AclPermission = AclPermission.ALLOW,
    pattern: AclPattern = AclPattern.LITERAL,
) -> Acl:
    return Acl(AclResource.TOPIC, topic, pattern, "User:u", "*", operation, permission)


def test_acls_are_mirrored_but_for_leave_to_write() -> None:
    source = [
        acl("t", AclOperation.READ),
        acl("t", AclOperation.WRITE),
        acl("t", AclOperation.WRITE, AclPermission.DENY),
        acl("all", AclOperation.ALL),
        acl("all", AclOperation.ALL, AclPermission.DENY),
        acl("t", AclOperation.READ, pattern=AclPattern.PREFIXED),
        acl("__t", AclOperation.READ),
        acl("there", AclOperation.READ),
        acl("*", AclOperation.READ),
    ]
    assert rules().acls(source, [acl("A.there", AclOperation.READ)]) == [
        acl("A.t", AclOperation.READ),
        acl("A.t", AclOperation.WRITE, AclPermission.DENY),
        acl("A.all", AclOperation.READ),
        acl("A.all", AclOperation.ALL, AclPermission.DENY),
    ]


def test_a_client_gets_the_settings_of_its_end_and_kind() -> None:
    props = PROPS | {
        "source.cluster.isolation.level": "read_committed",
        "source.cluster.linger.ms": "7",
        "consumer.fetch.min.bytes": "1",
        "source.consumer.fetch.min.bytes": "2",
        "consumer.poll.timeout.ms": "3",
        "admin.timeout.ms": "4",
        "target.consumer.client.id": "c",
    }
    assert client_settings(props, "source", "consumer") == {
        "bootstrap.servers": "a:9092",
        "client.id": "mirror-source-consumer",
        "isolation.level": "read_committed",
        "fetch.min.bytes": "2",
    }
    assert client_settings(props, "target", "consumer") == {
        "bootstrap.servers": "b:9092",
        "client.id": "c",
        "fetch.min.bytes": "1",
    }
    assert client_settings(props, "target", "admin") == {
        "bootstrap.servers": "b:9092",
        "client.id": "mirror-target-admin",
    }
