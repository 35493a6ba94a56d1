"""Delay topics: how late records arrive, how fast a backlog is forwarded, what waiting costs.

The target has LogAppendTime, so that its timestamps less the header `minikafka-due` are lateness
as the brokers saw it. CPU is that of all brokers: of three, each record is appended six times.

    python -m bench.delay --pending 10_000_000
"""

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import click
import confluent_kafka

from minikafka import Admin, ConfigChange, ConfigResource, NewTopic
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.delays import DELIVER_AT, DUE, SOURCE

from .latency import open_loop
from .meters import cpu_seconds, pss_mib
from .requests import produce

SOURCE_TOPIC, TARGET_TOPIC = "parked", "due"
RECORD_BYTES = 100
PARTITIONS = 3
RATE = 10_000
"""Records that are due in a second, in the whole cluster."""
SPREAD_SECONDS = 20
LEAD_SECONDS = 10
"""How long the records are parked before the first of them is due."""
BACKLOG = 200_000
PENDING = 1_000_000
LONG_MS = 20 * 24 * 3_600_000
SETTLE_SECONDS = 3.0
BURST = 500_000
BURST_LEAD_SECONDS = 60
OTHERS = 200
"""Requests a second of another producer."""
OTHERS_SECONDS = 10.0


Headers = list[tuple[str, bytes]]


class Lateness(NamedTuple):
    """Milliseconds between the time at which a record was due and its append in the target."""

    rate: int
    p50: int
    p99: int
    longest: int
    missing: int
    doubled: int
    early: int
    broker_cores: float


class Drained(NamedTuple):
    """A backlog that was due when forwarding began."""

    records: int
    records_per_second: float
    records_per_cpu_second: float
    """CPU of all brokers."""


class Burst(NamedTuple):
    """Many records that are due in one second, and requests of others meanwhile (acks=all)."""

    records: int
    seconds: float
    """From when the first was due until all were in the target."""
    p99_ms: float
    """Of requests of one record to another topic, while the records are forwarded."""
    p99_ms_alone: float


class Pending(NamedTuple):
    """What waits, in one partition of one broker."""

    records: int
    mib_added: float
    ready_again_seconds: float
    """From the start of the process until a record that is due at once was forwarded."""


def measure(rates: Iterable[int] = (1_000, RATE), pending: int = PENDING) -> dict[str, Any]:
    """Measure one after the other, each on a cluster of its own."""
    return {
        "lateness": [lateness(rate)._asdict() for rate in rates],
        "drained": drain()._asdict(),
        "burst": burst()._asdict(),
        "pending": waiting(pending)._asdict(),
    }


