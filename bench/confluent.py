"""What confluent-kafka (librdkafka), unmodified, gets out of the same cluster."""

import time
from typing import NamedTuple

import confluent_kafka

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .meters import cpu_seconds
from .produce import Case


class Produced(NamedTuple):
    """One run of a real client; the client is usually what limits it."""

    records_per_second: float
    megabytes_per_second: float
    broker_cores: float
    """Cores that all brokers together kept busy."""


def measure(cluster: LocalCluster, case: Case, replication_factor: int, acks: int) -> Produced:
    """Produce records of a size with batches of at most a size."""
    topic = f"confluent-{replication_factor}-{acks}-{case.record_bytes}-{case.batch_bytes}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, replication_factor)])
        try:
            return _produce(cluster, topic, case, acks)
        finally:
            admin.delete_topics([topic])


def _produce(cluster: LocalCluster, topic: str, case: Case, acks: int) -> Produced:
    one_record = case.batch_bytes == 0
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": acks,
            "linger.ms": 0 if one_record else 5,
            "batch.size": max(1, case.batch_bytes),
            "batch.num.messages": 1 if one_record else 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = bytes(case.record_bytes)
    count = min(case.volume_bytes // case.record_bytes, 60_000 if one_record else 1_000_000)
    failed: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    before = sum(map(cpu_seconds, cluster.pids.values()))
    start = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    seconds = time.perf_counter() - start
    if failed:
        raise RuntimeError(f"{len(failed)} records failed, the first: {failed[0]}")
    cores = (sum(map(cpu_seconds, cluster.pids.values())) - before) / seconds
    return Produced(count / seconds, count * case.record_bytes / seconds / 1e6, cores)
