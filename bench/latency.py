"""Produce-to-ack latency in an open loop: requests leave on schedule, whatever the answers do.

A latency runs from the time a request was due, so a stall is charged to every request it delays
(no coordinated omission; G. Tene, wrk2).
"""

import select
import socket
import time
from collections import deque
from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .requests import check_produced, produce

RATE = 1000
SECONDS = 10.0
WARM_UP_SECONDS = 2.0
RECORD_BYTES = 100


class Latency(NamedTuple):
    """Milliseconds, over all requests after the warm-up."""

    rate: int
    requests: int
    p50: float
    p99: float
    p999: float
    most: float


def measure(cluster: LocalCluster, replication_factor: int, acks: int) -> Latency:
    """Send one-record requests to one partition at a fixed rate."""
    topic = f"latency-{replication_factor}-{acks}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, replication_factor)])
        leader = cluster.node(admin.describe_topics([topic])[topic].partitions[0].leader_id)
    request = produce(topic, record_bytes=RECORD_BYTES, batch_bytes=0, acks=acks)
    latencies = open_loop((leader.host, leader.port), request.frame, RATE, SECONDS)
    ordered = sorted(latencies[int(RATE * WARM_UP_SECONDS) :])

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 3)

    return Latency(RATE, len(ordered), at(0.5), at(0.99), at(0.999), at(1.0))


def open_loop(address: tuple[str, int], frame: bytes, rate: int, seconds: float) -> list[float]:
    """Send one request again and again at a rate; seconds from when each was due."""
    total = int(rate * seconds)
    due: deque[float] = deque()
    latencies: list[float] = []
    sent = 0
    received = b""
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        start = time.perf_counter() + 0.05
        while len(latencies) < total:
            now = time.perf_counter()
            while sent < total and start + sent / rate <= now:
                due.append(start + sent / rate)
                connection.sendall(frame)
                sent += 1
            wait = start + sent / rate - time.perf_counter() if sent < total else 5.0
            if not poll.poll(max(0.0, wait * 1000)):
                if sent == total and wait == 5.0:
                    raise TimeoutError("requests stayed unanswered for 5 s")
                continue
            received += connection.recv(1 << 16)
            now = time.perf_counter()
            while len(received) >= 4:
                size = 4 + int.from_bytes(received[:4], "big")
                if len(received) < size:
                    break
                check_produced(received[4:size])
                received = received[size:]
                latencies.append(now - due.popleft())
    return latencies
