"""Consumer groups: what commits cost the broker, how long a rebalance takes, what is remembered.

A broker is one loop, so the CPU of its process is how busy the loop was. Coordination is shared
out as by default: `__consumer_offsets` has 50 partitions on three brokers, each of which leads a
third and follows the rest.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from minikafka import Admin, NewTopic
from minikafka.aio import Consumer
from minikafka.client.net.connection import ConnectionOptions, KafkaConnection
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.records import BatchBuilder
from minikafka.runtime.runtime import SystemRuntime

from .meters import cpu_seconds, pss_mib

GROUPS = 1_000
SECONDS = 10
CONNECTIONS = 10
"""To each broker."""
MEMBERS = 100
PARTITIONS = 1_000
HEARTBEAT_MS = 500
PRODUCER_IDS = 10_000
SETTLE_SECONDS = 3.0
TIMESTAMP_MS = 1_700_000_000_000

T = TypeVar("T")
Run = Callable[[str, SystemRuntime], Awaitable[T]]


class Found(NamedTuple):
    """Shares of one core, milliseconds, MiB."""

    commits_per_second: float
    commit_p99_ms: float
    busy: dict[str, float]
    """Of each broker's loop."""
    rebalance_seconds: float
    memory_before: dict[str, float]
    memory_after: dict[str, float]


def measure() -> Found:
    """Measure one after the other, each on a cluster of its own."""
    with LocalCluster(brokers=3) as cluster:
        _create(cluster, "t", 1)
        commits = _run(lambda runtime: _commit(cluster, runtime))
    with LocalCluster(brokers=3) as cluster:
        _create(cluster, "wide", PARTITIONS)
        rebalance = _run(lambda runtime: _rebalance(cluster, runtime))
    with LocalCluster(brokers=3) as cluster:
        _create(cluster, "t", 1)
        before = _memory(cluster)
        _run(lambda runtime: _remember(cluster, runtime))
        time.sleep(SETTLE_SECONDS)
        after = _memory(cluster)
    return Found(*commits, rebalance, before, after)


# Commits.


async def _commit(
    cluster: LocalCluster, runtime: SystemRuntime
) -> tuple[float, float, dict[str, float]]:
    """Every group commits once a second, spread evenly."""
    connections = await _coordinators(cluster, runtime)
    pids = {name: pid for name, pid in cluster.pids.items() if name.startswith("broker")}
    took: list[float] = []

    async def keep_committing(number: int) -> None:
        connection = connections[number]
        due = start + number / GROUPS
        for offset in range(SECONDS):
            await asyncio.sleep(due + offset - time.perf_counter())
            began = time.perf_counter()
            await _commit_once(connection, f"group-{number}", offset)
            took.append(time.perf_counter() - began)

    for number in range(GROUPS):  # Every group exists before the clock starts.
        await _commit_once(connections[number], f"group-{number}", 0)
    start = time.perf_counter() + 0.5
    spent = {name: cpu_seconds(pid) for name, pid in pids.items()}
    await asyncio.gather(*(keep_committing(number) for number in range(GROUPS)))
    wall = time.perf_counter() - start
    busy = {name: (cpu_seconds(pid) - spent[name]) / wall for name, pid in pids.items()}
    for connection in dict.fromkeys(connections):
        await connection.close()
    p99_ms = sorted(took)[int(len(took) * 0.99)] * 1000
    return len(took) / wall, p99_ms, busy


async def _commit_once(connection: KafkaConnection, group: str, offset: int) -> None:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )
    answer = await connection.request(request, version=9)
    assert not answer.topics[0].partitions[0].error_code


async def _coordinators(cluster: LocalCluster, runtime: SystemRuntime) -> list[KafkaConnection]:
    """A connection to the coordinator of each group; `CONNECTIONS` to each broker are shared."""
    options = ConnectionOptions(request_timeout_ms=10_000)
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    first = await KafkaConnection.open(runtime, host, int(port), options)
    request = FindCoordinatorRequest(
        coordinator_keys=[f"group-{number}" for number in range(GROUPS)]
    )
    while True:
        found = (await first.request(request, version=4)).coordinators
        if not any(each.error_code for each in found):
            break
        await asyncio.sleep(0.1)
    await first.close()
    await asyncio.sleep(1.0)  # They load their partitions, which are empty.
    pools: dict[tuple[str, int], list[KafkaConnection]] = {}
    for each in found:
        if (each.host, each.port) not in pools:
            pools[each.host, each.port] = [
                await KafkaConnection.open(runtime, each.host, each.port, options)
                for _ in range(CONNECTIONS)
            ]
    return [pools[each.host, each.port][number % CONNECTIONS] for number, each in enumerate(found)]