def lateness(rate: int = RATE) -> Lateness:
    """Park records with random times, and see when each arrives."""
    with LocalCluster(brokers=3) as cluster:
        _create(cluster)
        dice, count = random.Random(rate), rate * SPREAD_SECONDS
        first_ms = round(time.time() * 1000) + LEAD_SECONDS * 1000
        last_ms = first_ms + SPREAD_SECONDS * 1000
        dues = (dice.randrange(first_ms, last_ms) for _ in range(count))
        _park(cluster, ({DELIVER_AT: str(due)} for due in dues))
        if time.time() * 1000 > first_ms:
            raise RuntimeError("parking the records took longer than LEAD_SECONDS")
        time.sleep(first_ms / 1000 - time.time())
        before = _cpu(cluster)
        time.sleep(SPREAD_SECONDS)
        cores = (_cpu(cluster) - before) / SPREAD_SECONDS
        late: list[int] = []
        origins: dict[bytes, None] = {}
        for appended_ms, headers in _arrivals(cluster, count):
            late.append(appended_ms - int(headers[DUE]))
            origins[headers[SOURCE]] = None
    late.sort()
    return Lateness(
        rate,
        p50=late[len(late) // 2],
        p99=late[len(late) * 99 // 100],
        longest=late[-1],
        missing=count - len(origins),
        doubled=len(late) - len(origins),
        early=sum(each < 0 for each in late),
        broker_cores=cores,
    )


def drain(count: int = BACKLOG) -> Drained:
    """Park records while forwarding is paused, and let them go at once."""
    with LocalCluster(brokers=3) as cluster:
        _create(cluster, {"minikafka.delay.paused": "true"})
        _park(cluster, ({} for _ in range(count)))
        time.sleep(SETTLE_SECONDS)
        before, began = _cpu(cluster), time.perf_counter()
        with Admin(cluster.bootstrap) as admin:
            change = ConfigChange("minikafka.delay.paused", "false")
            admin.incremental_alter_configs({ConfigResource.topic(SOURCE_TOPIC): [change]})
        for _ in _arrivals(cluster, count):
            pass
        seconds, cpu = time.perf_counter() - began, _cpu(cluster) - before
    return Drained(count, count / seconds, count / cpu)


def burst(count: int = BURST) -> Burst:
    """Let many records become due at once, and measure what others feel of it."""
    with LocalCluster(brokers=3) as cluster:
        _create(cluster)
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("other", 1, 3)])
            leader = cluster.node(admin.describe_topics(["other"])["other"].partitions[0].leader_id)
        address = (leader.host, leader.port)
        frame = produce("other", record_bytes=RECORD_BYTES, batch_bytes=0, acks=-1).frame
        open_loop(address, frame, OTHERS, SETTLE_SECONDS)
        alone = open_loop(address, frame, OTHERS, OTHERS_SECONDS)
        first_ms = round(time.time() * 1000) + BURST_LEAD_SECONDS * 1000
        dice = random.Random(count)
        dues = (first_ms + dice.randrange(1000) for _ in range(count))
        _park(cluster, ({DELIVER_AT: str(due)} for due in dues))
        if time.time() * 1000 > first_ms:
            raise RuntimeError("parking the records took longer than BURST_LEAD_SECONDS")
        time.sleep(first_ms / 1000 - time.time())
        meanwhile = open_loop(address, frame, OTHERS, OTHERS_SECONDS)
        last_ms = max(appended_ms for appended_ms, _ in _arrivals(cluster, count))
    return Burst(count, (last_ms - first_ms) / 1000, *map(_p99_ms, (meanwhile, alone)))


