"""Daemons on several addresses, with listeners for brokers and for clients that are told apart.

The brokers speak TLS among themselves, and each shows its certificate.
"""

import contextlib
import ipaddress
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from cryptography import x509

from minikafka import Admin, Consumer, NewTopic, Producer
from minikafka.client.config import CommonSettings

from ..security.certificates import authority, make
from ..support.cluster import Cluster, free_ports, wait_until
from . import test_aiokafka, test_confluent, test_kafka_python
from .payloads import by_partition, payloads

pytestmark = pytest.mark.slow


HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def place(cluster: Cluster, node_id: int) -> None:
    """Give a broker three listeners on every interface, advertised at its own address."""
    inside, outside, secure = free_ports(3)
    host = HOSTS[node_id - 1]
    broker = cluster.broker(node_id)
    broker.host, broker.port = host, outside
    told = f"BROKERS://{host}:{inside},CLIENTS://{host}:{outside},SECURE://{host}:{secure}"
    broker.settings |= {
        "listeners": f"CLIENTS://0.0.0.0:{outside},BROKERS://0.0.0.0:{inside},"
        f"SECURE://0.0.0.0:{secure}",
        "advertised.listeners": told,
        "listener.security.protocol.map": "BROKERS:SSL,CLIENTS:PLAINTEXT,SECURE:SSL",
        "inter.broker.listener.name": "BROKERS",
        "ssl.client.auth": "required",
        "broker.rack": f"rack-{node_id}",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("listeners")
    common = {"num.partitions": "3"}
    with Cluster(directory, brokers=3, broker_settings=common) as one:
        trusted = directory / "ca.pem"
        trusted.write_text(authority().certificate_pem)
        names = tuple(x509.IPAddress(ipaddress.ip_address(host)) for host in HOSTS)
        own = make("broker", alternatives=names).write(directory / "broker.pem")
        for node_id in (1, 2, 3):
            place(one, node_id)
            one.broker(node_id).settings |= {
                "ssl.keystore.location": own,
                "ssl.truststore.location": str(trusted),
            }
        yield one.start()


def address(cluster: Cluster, listener: str) -> str:
    told = cluster.broker(1).settings["advertised.listeners"].split(",")
    return next(each.rpartition("//")[2] for each in told if each.startswith(listener))


def secured(cluster: Cluster) -> dict[str, str]:
    """Return librdkafka's settings for a client with a certificate."""
    alice = make("alice")
    return {
        "bootstrap.servers": address(cluster, "SECURE"),
        "security.protocol": "SSL",
        "ssl.ca.pem": authority().certificate_pem,
        "ssl.certificate.pem": alice.certificate_pem,
        "ssl.key.pem": alice.key_pem(),
    }


def brokers_seen(cluster: Cluster, node_id: int) -> dict[int, str]:
    admin: Any = confluent_kafka.admin
    client = admin.AdminClient({"bootstrap.servers": cluster.broker(node_id).address})
    deadline = time.monotonic() + 10
    while True:
        found = client.list_topics(timeout=10).brokers.values()
        # A broker hears of the others' start a moment after they are ready.
        if len(found) == len(cluster.brokers) or time.monotonic() > deadline:
            break
    return {broker.id: f"{broker.host}:{broker.port}" for broker in found}


def test_clients_are_told_the_addresses_of_their_listener(cluster: Cluster) -> None:
    told = {broker.node_id: broker.address for broker in cluster.brokers}
    for node_id in (1, 2, 3):
        assert brokers_seen(cluster, node_id) == told


def test_librdkafka_from_one_bootstrap_address(cluster: Cluster) -> None:
    sent = payloads(seed=31)
    test_confluent.produce(cluster, "listeners-confluent", sent, acks="all")
    found = test_confluent.consume(cluster, "listeners-confluent", len(sent))
    assert found == by_partition(sent)


def test_librdkafka_with_tls_and_a_certificate(cluster: Cluster) -> None:
    sent = payloads(seed=34)
    own = secured(cluster)
    test_confluent.produce(cluster, "listeners-tls", sent, acks="all", **own)
    found = test_confluent.consume(cluster, "listeners-tls", len(sent), **own)
    assert found == by_partition(sent)


def test_a_tool_takes_its_security_from_a_file(cluster: Cluster, tmp_path: Path) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_text(authority().certificate_pem)
    own = make("alice").write(tmp_path / "alice.pem")
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SSL\nssl.truststore.location={trusted}\nssl.keystore.location={own}\n"
    )
    place = ["--bootstrap-server", address(cluster, "SECURE"), "--command-config", str(config)]
    found = subprocess.run(
        [sys.executable, "-m", "minikafka", "cluster", "cluster-id", *place],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("Cluster ID: ")


async def test_aiokafka_from_one_bootstrap_address(cluster: Cluster) -> None:
    topic, sent = "listeners-aiokafka", payloads(seed=32)
    await test_aiokafka.produce(cluster, topic, sent, acks="all")
    assert await test_aiokafka.consume(cluster, topic, len(sent)) == by_partition(sent)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_from_one_bootstrap_address(cluster: Cluster) -> None:
    topic, sent = "listeners-kafka-python", payloads(seed=33)
    test_kafka_python.produce(cluster, topic, sent, acks="all")
    assert test_kafka_python.consume(cluster, topic, len(sent)) == by_partition(sent)


TRUST: CommonSettings = {"ssl_truststore_certificates": authority().certificate_pem}


@pytest.mark.parametrize("listener", ["CLIENTS", "SECURE"])
def test_our_client_from_one_bootstrap_address(cluster: Cluster, listener: str) -> None:
    bootstrap, topic = address(cluster, listener), f"listeners-ours-{listener}"
    alice = make("alice")
    if listener == "CLIENTS":
        own: CommonSettings = {}
    else:
        own = {
            **TRUST,
            "security_protocol": "SSL",
            "ssl_keystore_certificate_chain": alice.certificate_pem,
            "ssl_keystore_key": alice.key_pem(),
        }
    with Producer(bootstrap, **own) as producer:
        sent = [producer.send(topic, b"%d" % n, partition=n % 3) for n in range(30)]
        places = {(d.result(20).partition, d.result(20).offset) for d in sent}
    assert len(places) == 30
    with Consumer(bootstrap, auto_offset_reset="earliest", **own) as consumer:
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        while len(found) < 30:
            found += [record.value for record in consumer.poll(timeout_ms=1000)]
    assert sorted(found, key=lambda value: int(value or b"-1")) == [b"%d" % n for n in range(30)]


@contextlib.contextmanager
def loaded(cluster: Cluster, topic: str) -> Iterator[None]:
    """Send to three partitions all the while; at the end nothing has failed and nothing is lost."""
    acknowledged: list[tuple[int, int, bytes]] = []
    failures: list[object] = []
    is_over = threading.Event()

    def on_delivery(error: object, message: Any) -> None:
        if error is not None:
            failures.append(error)
        else:
            acknowledged.append((message.partition(), message.offset(), message.value()))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True}
    )

    def send() -> None:
        for number in itertools.count():
            producer.produce(topic, b"%d" % number, partition=number % 3, on_delivery=on_delivery)
            producer.poll(0.001)
            if is_over.is_set():
                return

    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 3, len(HOSTS))])
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
        after = len(acknowledged)
        wait_until(lambda: len(acknowledged) > after + 300, within_s=60)
    finally:
        is_over.set()
        thread.join(60)
    assert producer.flush(20) == 0
    assert failures == []
    found = test_confluent.consume(cluster, topic, len(acknowledged))
    for partition, offset, value in acknowledged:
        assert found[partition][offset].value == value


def test_brokers_move_to_another_listener_one_by_one_and_one_to_other_ports(
    cluster: Cluster,
) -> None:
    """Until the last has moved, some fetch over the one listener and some over the other."""
    topic = "listeners-moved"
    with loaded(cluster, topic):
        for broker in cluster.brokers:
            assert broker.stop() == 0
            if broker.node_id == 2:
                place(cluster, 2)
            broker.settings["inter.broker.listener.name"] = "SECURE"
            broker.start()
            with Admin(cluster.bootstrap) as admin:
                wait_until(lambda: is_in_sync(admin, topic))
        assert brokers_seen(cluster, 1)[2] == cluster.broker(2).address


def is_in_sync(admin: Admin, topic: str) -> bool:
    partitions = admin.describe_topics([topic])[topic].partitions
    return all(len(each.isr) == len(HOSTS) for each in partitions)