# A rebalance.


async def _rebalance(cluster: LocalCluster, runtime: SystemRuntime) -> float:
    """Seconds from one more member's coming until all hold their share, nothing twice."""
    consumers = [_consumer(cluster) for _ in range(MEMBERS)]
    tasks = [asyncio.create_task(_poll(one)) for one in consumers[:-1]]
    await _until_shared(consumers[:-1])
    began = time.perf_counter()
    tasks.append(asyncio.create_task(_poll(consumers[-1])))
    await _until_shared(consumers)
    took = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in consumers:
        await one.close()
    return took


def _consumer(cluster: LocalCluster) -> Consumer[Any, Any]:
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap,
        group_id="wide",
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        fetch_max_wait_ms=5_000,
    )
    return consumer


async def _poll(consumer: Consumer[Any, Any]) -> None:
    await consumer.start()
    await consumer.subscribe(["wide"])
    while True:
        await consumer.poll(timeout_ms=1_000)


async def _until_shared(consumers: list[Consumer[Any, Any]]) -> None:
    least = PARTITIONS // len(consumers)
    deadline = time.perf_counter() + 120
    while True:
        held = [len(one.assignment()) for one in consumers]
        if sum(held) == PARTITIONS and min(held) >= least:
            return
        assert time.perf_counter() < deadline, f"{sum(held)} of {PARTITIONS} held, {min(held)}"
        await asyncio.sleep(0.02)


# Memory.


async def _remember(cluster: LocalCluster, runtime: SystemRuntime) -> None:
    """Every group commits once, every producer id writes one batch."""
    connections = await _coordinators(cluster, runtime)
    for number in range(GROUPS):
        await _commit_once(connections[number], f"group-{number}", 1)
    for connection in dict.fromkeys(connections):
        await connection.close()
    leader = await _leader(cluster, runtime)
    for producer_id in range(PRODUCER_IDS):
        builder = BatchBuilder()
        builder.append(TIMESTAMP_MS, None, b"x")
        batch = builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic])
        answer = await leader.request(request, version=9)
        assert not answer.responses[0].partition_responses[0].error_code
    await leader.close()


async def _leader(cluster: LocalCluster, runtime: SystemRuntime) -> KafkaConnection:
    for address in cluster.bootstrap.split(","):
        host, _, port = address.rpartition(":")
        connection = await KafkaConnection.open(runtime, host, int(port))
        topic = TopicProduceData(name="t", partition_data=[_probe()])
        request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[topic])
        answer = await connection.request(request, version=9)
        error = answer.responses[0].partition_responses[0].error_code
        if error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return connection
        await connection.close()
    raise RuntimeError("nobody leads the topic")


def _probe() -> PartitionProduceData:
    builder = BatchBuilder()
    builder.append(TIMESTAMP_MS, None, b"x")
    return PartitionProduceData(index=0, records=memoryview(builder.build()))


def _memory(cluster: LocalCluster) -> dict[str, float]:
    return {name: pss_mib(pid) for name, pid in cluster.pids.items() if name.startswith("broker")}


def _create(cluster: LocalCluster, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, 3)])
    time.sleep(SETTLE_SECONDS)


def _run(body: Callable[[SystemRuntime], Coroutine[Any, Any, T]]) -> T:
    runtime = SystemRuntime("bench")
    try:
        return asyncio.run(body(runtime))
    finally:
        runtime.close()


# The page.


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Against the targets; nothing where groups were not measured."""
    found = results.get("groups")
    if found is None:
        return []
    busy, seconds = max(found["busy"].values()), found["rebalance_seconds"]
    return [
        (f"{GROUPS:,} groups commit once a second: the busiest loop", "< 0.3", busy, busy < 0.3),
        (
            f"one more of {MEMBERS} members with {PARTITIONS:,} partitions: all shared again (s)",
            "< 3",
            seconds,
            seconds < 3,
        ),
    ]


def rows(results: dict[str, Any]) -> list[tuple[str, str]]:
    """What is reported without a target."""
    found = results.get("groups")
    if found is None:
        return []
    before, after = found["memory_before"], found["memory_after"]
    what = f"more after {PRODUCER_IDS:,} producer ids and {GROUPS:,} groups (PSS)"
    return [
        (f"a commit, p99, at {found['commits_per_second']:,.0f} a second", _ms(found)),
        *((f"{name}, {what}", f"{after[name] - before[name]:.1f} MiB") for name in after),
    ]


def _ms(found: dict[str, Any]) -> str:
    return f"{found['commit_p99_ms']:.1f} ms"
