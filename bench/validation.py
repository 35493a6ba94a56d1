"""What each level of `minikafka.records.validation` costs the broker that leads, one copy, acks=1.

Short rounds of the levels take turns, and a ratio is the median of those within each round: so what
the machine does meanwhile meets all levels.
"""

import statistics
from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.records.record_batch import Codec

from . import produce
from .requests import produce as request_of

ROUNDS = 15
BYTES = 30_000_000
"""Sent in each round at each level."""
LEVELS = ("batch", "structure", "full")
CASES = (
    ("1 MB batches of 1 KB", 1000, 1_000_000, Codec.NONE),
    ("1 MB batches of 100 B", 100, 1_000_000, Codec.NONE),
    ("16 KB batches of 1 KB", 1000, 16_000, Codec.NONE),
    ("16 KB batches of 100 B", 100, 16_000, Codec.NONE),
    ("100 KB batches of 100 B, zstd", 100, 100_000, Codec.ZSTD),
)


class Cost(NamedTuple):
    """CPU of one level in one case."""

    case: str
    level: str
    cpu_us_per_request: float
    ratio: float
    """Of what level batch costs in the same round."""


def compare(cluster: LocalCluster, rounds: int = ROUNDS) -> list[Cost]:
    """Measure every case at every level."""
    costs: list[Cost] = []
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for number, (name, record_bytes, batch_bytes, codec) in enumerate(CASES):
            found: dict[str, list[produce.Measured]] = {level: [] for level in LEVELS}
            case = produce.Case(name, record_bytes, batch_bytes, 5, BYTES)
            for turn in range(rounds):
                for level in LEVELS:
                    topic = f"validated-{number}-{turn}-{level}"
                    configs = {"minikafka.records.validation": level}
                    admin.create_topics([NewTopic(topic, 1, 1, configs=configs)])
                    found[level].append(_round(cluster, topic, case, codec))
                    admin.delete_topics([topic])
            costs += [_cost(name, level, found[level], found["batch"]) for level in LEVELS]
    return costs


def _cost(
    case: str, level: str, mine: list[produce.Measured], base: list[produce.Measured]
) -> Cost:
    cpu = statistics.median(each.cpu_us_per_request for each in mine)
    pairs = zip(mine, base, strict=True)
    ratios = [each.cpu_us_per_request / other.cpu_us_per_request for each, other in pairs]
    return Cost(case, level, cpu, statistics.median(ratios))


def _round(cluster: LocalCluster, topic: str, case: produce.Case, codec: Codec) -> produce.Measured:
    request = request_of(
        topic,
        record_bytes=case.record_bytes,
        batch_bytes=case.batch_bytes,
        acks=1,
        compression=codec,
    )
    node = cluster.node(1)
    address = node.host, node.port
    return produce.measure(address, request, case, [cluster.pids["broker-1"]], check=True)
