"""Memory of each process after start, and what an idle partition adds."""

import time
from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .meters import pss_mib

PARTITIONS = 1000
SETTLE_SECONDS = 2.0


class Memory(NamedTuple):
    """MiB of each process; KiB that one idle partition adds to each broker."""

    after_ready: dict[str, float]
    with_partitions: dict[str, float]
    kib_per_idle_partition: dict[str, float]


def measure() -> Memory:
    """Start a cluster, then create a topic of 1,000 partitions, each on all three brokers."""
    with LocalCluster(brokers=3) as cluster:
        time.sleep(SETTLE_SECONDS)
        before = {name: pss_mib(pid) for name, pid in cluster.pids.items()}
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("idle", PARTITIONS, 3)])
        time.sleep(SETTLE_SECONDS)
        after = {name: pss_mib(pid) for name, pid in cluster.pids.items()}
    added = {name: (after[name] - before[name]) * 1024 / PARTITIONS for name in before}
    return Memory(before, after, added)
