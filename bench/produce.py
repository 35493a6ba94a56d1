"""Produce, to the floor and to the cluster: throughput, and what it costs in broker CPU."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .load import replay
from .meters import cpu_seconds
from .requests import Produce, check_produced, produce

FLOOR_RESPONSE_BYTES = 60
SECONDS = 3.0
ROUNDS = 3


class Case(NamedTuple):
    """What is sent, and how many requests are in flight."""

    name: str
    record_bytes: int
    batch_bytes: int
    window: int
    volume_bytes: int
    """Bytes of one round at most, counted once: replicas write them again."""


CASES = [
    Case("1 MB batches of 1 KB", 1000, 1_000_000, 5, 200_000_000),
    Case("1 MB batches of 100 B", 100, 1_000_000, 5, 200_000_000),
    Case("16 KB batches of 1 KB", 1000, 16_000, 16, 200_000_000),
    Case("16 KB batches of 100 B", 100, 16_000, 16, 200_000_000),
    Case("one record of 1 KB", 1000, 0, 64, 100_000_000),
    Case("one record of 100 B", 100, 0, 64, 30_000_000),
]


@dataclass(frozen=True)
class Measured:
    """One round."""

    requests_per_second: float
    bytes_per_second: float
    cpu_us_per_request: float
    """CPU of the process that leads."""
    all_cpu_us_per_request: float
    """CPU of it and its followers."""
    core_share: float
    """Cores that the leading process kept busy."""

    @property
    def bytes_per_cpu_second(self) -> float:
        return self.bytes_per_second / self.core_share if self.core_share else 0.0


def measure(
    address: tuple[str, int], request: Produce, case: Case, pids: list[int], check: bool
) -> Measured:
    """Replay one request; `pids` begins with the process that leads."""
    requests = max(50, case.volume_bytes // len(request.frame))
    before = [cpu_seconds(pid) for pid in pids]
    done = replay(address, request.frame, window=case.window, requests=requests, seconds=SECONDS)
    used = [cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
    if check:
        check_produced(done.last_response)
    return Measured(
        requests_per_second=done.requests / done.seconds,
        bytes_per_second=done.requests * len(request.frame) / done.seconds,
        cpu_us_per_request=used[0] / done.requests * 1e6,
        all_cpu_us_per_request=sum(used) / done.requests * 1e6,
        core_share=used[0] / done.seconds,
    )


def median(rounds: list[Measured]) -> Measured:
    """Take the median of each figure."""
    return Measured(
        *(
            statistics.median(getattr(each, name) for each in rounds)
            for name in Measured.__dataclass_fields__
        )
    )


@contextmanager
def floor(
    request: Produce, folder: Path, peers: int
) -> Iterator[tuple[tuple[str, int], list[int]]]:
    """Start the bare server, behind it so many peers; gives its address and the process ids."""
    with ExitStack() as stack:

        def start(name: str, batch_at: int, ports: list[int]) -> tuple[int, int]:
            command = [sys.executable, "-m", "bench.floor", "--log", str(folder / name)]
            command += ["--batch-at", str(batch_at)]
            command += ["--response-size", str(FLOOR_RESPONSE_BYTES)]
            command += ["--peers", *map(str, ports)] if ports else []
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait)
            assert process.stdout is not None
            stack.callback(process.stdout.close)
            return process.pid, int(process.stdout.readline())

        followers = [start(f"peer-{n}", request.batch_at, []) for n in range(peers)]
        pid, port = start("leader", request.batch_at, [port for _, port in followers])
        yield ("127.0.0.1", port), [pid, *(pid for pid, _ in followers)]


def floor_round(case: Case, peers: int) -> Measured:
    """Measure the floor (or the chain, with peers) once."""
    request = produce("bench", record_bytes=case.record_bytes, batch_bytes=case.batch_bytes, acks=1)
    with (
        tempfile.TemporaryDirectory(prefix="minikafka-floor-") as folder,
        floor(request, Path(folder), peers) as (address, pids),
    ):
        return measure(address, request, case, pids, check=False)


def cluster_round(
    cluster: LocalCluster, case: Case, replication_factor: int, acks: int
) -> Measured:
    """Measure the cluster once, on a topic of its own that is deleted afterwards."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        topic = f"bench-{replication_factor}-{acks}-{case.record_bytes}-{case.batch_bytes}"
        admin.create_topics([NewTopic(topic, 1, replication_factor)])
        description = admin.describe_topics([topic])[topic]
        leader = description.partitions[0].leader_id
        others = [broker for broker in description.partitions[0].replicas if broker != leader]
        pids = [cluster.pids[f"broker-{broker}"] for broker in (leader, *others)]
        node = cluster.node(leader)
        request = produce(
            topic, record_bytes=case.record_bytes, batch_bytes=case.batch_bytes, acks=acks
        )
        try:
            return measure((node.host, node.port), request, case, pids, check=True)
        finally:
            admin.delete_topics([topic])
