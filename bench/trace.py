"""What trace points cost the broker that leads: off, one in 1,024 offsets, and every batch.

Short rounds of the settings take turns, in both orders, and a ratio is the median of those within
each round: so what the machine does meanwhile meets all of them.
"""

import statistics
import time
from typing import NamedTuple

from minikafka import Admin, ConfigChange, ConfigResource, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from . import produce
from .requests import produce as request_of

ROUNDS = 9
EVERY = (0, 1024, 1)
CASES = (
    produce.Case("16 KB batches of 100 B", 100, 16_000, 16, 1_000_000_000),
    produce.Case("one record of 100 B", 100, 0, 64, 10_000_000),
)
"""Rounds of a second or more: a broker traces so many batches of a second, and no more."""
SETTLE_SECONDS = 0.3


class Cost(NamedTuple):
    """CPU and throughput with one setting in one case."""

    case: str
    every: int
    cpu_us_per_request: float
    cpu_ratio: float
    """To what it takes with tracing off, in the same round."""
    rate_ratio: float
    """Requests a second, to those with tracing off in the same round."""


def compare(cluster: LocalCluster, rounds: int = ROUNDS) -> list[Cost]:
    """Measure every case with every setting."""
    costs: list[Cost] = []
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for number, case in enumerate(CASES):
            found: dict[int, list[produce.Measured]] = {every: [] for every in EVERY}
            for turn in range(rounds):
                for every in EVERY if turn % 2 else EVERY[::-1]:
                    topic = f"traced-{number}-{turn}-{every}"
                    _set(admin, every)
                    admin.create_topics([NewTopic(topic, 1, 1)])
                    time.sleep(SETTLE_SECONDS)
                    found[every].append(_round(cluster, topic, case))
                    admin.delete_topics([topic])
            costs += [_cost(case.name, every, found[every], found[0]) for every in EVERY]
    return costs


def _set(admin: Admin, every: int) -> None:
    change = ConfigChange("minikafka.trace.every", str(every))
    admin.incremental_alter_configs({ConfigResource.broker(None): [change]})


def _cost(case: str, every: int, mine: list[produce.Measured], off: list[produce.Measured]) -> Cost:
    pairs = [*zip(mine, off, strict=True)]
    return Cost(
        case,
        every,
        statistics.median(each.cpu_us_per_request for each in mine),
        statistics.median(each.cpu_us_per_request / one.cpu_us_per_request for each, one in pairs),
        statistics.median(
            each.requests_per_second / one.requests_per_second for each, one in pairs
        ),
    )


def _round(cluster: LocalCluster, topic: str, case: produce.Case) -> produce.Measured:
    request = request_of(
        topic, record_bytes=case.record_bytes, batch_bytes=case.batch_bytes, acks=1
    )
    node = cluster.node(1)
    return produce.measure(
        (node.host, node.port), request, case, [cluster.pids["broker-1"]], check=True
    )
