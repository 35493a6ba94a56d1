"""Strangers at a cluster as `minikafka up` makes it: each of their forgeries is refused."""

import contextlib
import re
import socket
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.client.errors import DeliveryFailed
from minikafka.deploy.daemons import DaemonFailed
from minikafka.deploy.layout import Node
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode_response_frame, encode_bytes, frame_request
from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control.frames import decode_frame, encode_frame
from minikafka.protocol.control.heartbeat import Heartbeat, encode_heartbeat
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from minikafka.protocol.types import uuid_from_text

from ..support.cluster import wait_until

pytestmark = pytest.mark.slow

WITHIN_S = 20.0
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
VICTIM = 2
REGISTERED = re.compile(r"registered with broker epoch (\d+)")
FETCH_VERSION = 17


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, metrics=True) as one:
        with Admin(one.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 3)])
        yield one


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


def epoch_of(cluster: LocalCluster, broker_id: int) -> int:
    """Return the broker's epoch, which a stranger may guess."""
    return int(REGISTERED.findall(cluster.node(broker_id).log_path.read_text())[-1])


def address(node: Node) -> tuple[str, int]:
    return node.host, node.port


def refuse(cluster: LocalCluster, role: int, request: m.Request[Any], node_id: int) -> None:
    """Say Hello and ask in one breath; see that only the Hello is answered, by a refusal."""
    (controller,) = cluster.layout.controllers
    hello = m.Hello(None, 1, 1, node_id, role, bytes(16))
    answered = b""
    with socket.create_connection(address(controller), WITHIN_S) as connection:
        connection.sendall(encode_frame(0, hello) + encode_frame(1, request))
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                answered += part
    refusal = decode_frame(answered[4:]).message  # No other frame follows it.
    assert isinstance(refusal, m.HelloAnswer)
    assert (refusal.error, refusal.cluster_id, refusal.active_id) == (REFUSED, None, -1)


def write(cluster: LocalCluster) -> None:
    """Write with acks=all, which every replica in sync has to confirm."""
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send("t", b"true").result(WITHIN_S)


def isr(admin: Admin) -> list[int]:
    return sorted(admin.describe_topics(["t"])["t"].partitions[0].isr)


def test_forged_a_registration_as_a_broker_that_lives(cluster: LocalCluster) -> None:
    endpoint = m.Endpoint("PLAINTEXT", "127.0.0.1", 1)
    directory = b"s" * 16
    request = m.RegisterBroker(VICTIM, directory, (directory,), (endpoint,), None, {})
    refuse(cluster, m.ROLE_BROKER, request, VICTIM)
    write(cluster)


def test_forged_a_vote(cluster: LocalCluster) -> None:
    (controller,) = cluster.layout.controllers
    me, voter = q.VoterKey(9, b"d" * 16), q.VoterKey(controller.node_id)
    refuse(cluster, m.ROLE_CONTROLLER, q.Vote(None, 5, me, voter, 4, 1 << 40, False), 9)
    refuse(cluster, m.ROLE_CONTROLLER, q.BeginQuorumEpoch(None, 5, me, voter), 9)


def test_forged_a_change_of_an_isr(cluster: LocalCluster, admin: Admin) -> None:
    topic = admin.describe_topics(["t"])["t"]
    partition, topic_id = topic.partitions[0], uuid_of(admin)
    leader = partition.leader_id
    epoch = epoch_of(cluster, leader)
    for partition_epoch in range(4):
        change = m.PartitionChange(
            topic_id, 0, partition.leader_epoch, partition_epoch, (m.IsrMember(leader, epoch),)
        )
        refuse(cluster, m.ROLE_BROKER, m.AlterPartitions(leader, epoch, (change,)), leader)
    assert isr(admin) == [1, 2, 3]


