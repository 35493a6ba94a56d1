"""A fresh cluster of real processes for each test, and an admin client for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import Admin, PartitionDescription

from ..support.cluster import Cluster, running_cluster, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, brokers=3) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


def partition_of(admin: Admin, topic: str, partition: int = 0) -> PartitionDescription:
    """What a broker knows of a partition."""
    return admin.describe_topics([topic])[topic].partitions[partition]


def wait_for_full_isr(admin: Admin, topic: str, *, within_s: float = 60) -> None:
    """Wait until every replica of every partition is in sync."""
    wait_until(
        lambda: all(
            len(p.isr) == len(p.replicas) and p.leader_id >= 0
            for p in admin.describe_topics([topic])[topic].partitions
        ),
        within_s=within_s,
    )
