"""Memory of each process after start, and what an idle partition adds."""

import time
from typing import NamedTuple

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .meters import pss_mib

WARM_UP_PARTITIONS = 100
PARTITIONS = 1000
SETTLE_SECONDS = 3.0


class Memory(NamedTuple):
    """MiB of each process; KiB that one idle partition adds to each broker."""

    after_ready: dict[str, float]
    with_partitions: dict[str, float]
    kib_per_idle_partition: dict[str, float]


def measure() -> Memory:
    """Start a cluster, then create a topic of 1,000 partitions, each on all three brokers."""
    with LocalCluster(brokers=3) as cluster:
        time.sleep(SETTLE_SECONDS)
        ready = _all(cluster)
        # The first topic makes pages that were shared since the fork each process's own: that is
        # paid once, not for each partition.
        _create(cluster, "first", WARM_UP_PARTITIONS)
        before = _all(cluster)
        _create(cluster, "idle", PARTITIONS)
        after = _all(cluster)
    added = {name: (after[name] - before[name]) * 1024 / PARTITIONS for name in before}
    return Memory(ready, after, added)


def _create(cluster: LocalCluster, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, 3)])
    time.sleep(SETTLE_SECONDS)


def _all(cluster: LocalCluster) -> dict[str, float]:
    return {name: pss_mib(pid) for name, pid in cluster.pids.items()}
