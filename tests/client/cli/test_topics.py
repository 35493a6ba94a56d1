"""What `topics` asks of an admin and what it prints, with an admin that keeps topics in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pytest

from minikafka.client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource
from minikafka.client.admin.delayed_types import ForwardingStatus
from minikafka.client.admin.replica_types import FollowerState, ReplicaRole, ReplicaState
from minikafka.client.admin.topic_types import (
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from minikafka.client.errors import AdminError
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_configs import ConfigSource
from minikafka.protocol.types import TopicPartition

from .conftest import Run

BROKERS = 3
TO = ("topics", "--bootstrap-server", "localhost:9092")


class FakeAdmin:
    """A cluster of three brokers in memory."""

    topics: dict[str, TopicDescription]
    configs: dict[str, dict[str, str]]
    states: dict[TopicPartition, dict[int, ReplicaState | ApiError]]
    settings: Mapping[str, str]

    def __init__(self) -> None:
        self.topics, self.configs, self.states = {}, {}, {}

    def from_config(self, settings: Mapping[str, str]) -> Self:
        self.settings = settings
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, CreatedTopic]:
        (topic,) = topics
        if topic.name in self.topics:
            raise refused(topic.name, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
        if topic.replication_factor > BROKERS:
            code = ErrorCode.INVALID_REPLICATION_FACTOR
            raise refused(topic.name, code, f"{topic.replication_factor} replicas, 3 brokers")
        if topic.assignments is None:
            factor = 3 if topic.replication_factor == -1 else topic.replication_factor
            replicas = [tuple(range(1, factor + 1))] * max(1, topic.num_partitions)
        else:
            replicas = [tuple(topic.assignments[i]) for i in range(len(topic.assignments))]
        self.put(topic.name, replicas)
        self.configs[topic.name] = dict(topic.configs)
        return {}

    def put(self, name: str, replicas: Sequence[tuple[int, ...]]) -> None:
        partitions = tuple(
            PartitionDescription(number, brokers[0], 0, brokers, brokers)
            for number, brokers in enumerate(replicas)
        )
        topic_id = f"{name:A<21}g"
        self.topics[name] = TopicDescription(name, topic_id, name.startswith("__"), partitions)
        self.configs.setdefault(name, {})

    async def delete_topics(self, names: Sequence[str]) -> None:
        for name in names:
            del self.topics[name]

    async def describe_forwarding(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ForwardingStatus]:
        assert partitions == [TopicPartition("later", 0), TopicPartition("later", 1)]
        return {
            partitions[0]: ForwardingStatus(3, 1, None, 0, 0, 0, 0, []),
            partitions[1]: ForwardingStatus(3, 0, None, 9, 9, 9, 9, []),
        }

    async def list_topics(self, *, include_internal: bool) -> list[TopicListing]:
        return [
            TopicListing(topic.name, topic.topic_id, topic.is_internal)
            for topic in self.topics.values()
            if include_internal or not topic.is_internal
        ]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        return {name: self.topics[name] for name in names}

    async def describe_replicas(
        self, replicas: Mapping[TopicPartition, Sequence[int]], *, timeout_ms: int
    ) -> dict[TopicPartition, dict[int, ReplicaState | ApiError]]:
        assert {key: sorted(brokers) for key, brokers in replicas.items()} == {
            key: sorted(states) for key, states in self.states.items()
        }
        return self.states

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {resource: self.entries(resource.name) for resource in resources}

    def entries(self, name: str) -> dict[str, ConfigEntry]:
        default, topic = ConfigSource.DEFAULT_CONFIG, ConfigSource.TOPIC_CONFIG
        entries = {"min.insync.replicas": ("2", default), "segment.bytes": ("1", default)}
        entries |= {key: (value, topic) for key, value in self.configs[name].items()}
        return {k: ConfigEntry(k, v, s, False, False) for k, (v, s) in entries.items()}

    async def create_partitions(
        self, counts: Mapping[str, int], *, assignments: Mapping[str, Any] | None
    ) -> None:
        for name, count in counts.items():
            have = [partition.replicas for partition in self.topics[name].partitions]
            if count <= len(have):
                detail = f"The topic {name} currently has {len(have)} partition(s); {count} would"
                raise refused(name, ErrorCode.INVALID_PARTITIONS, f"{detail} not be an increase.")
            new = (assignments or {}).get(name) or [(1, 2, 3)] * (count - len(have))
            self.put(name, [*have, *(tuple(brokers) for brokers in new)])

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]]
    ) -> None:
        for resource, wanted in changes.items():
            for change in wanted:
                if change.value is None:
                    self.configs[resource.name].pop(change.name, None)
                else:
                    self.configs[resource.name][change.name] = change.value


def refused(name: str, code: ErrorCode, detail: str) -> AdminError:
    return AdminError({name: ApiError(code, detail)})


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def test_create_describe_list_delete(run: Run, admin: FakeAdmin) -> None:
    created = run(*TO, "--create", "--topic", "t", "--partitions", 2, "--config", "segment.bytes=9")
    assert created == (0, "Created topic t.\n", "")
    assert admin.settings["bootstrap.servers"] == "localhost:9092"
    code, out, err = run(*TO, "--describe", "--topic", "t")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Topic: t\tTopicId: tAAAAAAAAAAAAAAAAAAAAg\tPartitionCount: 2\tReplicationFactor: 3"
        "\tConfigs: segment.bytes=9",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: N/A"
        "\tLastKnownElr: N/A",
        "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: N/A"
        "\tLastKnownElr: N/A",
    ]
    assert run(*TO, "--list") == (0, "t\n", "")
    assert run(*TO, "--delete", "--topic", "t") == (0, "", "")
    assert run(*TO, "--list") == (0, "", "")


def test_a_topic_with_records_that_wait_is_deleted_only_with_force(
    run: Run, admin: FakeAdmin
) -> None:
    admin.put("later", [(1,), (2,)])
    admin.put("t", [(1,)])
    admin.configs["later"] = {"minikafka.delay.target": "t"}
    code, _, err = run(*TO, "--delete", "--topic", "later|t")
    assert code == 1
    assert "7 records of 'later' are yet to be forwarded: --force-pending" in err
    assert [*admin.topics] == ["later", "t"]
    assert run(*TO, "--delete", "--topic", "t") == (0, "", "")
    assert run(*TO, "--delete", "--topic", "later", "--force-pending") == (0, "", "")
    assert admin.topics == {}
    code, _, err = run(*TO, "--list", "--force-pending")
    assert (code, "--force-pending needs --delete" in err) == (2, True)


def test_an_existing_topic(run: Run, admin: FakeAdmin) -> None:
    admin.put("t", [(1,)])
    code, out, err = run(*TO, "--create", "--topic", "t")
    assert (code, out) == (1, "")
    assert err == "Error while executing topic command : Topic 't' already exists.\n"
    assert run(*TO, "--create", "--topic", "t", "--if-not-exists") == (0, "", "")


def test_other_refusals_are_errors_whatever_exists(run: Run, admin: FakeAdmin) -> None:
    create = (*TO, "--create", "--topic", "t", "--if-not-exists", "--replication-factor", 4)
    assert run(*create) == (1, "", "Error while executing topic command : 4 replicas, 3 brokers\n")


def test_assignments(run: Run, admin: FakeAdmin) -> None:
    run(*TO, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3")
    assert [p.replicas for p in admin.topics["t"].partitions] == [(1, 2), (2, 3)]
    grow = (*TO, "--alter", "--topic", "t", "--partitions", 3)
    assert run(*grow, "--replica-assignment", "1:2,2:3,3:1") == (0, "", "")
    assert [p.replicas for p in admin.topics["t"].partitions] == [(1, 2), (2, 3), (3, 1)]


def test_names_that_may_collide_are_warned_of(run: Run, admin: FakeAdmin) -> None:
    out = run(*TO, "--create", "--topic", "a.b").out
    assert out == (
        "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
        "('_') could collide. To avoid issues it is best to use either, but not both.\n"
        "Created topic a.b.\n"
    )


def test_alter(run: Run, admin: FakeAdmin) -> None:
    admin.put("t", [(1, 2, 3)])
    alter = (*TO, "--alter", "--topic", "t")
    assert run(*alter, "--partitions", 3) == (0, "", "")
    assert len(admin.topics["t"].partitions) == 3
    code, _, err = run(*alter, "--partitions", 2)
    assert code == 1
    assert err == (
        "Error while executing topic command : The topic t currently has 3 partition(s); 2 would "
        "not be an increase.\n"
    )
    changed = (0, "Updated config for topic t.\n", "")
    assert run(*alter, "--config", "a=1", "--config", "b=x=y") == changed
    assert admin.configs["t"] == {"a": "1", "b": "x=y"}
    assert run(*alter, "--delete-config", "a", "--config", "c=") == changed
    assert admin.configs["t"] == {"b": "x=y", "c": ""}


def test_patterns(run: Run, admin: FakeAdmin) -> None:
    for name in ("flights", "delays", "__consumer_offsets"):
        admin.put(name, [(1,)])
    assert run(*TO, "--list").out == "__consumer_offsets\ndelays\nflights\n"
    assert run(*TO, "--list", "--exclude-internal").out == "delays\nflights\n"
    assert run(*TO, "--list", "--topic", "fl.*,__.*").out == "__consumer_offsets\nflights\n"
    assert run(*TO, "--describe", "--topic", "fl.*").out.count("Partition: ") == 1
    assert run(*TO, "--describe", "--topic-id", admin.topics["delays"].topic_id).out.startswith(
        "Topic: delays\t"
    )
    run(*TO, "--delete", "--topic", "(?!__).*")
    assert list(admin.topics) == ["__consumer_offsets"]


@pytest.mark.parametrize("action", ["--describe", "--delete", "--alter"])
def test_a_missing_topic(run: Run, admin: FakeAdmin, action: str) -> None:
    arguments = [*TO, action, "--topic", "t"]
    if action == "--alter":
        arguments += ["--partitions", "2", "--config", "a=b"]
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err == "Error while executing topic command : Topic 't' does not exist as expected\n"
    assert run(*arguments, "--if-exists") == (0, "", "")
    assert run(*TO, "--list", "--topic", "t") == (0, "", "")


def test_a_missing_topic_id(run: Run, admin: FakeAdmin) -> None:
    err = run(*TO, "--describe", "--topic-id", "xyz").err
    assert err.endswith("TopicId 'xyz' does not exist as expected\n")


def test_filters(run: Run, admin: FakeAdmin) -> None:
    def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionDescription:
        return PartitionDescription(number, leader, 0, (1, 2, 3), isr, (), (), ())

    partitions = (
        partition(0, 1, (1, 2, 3)),
        partition(1, 2, (2, 3)),
        partition(2, 3, (3,)),
        partition(3, -1, (2,)),
    )
    admin.topics["t"] = TopicDescription("t", "x", False, partitions)
    admin.configs["t"] = {}

    def kept(flag: str) -> list[int]:
        lines = run(*TO, "--describe", flag).out.splitlines()
        assert all(line.startswith("\tTopic: t\tPartition: ") for line in lines)
        return [int(line.split("\t")[2].removeprefix("Partition: ")) for line in lines]

    assert kept("--under-replicated-partitions") == [1, 2, 3]
    assert kept("--unavailable-partitions") == [3]
    assert kept("--under-min-isr-partitions") == [2, 3]
    assert kept("--at-min-isr-partitions") == [1]
    assert run(*TO, "--describe", "--topics-with-overrides").out == ""
    admin.configs["t"] = {"segment.bytes": "1"}
    assert run(*TO, "--describe", "--topics-with-overrides").out.count("\n") == 1


def test_replicas_as_their_brokers_have_them(run: Run, admin: FakeAdmin) -> None:
    admin.put("t", [(1, 2, 3), (3, 1, 2)])
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    leader = ReplicaState(
        broker_id=1,
        role=ReplicaRole.LEADER,
        leader_id=1,
        leader_epoch=4,
        log_start_offset=5,
        log_end_offset=90,
        high_watermark=70,
        last_stable_offset=60,
        size_bytes=8_000,
        segment_count=2,
        directory_id="d",
        epochs=(),
        isr=(1, 2),
        followers=(FollowerState(2, 70, 70, 120), FollowerState(3, None, None, 9_000)),
    )
    follower = replace(
        leader, broker_id=2, role=ReplicaRole.FOLLOWER, log_end_offset=71, followers=()
    )
    lost = ApiError(ErrorCode.NETWORK_EXCEPTION, "10.0.0.3: connection refused")
    admin.states = {t0: {1: leader, 2: follower, 3: lost}, t1: {3: lost, 1: follower, 2: lost}}
    lines = run(*TO, "--describe", "--topic", "t", "--replicas").out.splitlines()
    assert [line for line in lines if line.startswith("\t\t")] == [
        "\t\tReplica: 1\tRole: leader\tLeaderEpoch: 4\tLogStartOffset: 5\tLogEndOffset: 90"
        "\tHighWatermark: 70\tLag: 0\tBehindMs: 0\tSize: 8000",
        "\t\tReplica: 2\tRole: follower\tLeaderEpoch: 4\tLogStartOffset: 5\tLogEndOffset: 71"
        "\tHighWatermark: 70\tLag: 19\tBehindMs: 120\tSize: 8000",
        "\t\tReplica: 3\tError: NETWORK_EXCEPTION: 10.0.0.3: connection refused",
        "\t\tReplica: 3\tError: NETWORK_EXCEPTION: 10.0.0.3: connection refused",
        "\t\tReplica: 1\tRole: follower\tLeaderEpoch: 4\tLogStartOffset: 5\tLogEndOffset: 71"
        "\tHighWatermark: 70\tLag: N/A\tBehindMs: N/A\tSize: 8000",
        "\t\tReplica: 2\tError: NETWORK_EXCEPTION: 10.0.0.3: connection refused",
    ]
    assert run(*TO, "--list", "--replicas").code == 2
    assert run(*TO, "--describe", "--topic", "t").out.count("\n") == 3, "Kafka's lines alone"
    kept = run(*TO, "--describe", "--under-min-isr-partitions", "--replicas")
    assert kept.out == ""
