"""Elections, reassignments, the quorum, features and brokers' settings, by unmodified admins.

Three brokers and three controllers. What moves is held up by a throttle, so that it can be seen.
"""

import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from minikafka import Admin, ConfigChange, ConfigResource, NewTopic, Producer, TopicPartition

from ..support.cluster import Cluster, wait_until
from .observer import Observer, start_observed

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.errors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
kadmin: Any = confluent_kafka.admin
names = (f"copies-{n}" for n in count())
ELR = "eligible.leader.replicas.version"
THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)


@pytest.fixture(scope="module")
def cluster(observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("copies")
    with Cluster(directory, brokers=3, controllers=3) as made:
        yield start_observed(observer, made)
        made.stop()


@pytest.fixture
def ours(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def foreign(cluster: Cluster) -> Iterator[Any]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield admin
    admin.close()


def led_by_another(ours: Admin) -> str:
    """A topic whose partition is led by broker 2 though broker 1 is preferred."""
    name = next(names)
    ours.create_topics([NewTopic(name, assignments={0: [2, 1]})])
    ours.alter_partition_reassignments({TopicPartition(name, 0): [1, 2]})
    wait_until(lambda: not ours.list_partition_reassignments())
    return name


def leader(ours: Admin, name: str) -> int:
    return ours.describe_topics([name])[name].partitions[0].leader_id


def test_confluent_elects_leaders(cluster: Cluster, ours: Admin) -> None:
    name = led_by_another(ours)
    assert leader(ours, name) == 2
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    place = confluent_kafka.TopicPartition(name, 0)
    nowhere = confluent_kafka.TopicPartition("copies-none", 0)
    preferred = confluent_kafka.ElectionType.PREFERRED
    found = admin.elect_leaders(preferred, [place, nowhere]).result(20)
    assert found[place] is None
    unknown = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert found[nowhere].code() == unknown
    wait_until(lambda: leader(ours, name) == 1)
    for kind in (preferred, confluent_kafka.ElectionType.UNCLEAN):
        again = admin.elect_leaders(kind, [place]).result(20)[place]
        assert again.code() == confluent_kafka.KafkaError.ELECTION_NOT_NEEDED
    admin.elect_leaders(preferred).result(20)


def test_kafka_python_elects_leaders(ours: Admin, foreign: Any) -> None:
    name = led_by_another(ours)
    foreign.elect_leaders(0, {name: [0]})
    wait_until(lambda: leader(ours, name) == 1)
    foreign.elect_leaders(0, {name: [0]})
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        foreign.elect_leaders(0, {"copies-none": [0]})


def test_kafka_python_moves_and_cancels(cluster: Cluster, ours: Admin, foreign: Any) -> None:
    name = next(names)
    ours.create_topics([NewTopic(name, assignments={0: [1]})])
    with Producer(cluster.bootstrap) as producer:
        for _ in range(40):
            producer.send(name, bytes(100_000))
    slow = [ConfigChange(key, "1") for key in THROTTLES]
    ours.incremental_alter_configs(
        {
            ConfigResource.broker(1): slow,
            ConfigResource.broker(3): slow,
            ConfigResource.topic(name): [
                ConfigChange("leader.replication.throttled.replicas", "0:1"),
                ConfigChange("follower.replication.throttled.replicas", "0:3"),
            ],
        }
    )
    place, nowhere = kafka.TopicPartition(name, 0), kafka.TopicPartition(name, 5)
    found = foreign.alter_partition_reassignments({place: [3], nowhere: [3]})
    assert found[place] is None
    assert found[nowhere] is kafka.errors.UnknownTopicOrPartitionError
    moving = {"replicas": [3, 1], "adding_replicas": [3], "removing_replicas": [1]}
    assert foreign.list_partition_reassignments() == {place: moving}
    assert foreign.list_partition_reassignments({name: [0]}) == {place: moving}
    foreign.alter_partition_reassignments({place: None})
    assert foreign.list_partition_reassignments() == {}
    again = foreign.alter_partition_reassignments({place: None})
    assert again[place] is kafka.errors.NoReassignmentInProgressError
    fast = [ConfigChange(key, "1000000000") for key in THROTTLES]
    ours.incremental_alter_configs({ConfigResource.broker(1): fast, ConfigResource.broker(3): fast})
    foreign.alter_partition_reassignments({place: [3]})
    wait_until(lambda: ours.describe_topics([name])[name].partitions[0].replicas == (3,))
    wait_until(lambda: leader(ours, name) == 3)


def test_kafka_python_describes_the_quorum(cluster: Cluster, foreign: Any) -> None:
    described = foreign.describe_metadata_quorum()
    (partition,) = described["topics"][0]["partitions"]
    ids = [controller.node_id for controller in cluster.controllers]
    assert partition["error"] is None
    assert partition["leader_id"] in ids
    assert sorted(one["replica_id"] for one in partition["current_voters"]) == ids
    assert [one["replica_id"] for one in partition["observers"]] == [1, 2, 3]
    assert sorted(node["node_id"] for node in described["nodes"]) == ids


def test_kafka_python_describes_the_cluster(cluster: Cluster, foreign: Any) -> None:
    found = foreign.describe_cluster()
    assert sorted(one["broker_id"] for one in found["brokers"]) == [1, 2, 3]


def test_kafka_python_lists_what_has_settings(ours: Admin, foreign: Any) -> None:
    name = next(names)
    ours.create_topics([NewTopic(name, 1, 1)])
    kind = kafka.admin.ConfigResourceType.TOPIC
    wait_until(lambda: name in foreign.list_config_resources([kind])["topic"])


def test_kafka_python_looks_into_a_transaction(cluster: Cluster, ours: Admin, foreign: Any) -> None:
    name = next(names)
    ours.create_topics([NewTopic(name, 1, 3)])
    place = kafka.TopicPartition(name, 0)
    with Producer(cluster.bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(name, b"open").result(20)
        found = foreign.describe_transactions([name])[name]
        assert (found.state, found.topic_partitions) == ("Ongoing", {place})
        (active,) = foreign.describe_producers([place])[place].active_producers
        assert active.producer_id == found.producer_id
        assert active.current_transaction_start_offset == 0
        producer.commit_transaction()
    wait_until(lambda: foreign.describe_transactions([name])[name].state == "CompleteCommit")
    (active,) = foreign.describe_producers([place])[place].active_producers
    assert active.current_transaction_start_offset == -1


def test_kafka_python_updates_features(ours: Admin, foreign: Any) -> None:
    assert foreign.describe_features()[ELR]["supported"] == (0, 1)
    assert foreign.describe_features()[ELR]["finalized"] == (1, 1)
    how = kafka.admin.UpdateFeatureType
    assert foreign.update_features({ELR: (how.SAFE_DOWNGRADE, 0)}) == {ELR: "OK"}
    wait_until(lambda: ELR not in ours.describe_features().finalized)
    assert foreign.update_features({ELR: 1}, validate_only=True) == {ELR: "OK"}
    assert foreign.update_features({ELR: 1}) == {ELR: "OK"}
    wait_until(lambda: ours.describe_features().finalized.get(ELR) == 1)
    with pytest.raises(kafka.errors.InvalidUpdateVersionError):
        foreign.update_features({ELR: 2})


def test_kafka_python_finds_no_acls(foreign: Any) -> None:
    every = kafka.admin.ACLFilter(
        principal=None,
        host="*",
        operation=kafka.admin.ACLOperation.ANY,
        permission_type=kafka.admin.ACLPermissionType.ANY,
        resource_pattern=kafka.admin.ResourcePatternFilter(
            kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
        ),
    )
    with pytest.raises(kafka.errors.SecurityDisabledError):
        foreign.describe_acls(every)


def test_confluent_changes_settings_of_brokers(cluster: Cluster) -> None:
    admin = kadmin.AdminClient({"bootstrap.servers": cluster.bootstrap})
    kind, key = kadmin.ConfigResource.Type.BROKER, "leader.replication.throttled.rate"

    def set_to(value: str | None, name: str) -> None:
        operation = (
            kadmin.AlterConfigOpType.DELETE if value is None else kadmin.AlterConfigOpType.SET
        )
        change = kadmin.ConfigEntry(key, value, incremental_operation=operation)
        resource = kadmin.ConfigResource(kind, name, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(10)

    def shown(name: str) -> tuple[str, int]:
        resource = kadmin.ConfigResource(kind, name)
        entry = admin.describe_configs([resource])[resource].result(10)[key]
        return entry.value, entry.source

    default = shown("2")
    set_to("1000", "2")
    wait_until(lambda: shown("2") == ("1000", kadmin.ConfigSource.DYNAMIC_BROKER_CONFIG.value))
    set_to(None, "2")
    wait_until(lambda: shown("2") == default)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        set_to("much", "2")
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.INVALID_CONFIG
