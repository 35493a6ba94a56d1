"""The gap in acknowledged writes when the leader of a partition is killed with SIGKILL."""

import asyncio
import itertools
import statistics
import time
from typing import NamedTuple

from minikafka import aio
from minikafka.deploy.local_cluster import LocalCluster

RATE = 200
TRIALS = 10
BEFORE_SECONDS = 1.5
AFTER_SECONDS = 3.0


class Failover(NamedTuple):
    """Milliseconds without an acknowledgement around a kill, over some trials."""

    trials: int
    median: float
    most: float
    failed_sends: int


def measure() -> Failover:
    """Write with acks=all at a steady rate; kill the leader, bring it back, again."""
    with LocalCluster(brokers=3) as cluster:
        return asyncio.run(_trials(cluster))


async def _trials(cluster: LocalCluster) -> Failover:
    gaps: list[float] = []
    failed = 0
    async with (
        aio.Admin(bootstrap_servers=cluster.bootstrap) as admin,
        aio.Producer(bootstrap_servers=cluster.bootstrap, linger_ms=0) as producer,
    ):
        await admin.create_topics([aio.NewTopic("failover", 1, 3)])
        for _ in range(TRIALS):
            await _until_full_isr(admin)
            description = (await admin.describe_topics(["failover"]))["failover"]
            leader = description.partitions[0].leader_id
            gap, errors = await _one_kill(cluster, producer, leader)
            gaps.append(gap * 1000)
            failed += errors
            await asyncio.to_thread(cluster.restart, leader)
    return Failover(TRIALS, round(statistics.median(gaps), 1), round(max(gaps), 1), failed)


async def _one_kill(
    cluster: LocalCluster, producer: aio.Producer, leader: int
) -> tuple[float, int]:
    acknowledged: list[float] = []
    failed = 0

    def on_delivery(error: BaseException | None, metadata: object) -> None:
        nonlocal failed
        if error is None:
            acknowledged.append(time.perf_counter())
        else:
            failed += 1

    start = time.perf_counter()
    killed = False
    for number in range(int(RATE * (BEFORE_SECONDS + AFTER_SECONDS))):
        due = start + number / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if not killed and due - start >= BEFORE_SECONDS:
            killed = True
            await asyncio.to_thread(cluster.kill, leader)
        producer.send("failover", b"x" * 100, on_delivery=on_delivery)
    await producer.flush()
    pairs = itertools.pairwise(acknowledged)
    return max(after - before for before, after in pairs), failed


async def _until_full_isr(admin: aio.Admin) -> None:
    while True:
        description = (await admin.describe_topics(["failover"]))["failover"]
        if len(description.partitions[0].isr) == 3:
            return
        await asyncio.sleep(0.1)
