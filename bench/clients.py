"""Clients compared: records per CPU-second of the client process, against the same broker.

Ours with either record codec, confluent-kafka and aiokafka, each in a process of its own, one after
the other, several rounds; acks=all and idempotence for all that send. Values of 100 B and 1 KB, no
keys, one partition.
"""

import json
import os
import statistics
import subprocess
import sys
from typing import Any, NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.records import record_backend

from .load import replay
from .requests import check_produced, produce

SIZES = (100, 1000)
ROUNDS = 3
SECONDS = 4.0
FILL_BYTES = 400_000_000
FILL_BATCH_BYTES = 250_000
CODECS = ("python", "compiled")


class Way(NamedTuple):
    """One client used in one way."""

    client: str
    how: str
    function: str
    codec: str = ""

    @property
    def produces(self) -> bool:
        """Does it send, or read?"""
        return "send" in self.function or "produce" in self.function


class Compared(NamedTuple):
    """What one way of using a client comes to."""

    client: str
    how: str
    record_bytes: int
    produces: bool
    records_per_cpu_second: float
    records_per_second: float


def ways() -> list[Way]:
    """List what is compared; without a compiled codec there is one back end less."""
    ours = [
        Way(f"minikafka, {codec}", how, function, codec)
        for codec in CODECS
        if codec == "python" or record_backend.compiled is not None
        for how, function in (
            ("send_batch of lists", "ours_send_batch"),
            ("send_batch of Arrow", "ours_send_arrow"),
            ("send, one by one", "ours_send"),
            ("poll_columns", "ours_poll_columns"),
            ("poll", "ours_poll"),
            ("one by one", "ours_iterate"),
        )
    ]
    return [
        *ours,
        Way("confluent-kafka", "produce, one by one", "confluent_produce"),
        Way("confluent-kafka", "produce_batch", "confluent_produce_batch"),
        Way("confluent-kafka", "consume", "confluent_consume"),
        Way("confluent-kafka", "poll, one by one", "confluent_poll"),
        Way("aiokafka", "send, one by one", "aiokafka_send"),
        Way("aiokafka", "getmany", "aiokafka_getmany"),
        Way("aiokafka", "one by one", "aiokafka_iterate"),
    ]


def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> list[Compared]:
    """Compare all, at both sizes."""
    found: list[Compared] = []
    with LocalCluster(brokers=1) as cluster:
        for record_bytes in SIZES:
            topic = _filled(cluster, record_bytes)
            runs: dict[Way, list[dict[str, float]]] = {way: [] for way in ways()}
            for _ in range(rounds):
                for way, reports in runs.items():
                    reports.append(_run(cluster, way, topic, record_bytes, seconds))
            found += [_median(way, record_bytes, reports) for way, reports in runs.items()]
            with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                admin.delete_topics([topic])
    return found


def _median(way: Way, record_bytes: int, reports: list[dict[str, float]]) -> Compared:
    return Compared(
        way.client,
        way.how,
        record_bytes,
        way.produces,
        statistics.median(one["records"] / one["cpu"] for one in reports),
        statistics.median(one["records"] / one["seconds"] for one in reports),
    )


def _filled(cluster: LocalCluster, record_bytes: int) -> str:
    topic = f"clients-{record_bytes}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        # The requests are prebuilt, and their timestamps old: retention would take it all away.
        admin.create_topics([NewTopic(topic, 1, 1, configs={"retention.ms": "-1"})])
        leader = cluster.node(admin.describe_topics([topic])[topic].partitions[0].leader_id)
    request = produce(topic, record_bytes=record_bytes, batch_bytes=FILL_BATCH_BYTES, acks=1)
    filled = replay(
        (leader.host, leader.port),
        request.frame,
        window=5,
        requests=FILL_BYTES // len(request.frame),
        seconds=30,
    )
    check_produced(filled.last_response)
    return topic


def _run(
    cluster: LocalCluster, way: Way, filled: str, record_bytes: int, seconds: float
) -> dict[str, float]:
    environment = {**os.environ, "MINIKAFKA_RECORDS": way.codec}
    topic = filled
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        if way.produces:
            topic = f"{filled}-{way.function}-{way.codec}"
            admin.create_topics([NewTopic(topic, 1, 1)])
        command = [sys.executable, "-m", "bench.client_worker", way.function, cluster.bootstrap]
        command += [topic, str(record_bytes), str(seconds)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env=environment, check=False
        )
        if way.produces:
            admin.delete_topics([topic])
    if done.returncode != 0:
        raise RuntimeError(f"{way.client}, {way.how}: {done.stderr}")
    report: dict[str, float] = json.loads(done.stdout)
    return report


class Target(NamedTuple):
    """The best of one client's ways, at least so many times the best of another's."""

    ours: str
    theirs: str
    produces: bool
    least: float


TARGETS = (
    Target("minikafka, python", "aiokafka", True, 3.0),
    Target("minikafka, python", "aiokafka", False, 1.0),
    Target("minikafka, compiled", "confluent-kafka", True, 1.5),
    Target("minikafka, compiled", "confluent-kafka", False, 2.0),
)


def against_targets(rows: list[dict[str, Any]]) -> list[tuple[str, str, float, bool]]:
    """Hold the best ways of the clients against each other: what, target, ratio, met or not."""
    checks: list[tuple[str, str, float, bool]] = []
    for target in TARGETS:
        for record_bytes in SIZES:
            best = {
                row["client"]: max(
                    other["records_per_cpu_second"]
                    for other in rows
                    if (other["client"], other["record_bytes"], other["produces"])
                    == (row["client"], record_bytes, target.produces)
                )
                for row in rows
            }
            if target.ours not in best:
                continue
            ratio = best[target.ours] / best[target.theirs]
            does = "produce" if target.produces else "consume"
            what = f"{does}, {record_bytes} B, {target.ours}, of {target.theirs} per CPU-second"
            checks.append((what, f"≥ {target.least:g}", ratio, ratio >= target.least))
    return checks
