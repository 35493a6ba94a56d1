"""mm2.properties: flows, and what connectors and workers get of the file."""

from collections.abc import Mapping

import pytest

from minikafka.connect.config_def import BadConfig
from minikafka.connect.mirror.mm2_config import CHECKPOINT, HEARTBEAT, SOURCE, Flow, Mm2Config
from minikafka.runtime.config import parse_properties

FILE = r"""
clusters = A, B
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = b:9092
security.protocol = SASL_SSL
B.sasl.password = secret
B.producer.linger.ms = 20
B.exactly.once.source.support = enabled
A.consumer.isolation.level = read_committed
A->B.enabled = true
A->B.topics = orders.*
B->A.emit.heartbeats.enabled = false
replication.factor = 3
tasks.max = 4
offset.storage.replication.factor = 1
topic.filter.class = my.Filter
"""
TO_B = Flow("A", "B")


def config(text: str = FILE) -> Mm2Config:
    return Mm2Config(parse_properties(text))


def test_flows_that_have_work_are_told_perhaps_into_some_clusters() -> None:
    assert config().flows() == [TO_B]
    both = config(FILE + "B->A.emit.heartbeats.enabled = true")
    assert both.flows() == [TO_B, Flow("B", "A")]
    assert both.flows(["A"]) == [Flow("B", "A")]
    assert both.connectors(Flow("B", "A")) == [HEARTBEAT]
    assert both.connectors(TO_B) == [SOURCE, CHECKPOINT, HEARTBEAT]
    with pytest.raises(BadConfig, match="--clusters C: clusters are A, B"):
        both.flows(["C"])


def test_a_connector_gets_both_ends_and_the_keys_of_its_flow() -> None:
    assert config().connector_props(TO_B, SOURCE) == {
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "enabled": "true",
        "tasks.max": "4",
        "topics": "orders.*",
        "replication.factor": "3",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a1:9092, a2:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "source.cluster.security.protocol": "SASL_SSL",
        "target.cluster.security.protocol": "SASL_SSL",
        "target.cluster.sasl.password": "secret",
        "target.cluster.exactly.once.source.support": "enabled",
        "source.consumer.isolation.level": "read_committed",
        "target.producer.linger.ms": "20",
    }


def test_a_worker_is_at_home_in_the_target() -> None:
    found = config().worker_props(TO_B)
    assert found["bootstrap.servers"] == "b:9092"
    assert found["group.id"] == "A-mm2"
    assert found["client.id"] == "A->B"
    assert found["offset.storage.topic"] == "mm2-offsets.A.internal"
    assert found["offset.storage.replication.factor"] == "1"
    assert found["exactly.once.source.support"] == "enabled"
    assert found["producer.linger.ms"] == "20"
    assert found["sasl.password"] == "secret"
    assert found["key.converter"].endswith("ByteArrayConverter")


def test_a_client_of_a_cluster_gets_only_keys_of_clients() -> None:
    assert config().client_props("B") == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.password": "secret",
    }


def test_keys_that_count_for_nothing_are_told() -> None:
    assert config().unused() == ["topic.filter.class"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "clusters: name at least two"),
        ("clusters = A", "clusters: name at least two"),
        ("clusters = A, B\nA.bootstrap.servers = a:1", r"B\.bootstrap\.servers: is required"),
        (FILE + "A->C.enabled = true", r"A->C\.enabled: names no flow between two of the"),
        (FILE + "A->A.enabled = true", r"A->A\.enabled: names no flow"),
        (FILE + "B->A.replication.policy.class = x.Mine", "replication.policy.class: Mine"),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_do(text: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        config(text)


RING = """
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
A->B.enabled = true
B->C.enabled = true
"""


@pytest.mark.parametrize(
    ("back", "loop"), [("B->A.enabled = true", "A->B->A"), ("C->A.enabled = true", "A->B->C->A")]
)
def test_x_46_a_way_back_under_the_same_name_is_refused_without_the_header(
    back: str, loop: str
) -> None:
    config(RING)
    with pytest.raises(BadConfig, match=f"^{loop}: .*set mirror.provenance.header = true"):
        config(RING + back)
    config(RING + back + "\nmirror.provenance.header = true")
    flow = back.partition(".")[0]
    config(RING + back + f"\n{flow}.replication.policy.class = DefaultReplicationPolicy")


def test_references_are_resolved_for_workers_and_clients_and_left_to_connectors() -> None:
    text = FILE.replace("= secret", "= ${env:PASSWORD}")

    def resolve(props: Mapping[str, str]) -> Mapping[str, str]:
        return {key: value.replace("${env:PASSWORD}", "secret") for key, value in props.items()}

    found = Mm2Config(parse_properties(text), resolve)
    assert found.worker_props(TO_B)["sasl.password"] == "secret"
    assert found.client_props("B")["sasl.password"] == "secret"
    connector = found.connector_props(TO_B, SOURCE)
    assert connector["target.cluster.sasl.password"] == "${env:PASSWORD}"
