"""docs/security.md: a running cluster becomes secure by the page's steps, and no write fails."""

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer
from minikafka.client.net.control import ControlConnection
from minikafka.protocol.control.messages import ROLE_BROKER, Hello
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.config import parse_properties

from ..support.cluster import Cluster, Daemon, free_ports, wait_until
from ..support.page_shell import PageShell

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
CHAPTER = PAGE.partition("\n## A running cluster becomes secure\n")[2].partition("\n## ")[0]
TOPIC = "orders"
PARTITIONS = 3
WITHIN_S = 60.0
Client = dict[str, Any]


def blocks(step: int, language: str) -> list[str]:
    """The blocks of one numbered step of the page."""
    text = CHAPTER.partition(f"\n**{step}. ")[2].partition(f"\n**{step + 1}. ")[0]
    return [part.partition("\n```")[0] for part in text.split(f"```{language}\n")[1:]]


class Moving:
    """The cluster that becomes secure, and where what the page says of 10.0.0.1 is here."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plain = [each.port for each in cluster.brokers]
        self.secure = free_ports(len(cluster.brokers))
        for daemon in cluster.daemons:
            del daemon.settings["control.psk.file"]
        cluster.key_path.unlink()

    def here(self, text: str, number: int = 1) -> str:
        """Return what the page says of broker 1 as it is for a broker of this cluster."""
        directory = self.cluster.directory
        for old, new in (
            ("10.0.0.1:9092", f"127.0.0.1:{self.plain[number - 1]}"),
            ("10.0.0.1:9094", f"127.0.0.1:{self.secure[number - 1]}"),
            ("IP:10.0.0.$n", "IP:127.0.0.1"),
            ("/etc/minikafka/broker-1", f"{directory}/broker-{number}"),
            ("/etc/minikafka", f"{directory}"),
        ):
            text = text.replace(old, new)
        return text

    def restart_all(self, step: int, client: Client) -> None:
        """Give the daemons the settings of a step, and restart them one after the other."""
        *of_all, of_brokers = blocks(step, "properties")
        for daemon in [*self.cluster.controllers, *self.cluster.brokers]:
            settings = list(of_all)
            if daemon.role == "broker":
                settings.append(self.here(of_brokers, daemon.node_id))
            if settings:
                for each in settings:
                    daemon.settings |= parse_properties(self.here(each))
                daemon.restart()
                self.wait_for_full_isr(client)

    def wait_for_full_isr(self, client: Client) -> None:
        """Wait until no partition lacks a replica, as the page says, before the next restart."""
        with Admin(**client) as admin:
            wait_until(
                lambda: all(
                    len(partition.isr) == len(partition.replicas)
                    for topic in admin.describe_topics().values()
                    for partition in topic.partitions
                ),
                within_s=WITHIN_S,
            )


class Work:
    """A producer and a member of a group that work all the time until they are told to stop."""

    def __init__(self, client: Client, first: int) -> None:
        self.acknowledged: list[tuple[int, int, int]] = []
        """Partition, offset and number of each record that was acknowledged."""
        self.read: list[tuple[int, int, int]] = []
        self.failures: list[object] = []
        self._client = client
        self._first = first
        self._writing, self._reading = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,)) for run in (self._write, self._poll)
        ]
        for thread in self._threads:
            thread.start()

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failures.append(error)
            raise

    def _write(self) -> None:
        with Producer(acks="all", **self._client) as producer:
            for number in itertools.count(self._first):
                producer.send(
                    TOPIC,
                    b"%d" % number,
                    partition=number % PARTITIONS,
                    on_delivery=partial(self._note, number),
                )
                if self._writing.wait(0.005):
                    return

    def _note(self, number: int, error: object, place: Any) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self.acknowledged.append((place.partition, place.offset, number))

    def _poll(self) -> None:
        own: Client = {"group.id": "billing", "auto.offset.reset": "earliest"}
        with Consumer(**own, **self._client) as consumer:
            consumer.subscribe([TOPIC])
            while not self._reading.is_set():
                for record in consumer.poll(timeout_ms=100):
                    self.read.append((record.partition, record.offset, int(record.value or b"-1")))

    def goes_on(self, partitions: int = 1) -> None:
        """Wait until more is written, and more is read of that many partitions."""
        written, read = len(self.acknowledged), len(self.read)
        wait_until(
            lambda: (
                self.failures
                or (
                    len(self.acknowledged) > written + 100
                    and len({partition for partition, _, _ in self.read[read:]}) >= partitions
                )
            ),
            within_s=WITHIN_S,
        )

    def check_acknowledged(self) -> None:
        """All that was sent was acknowledged, each record once."""
        assert self.failures == []
        numbers = sorted(number for _, _, number in self.acknowledged)
        assert numbers == list(range(self._first, self._first + len(numbers)))

    def stop_writing(self) -> None:
        self._writing.set()
        self._threads[0].join(WITHIN_S)

    def stop(self) -> None:
        self.stop_writing()
        self._reading.set()
        for thread in self._threads:
            thread.join(WITHIN_S)
            assert not thread.is_alive()


@contextmanager
def working(client: Client, first: int) -> Iterator[Work]:
    work = Work(client, first)
    try:
        yield work
    finally:
        work.stop()


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Moving]:
    with Cluster(tmp_path, brokers=3, controllers=3) as cluster:
        yield Moving(cluster)


def test_a_running_cluster_becomes_secure_without_a_failed_write(moving: Moving) -> None:
    """A producer and a group work all the while, first over plain text, then by logins over TLS."""
    cluster = moving.cluster
    cluster.start()
    old: Client = {"bootstrap.servers": cluster.bootstrap}
    new: Client = {
        "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in moving.secure),
        **parse_properties(moving.here(blocks(3, "properties")[0])),
    }
    with Admin(**old) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    with working(old, 0) as plain:
        plain.goes_on(PARTITIONS)
        with PageShell(cluster.directory) as shell:
            for block in blocks(1, "sh"):
                shell.run(moving.here(block))
        moving.restart_all(2, old)
        with working(new, 1 << 30) as secure:
            secure.goes_on()
            plain.stop()
            secure.goes_on(PARTITIONS)
            moving.restart_all(4, new)
            moving.restart_all(5, new)
            secure.goes_on(PARTITIONS)
            secure.stop_writing()
            written = plain.acknowledged + secure.acknowledged
            wait_until(
                lambda: len(plain.read) + len(secure.read) >= len(written), within_s=WITHIN_S
            )
    for work in (plain, secure):
        work.check_acknowledged()
    assert sorted(plain.read + secure.read) == sorted(written)
    assert not [port for port in moving.plain if is_open(port)]
    for controller in cluster.controllers:
        assert asyncio.run(refusal(controller)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


async def refusal(controller: Daemon) -> ErrorCode:
    """Return the error that a controller answers to a broker without the key."""
    hello = Hello(None, 1, 1, 1, ROLE_BROKER, bytes(16))
    with pytest.raises(ApiError) as refused:
        await ControlConnection.open(controller.host, controller.port, hello, timeout_ms=20_000)
    return refused.value.code