def _p99_ms(seconds: list[float]) -> float:
    return 1000 * sorted(seconds)[len(seconds) * 99 // 100]


def waiting(count: int) -> Pending:
    """Park records that are due in weeks, weigh the broker, and start it again."""
    with LocalCluster(brokers=1) as cluster:
        config = {"minikafka.delay.pending.max": str(count + 1000)}
        _create(cluster, config, partitions=1, replicas=1)
        time.sleep(SETTLE_SECONDS)
        before = pss_mib(cluster.pids["broker-1"])
        now_ms, dice = round(time.time() * 1000), random.Random(count)
        dues = (now_ms + LONG_MS + dice.randrange(LONG_MS // 4) for _ in range(count))
        _park(cluster, ({DELIVER_AT: str(due)} for due in dues))
        time.sleep(SETTLE_SECONDS)
        added = pss_mib(cluster.pids["broker-1"]) - before
        cluster.stop_node(1)
        began = time.perf_counter()
        cluster.restart(1)
        _park(cluster, [{}])
        for _ in _arrivals(cluster, 1):
            pass
        seconds = time.perf_counter() - began
    return Pending(count, added, seconds)


def _create(
    cluster: LocalCluster,
    config: Mapping[str, str] | None = None,
    partitions: int = PARTITIONS,
    replicas: int = 3,
) -> None:
    logged = {"message.timestamp.type": "LogAppendTime"}
    parked = {"minikafka.delay.target": TARGET_TOPIC, **(config or {})}
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(TARGET_TOPIC, partitions, replicas, configs=logged)])
        admin.create_topics([NewTopic(SOURCE_TOPIC, partitions, replicas, configs=parked)])


def _park(cluster: LocalCluster, headers: Iterable[dict[str, str | bytes | None]]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "batch.size": 100_000}
    )
    failed: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    value = bytes(RECORD_BYTES)
    for number, each in enumerate(headers):
        key = number.to_bytes(8, "big")
        while True:
            try:
                producer.produce(SOURCE_TOPIC, value, key, headers=each, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(f"{len(failed)} records failed, the first: {failed[0]}")


def _arrivals(cluster: LocalCluster, count: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield timestamp and headers of what is in the target, until so many records were there."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "arrivals",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TARGET_TOPIC])
    try:
        while count > 0:
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error() is None:
                    count -= 1
                    yield message.timestamp()[1], dict(cast("Headers", message.headers()))
    finally:
        consumer.close()


def _cpu(cluster: LocalCluster) -> float:
    return sum(cpu_seconds(pid) for name, pid in cluster.pids.items() if "broker" in name)


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Return the rows of the page's targets, if this was measured."""
    found = results.get("delay")
    if found is None:
        return []
    late, drained, waits = found["lateness"][-1], found["drained"], found["pending"]
    slower = found["burst"]["p99_ms"] / found["burst"]["p99_ms_alone"]
    p50, p99, rate = late["p50"], late["p99"], drained["records_per_cpu_second"]
    bytes_each = waits["mib_added"] * (1 << 20) / waits["records"]
    at = f"delay topic at {late['rate']:,} due records/s"
    return [
        (f"{at}: lateness p50 (ms)", "≤ 20", p50, p50 <= 20),
        (f"{at}: lateness p99 (ms)", "≤ 250", p99, p99 <= 250),
        ("delay topic, a backlog (records in a CPU second)", "≥ 20,000", rate, rate >= 20_000),
        (
            "others' produce p99 while 500,000 are due in a second (ratio)",
            "≤ 2",
            slower,
            slower <= 2,
        ),
        (
            "delay topic, memory of a record that waits (bytes)",
            "≤ 13",
            bytes_each,
            bytes_each <= 13,
        ),
    ]


def section(results: dict[str, Any]) -> list[str]:
    """Write the section of the page, if this was measured."""
    found = results.get("delay")
    if found is None:
        return []
    drained, waits, burst = found["drained"], found["pending"], found["burst"]
    return [
        "",
        "## Delay topics",
        "",
        "Records with random times in a delay topic of 3 partitions, all topics with RF 3.",
        "",
        "| due/s | late p50 ms | p99 | longest | missing | doubled | early | broker cores |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {late['rate']:,} | {late['p50']} | {late['p99']} | {late['longest']} "
            f"| {late['missing']} | {late['doubled']} | {late['early']} "
            f"| {late['broker_cores']:.2f} |"
            for late in found["lateness"]
        ),
        "",
        f"A backlog of {drained['records']:,} records is forwarded at "
        f"{drained['records_per_second']:,.0f} records/s, with a CPU second of all brokers for "
        f"{drained['records_per_cpu_second']:,.0f}. Of {waits['records']:,} records that wait in "
        f"one partition the broker holds {waits['mib_added']:.0f} MiB, and it forwards again "
        f"{waits['ready_again_seconds']:.1f} s after its process is started.",
        "",
        f"{burst['records']:,} records that are due in one second are forwarded in "
        f"{burst['seconds']:.0f} s; p99 of another producer is {burst['p99_ms']:.1f} ms meanwhile, "
        f"and {burst['p99_ms_alone']:.1f} ms alone.",
    ]


@click.command(help=__doc__)
@click.option("--pending", default=PENDING, help="Records that wait in one partition.")
def main(pending: int) -> None:
    """Measure, and print it as JSON."""
    click.echo(json.dumps(measure(pending=pending), indent=1))


if __name__ == "__main__":
    main()