def test_forged_datagrams(cluster: LocalCluster, admin: Admin) -> None:
    (controller,) = cluster.layout.controllers
    cluster_id = admin.describe_cluster().cluster_id
    epoch = epoch_of(cluster, VICTIM)
    highest = Heartbeat(cluster_id or "", VICTIM, epoch, bytes(16), (1 << 63) - 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for tag_of in (None, lambda content: bytes(16)):
            stranger.sendto(encode_heartbeat(highest, tag_of), address(controller))
    wait_until(lambda: refused_heartbeats(controller) >= 2, within_s=WITHIN_S)
    assert isr(admin) == [1, 2, 3]


def refused_heartbeats(controller: Node) -> float:
    with urllib.request.urlopen(f"http://{controller.metrics}/metrics", timeout=20) as page:
        text = page.read().decode()
    name = "minikafka_controller_refused_heartbeats_total"
    return float(re.findall(rf"(?m)^{name} (\S+)$", text)[0])


def test_forged_a_request_of_another_principal(cluster: LocalCluster, admin: Admin) -> None:
    topic = CreatableTopic(name="stolen", num_partitions=1, replication_factor=1)
    body = encode_bytes(CreateTopicsRequest(topics=[topic]), 7)
    request = m.ForwardedRequest(int(ApiKey.CREATE_TOPICS), 7, body, "User:admin", 5000)
    refuse(cluster, m.ROLE_BROKER, request, VICTIM)
    assert "stolen" not in [each.name for each in admin.list_topics()]


def test_forged_fetches_of_a_replica(cluster: LocalCluster, admin: Admin) -> None:
    """With the true epoch of the broker, or one that makes the true fetches look old."""
    leader = admin.describe_topics(["t"])["t"].partitions[0].leader_id
    victim = leader % 3 + 1
    errors = {}
    for epoch in (epoch_of(cluster, victim), 1 << 40):
        asked = FetchPartition(partition=0, fetch_offset=1 << 20, partition_max_bytes=1)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=victim, replica_epoch=epoch),
            max_wait_ms=0,
            min_bytes=0,
            topics=[FetchTopic(topic_id=uuid_of(admin), partitions=[asked])],
        )
        errors[epoch] = ErrorCode(ask(cluster.node(leader), request).error_code)
    assert list(errors.values()) == [REFUSED, ErrorCode.BROKER_ID_NOT_REGISTERED]
    write(cluster)
    assert isr(admin) == [1, 2, 3]


def uuid_of(admin: Admin) -> bytes:
    text = admin.describe_topics(["t"])["t"].topic_id
    return uuid_from_text(text)


def ask(node: Node, request: FetchRequest) -> FetchResponse:
    with socket.create_connection(address(node), WITHIN_S) as connection:
        connection.sendall(b"".join(frame_request(request, FETCH_VERSION, 1, "broker-2-fetcher")))
        stream = connection.makefile("rb")
        size = int.from_bytes(stream.read(4))
        _, response = decode_response_frame(
            FetchResponse, FETCH_VERSION, memoryview(stream.read(size))
        )
    return response


def test_forged_records_of_an_internal_topic(cluster: LocalCluster) -> None:
    with Consumer(cluster.bootstrap, group_id="g") as consumer:
        consumer.commit({TopicPartition("t", 0): 0})
    with Producer(cluster.bootstrap) as producer:
        forged = producer.send("__consumer_offsets", b"forged", key=b"k", partition=0)
        with pytest.raises(DeliveryFailed, match="INVALID_TOPIC_EXCEPTION"):
            forged.result(WITHIN_S)


def test_the_key_of_a_default_cluster_is_its_owners_alone(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    assert stat.S_IMODE(cluster.layout.brokers[0].key_path.stat().st_mode) == 0o600
    (tmp_path / "control.key").write_text(cluster.layout.brokers[0].key_path.read_text())
    (tmp_path / "control.key").chmod(0o644)
    with pytest.raises(DaemonFailed, match=r"everybody may read or write it .* chmod 600"):
        LocalCluster(tmp_path, brokers=1).start()
