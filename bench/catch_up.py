"""A follower that was away comes back: how fast it catches up, and what others feel meanwhile.

Latency of one-record acks=all requests at a fixed rate, in an open loop, before and during.
"""

import threading
import time
from pathlib import Path
from typing import NamedTuple

from minikafka import Admin, NewTopic, PartitionDescription, Producer, ProducerRecord
from minikafka.deploy.local_cluster import LocalCluster

from . import latency
from .requests import produce

MEGABYTES = 1024
RECORD_BYTES = 10_000
RECORDS_OF_A_BATCH = 90
RATE = 500
SECONDS_BEFORE = 5.0
TOPIC = "catch-up"
FOREGROUND = "foreground"


class CatchUp(NamedTuple):
    """What one return of a follower was like."""

    megabytes: int
    rate: int
    seconds: float
    """From the follower's being ready until it is in sync."""
    megabytes_per_second: float
    """What it fetched in that time, divided by it."""
    p99_ms_before: float
    p99_ms_meanwhile: float
    most_ms_meanwhile: float


def measure(megabytes: int = MEGABYTES) -> CatchUp:
    """Write while one of three brokers is away, bring it back, and watch."""
    with LocalCluster(brokers=3) as cluster, Admin(cluster.bootstrap) as admin:
        # One leader for everything: the one that a follower catches up from is the one that serves.
        replicas = {0: [1, 2, 3]}
        admin.create_topics([NewTopic(name, assignments=replicas) for name in (TOPIC, FOREGROUND)])
        cluster.stop_node(3)
        _write(cluster.bootstrap, megabytes)
        node = cluster.node(1)
        request = produce(FOREGROUND, record_bytes=100, batch_bytes=0, acks=-1).frame
        before = latency.open_loop((node.host, node.port), request, RATE, SECONDS_BEFORE)
        cluster.restart(3)
        foreground = _Foreground((node.host, node.port), request)
        foreground.start()
        log = cluster.node(3).data_path / f"{TOPIC}-0"
        began, had = time.perf_counter(), _size(log)
        while not _is_in_sync(admin):
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        fetched = (_size(log) - had) / 1e6
        meanwhile = foreground.stop()
    return CatchUp(
        megabytes,
        RATE,
        round(seconds, 2),
        round(fetched / seconds, 1),
        _percentile(before, 0.99),
        _percentile(meanwhile, 0.99),
        _percentile(meanwhile, 1.0),
    )


def _is_in_sync(admin: Admin) -> bool:
    partition: PartitionDescription = admin.describe_topics([TOPIC])[TOPIC].partitions[0]
    return 3 in partition.isr


def _size(log: Path) -> int:
    return sum(segment.stat().st_size for segment in log.glob("*.log"))


def _write(bootstrap: str, megabytes: int) -> None:
    value = bytes(RECORD_BYTES)
    with Producer(bootstrap) as producer:
        for _ in range(megabytes * 1_000_000 // (RECORD_BYTES * RECORDS_OF_A_BATCH)):
            batch = [ProducerRecord(value) for _ in range(RECORDS_OF_A_BATCH)]
            producer.send_batch(TOPIC, batch, partition=0)
        producer.flush()


class _Foreground(threading.Thread):
    """The open loop, for as long as the catching up lasts."""

    SLICE_SECONDS = 0.2

    def __init__(self, address: tuple[str, int], request: bytes) -> None:
        super().__init__()
        self._address = address
        self._request = request
        self._stopped = threading.Event()
        self._latencies: list[float] = []

    def run(self) -> None:
        while not self._stopped.is_set():
            found = latency.open_loop(self._address, self._request, RATE, self.SLICE_SECONDS)
            self._latencies += found

    def stop(self) -> list[float]:
        self._stopped.set()
        self.join()
        return self._latencies


def _percentile(latencies: list[float], share: float) -> float:
    ordered = sorted(latencies)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 2)
