"""flush.policy=group against none: the same requests, acknowledged after flushes or before."""

from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .produce import Case, Measured, measure, median
from .requests import produce

ROUNDS = 3
CASES = [
    Case("16 KB batches of 1 KB", 1000, 16_000, 16, 200_000_000),
    Case("one record of 1 KB", 1000, 0, 64, 100_000_000),
    Case("1 MB batches of 1 KB", 1000, 1_000_000, 5, 200_000_000),
]


class Flushed(NamedTuple):
    """Both policies, and the share of the rate that remains."""

    case: str
    replication_factor: int
    acks: int
    none: Measured
    group: Measured

    @property
    def ratio(self) -> float:
        return self.group.requests_per_second / self.none.requests_per_second


def measure_case(cluster: LocalCluster, case: Case, replication_factor: int, acks: int) -> Flushed:
    """Rounds of both policies in turn, so that the machine's mood meets both."""
    rounds: dict[str, list[Measured]] = {"none": [], "group": []}
    for _ in range(ROUNDS):
        for policy, found in rounds.items():
            found.append(_round(cluster, case, replication_factor, acks, policy))
    none, group = (median(rounds[policy]) for policy in ("none", "group"))
    return Flushed(case.name, replication_factor, acks, none, group)


def _round(
    cluster: LocalCluster, case: Case, replication_factor: int, acks: int, policy: str
) -> Measured:
    topic = f"flush-{policy}-{case.record_bytes}-{case.batch_bytes}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        configs = {"flush.policy": policy}
        admin.create_topics([NewTopic(topic, 1, replication_factor, configs=configs)])
        leader = admin.describe_topics([topic])[topic].partitions[0].leader_id
        node = cluster.node(leader)
        request = produce(
            topic, record_bytes=case.record_bytes, batch_bytes=case.batch_bytes, acks=acks
        )
        try:
            pids = [cluster.pids[f"broker-{leader}"]]
            return measure((node.host, node.port), request, case, pids, check=True)
        finally:
            admin.delete_topics([topic])
