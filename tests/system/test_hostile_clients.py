"""Clients that do not read, or send half of what they announce, against three real brokers.

The caps are small, so that seconds suffice; a producer with acks=all works all the while.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from minikafka import Admin, NewTopic, Producer
from minikafka.protocol.codec import frame_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from ..support.cluster import Cluster, Daemon, running_cluster, wait_until
from .conftest import wait_for_full_isr

pytestmark = pytest.mark.slow

MiB = 1 << 20
TOPIC, PARTITIONS = "busy", 3
HOGS = 12
RESPONSES_MAX, REQUESTS_MAX, STALL_MS = 2 * MiB, 16 * MiB, 4_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        "minikafka.queued.max.response.bytes": str(RESPONSES_MAX),
        "queued.max.request.bytes": str(REQUESTS_MAX),
        "minikafka.connections.max.stall.ms": str(STALL_MS),
    }
    with running_cluster(tmp_path, brokers=3, broker_settings=settings) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            wait_for_full_isr(admin, TOPIC)
        with Producer(cluster.bootstrap, linger_ms=5) as producer:
            for number in range(300):
                producer.send(TOPIC, bytes(100_000), partition=number % PARTITIONS)
        yield cluster


def connect(broker: Daemon) -> socket.socket:
    """A client whose side holds little, so that the broker holds the rest."""
    hog = socket.socket()
    hog.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    hog.connect((broker.host, broker.port))
    hog.settimeout(20)
    return hog


def fetches(count: int) -> bytes:
    """Requests for all there is, one behind the other."""
    most = 2**31 - 1
    partitions = [
        FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=most)
        for p in range(PARTITIONS)
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=most,
        topics=[FetchTopic(topic=TOPIC, partitions=partitions)],
    )
    return b"".join(b"".join(frame_request(request, 11, n, "hog")) for n in range(count))


def resident_bytes(broker: Daemon) -> int:
    """Memory of a broker's process."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def says(broker: Daemon, text: str) -> bool:
    """Has it logged that?"""
    return text in broker.log()


def produce_some(cluster: Cluster) -> None:
    """Have records of usual sizes acknowledged by all, at every broker."""
    with Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=20_000) as producer:
        for number in range(60):
            sent = [producer.send(TOPIC, bytes(10_000), partition=p) for p in range(PARTITIONS)]
            if number % 10 == 0:
                for each in sent:
                    assert each.result(20).offset >= 0


def test_clients_that_do_not_read_stop_nobody_but_themselves(cluster: Cluster) -> None:
    with contextlib.ExitStack() as stack:
        hogs = [stack.enter_context(connect(b)) for b in cluster.brokers for _ in range(HOGS)]
        for hog in hogs:
            with contextlib.suppress(OSError):
                hog.sendall(fetches(60))
        produce_some(cluster)
        for broker in cluster.brokers:
            assert resident_bytes(broker) < 100 * MiB + RESPONSES_MAX
            wait_until(partial(says, broker, "responses that it does not read fill the memory"))
            wait_until(partial(says, broker, "took no byte of its responses"))
        produce_some(cluster)
    assert all(broker.is_running for broker in cluster.brokers)


def test_half_frames_are_bounded_in_all_and_end(cluster: Cluster) -> None:
    begin = struct.pack(">i", 100 * MiB) + bytes(8 * MiB)

    def send(hog: socket.socket) -> None:
        with contextlib.suppress(OSError):
            hog.sendall(begin)

    with contextlib.ExitStack() as stack:
        hogs = [stack.enter_context(connect(b)) for b in cluster.brokers for _ in range(HOGS)]
        threads = [threading.Thread(target=send, args=(hog,)) for hog in hogs]
        for thread in threads:
            thread.start()
        produce_some(cluster)
        for broker in cluster.brokers:
            assert resident_bytes(broker) < 100 * MiB + 2 * REQUESTS_MAX
        produce_some(cluster)
        wait_until(lambda: any(_is_closed(hog) for hog in hogs), within_s=60)
        for hog in hogs:
            with contextlib.suppress(OSError):
                hog.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
    assert all(broker.is_running for broker in cluster.brokers)


def test_silent_connections_take_no_descriptors_from_those_who_work(tmp_path: Path) -> None:
    """400 of them, at brokers that may have 300 descriptors open."""
    few = ("prlimit", "--nofile=300:300")
    with Cluster(tmp_path, brokers=3) as cluster, contextlib.ExitStack() as stack:
        for broker in cluster.brokers:
            broker.prefix = few
        cluster.start()
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
            wait_for_full_isr(admin, TOPIC)
        for broker in cluster.brokers:
            for _ in range(400):
                silent = stack.enter_context(socket.socket())
                with contextlib.suppress(OSError):
                    silent.connect((broker.host, broker.port))
        produce_some(cluster)
        produce_some(cluster)
        for broker in cluster.brokers:
            assert broker.is_running
            lines = [line for line in broker.log().splitlines() if "its place is needed" in line]
            assert len(lines) == 1


def _is_closed(hog: socket.socket) -> bool:
    hog.settimeout(0.01)
    try:
        return hog.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
