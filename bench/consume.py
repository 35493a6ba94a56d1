"""Consume: what a fetch costs the broker, and how fast our consumer and others read."""

import time
from typing import NamedTuple

import confluent_kafka

from minikafka import Admin, Consumer, NewTopic, TopicPartition
from minikafka.deploy.local_cluster import LocalCluster

from .load import replay
from .meters import cpu_seconds
from .requests import check_produced, fetch, produce

BATCH_BYTES = 1_000_000
FILL_BYTES = 200_000_000
FETCHES = 1000


class Consumed(NamedTuple):
    """One way of reading the same topic; megabytes are of what is on the wire."""

    how: str
    megabytes_per_second: float
    records_per_second: float
    broker_cpu_seconds_per_gigabyte: float
    client_cpu_seconds_per_gigabyte: float


def measure(cluster: LocalCluster, record_bytes: int) -> list[Consumed]:
    """Fill one partition, then read it: replayed fetches, our consumer, confluent-kafka."""
    topic = f"consume-{record_bytes}"
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        leader = cluster.node(admin.describe_topics([topic])[topic].partitions[0].leader_id)
    address = (leader.host, leader.port)
    request = produce(topic, record_bytes=record_bytes, batch_bytes=BATCH_BYTES, acks=1)
    filled = replay(
        address, request.frame, window=5, requests=FILL_BYTES // len(request.frame), seconds=30
    )
    check_produced(filled.last_response)
    records = request.records * filled.requests
    pid = cluster.pids[leader.name]
    return [
        _replayed(address, topic, pid, request.records),
        _ours(cluster.bootstrap, topic, pid, records, raw=True),
        _ours(cluster.bootstrap, topic, pid, records, raw=False),
        _confluent(cluster.bootstrap, topic, pid, records, FILL_BYTES),
    ]


class _Meter:
    """Times a reading and takes the CPU of both ends."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.broker = cpu_seconds(pid)
        self.client = time.process_time()
        self.start = time.perf_counter()

    def result(self, how: str, read_bytes: int, records: int) -> Consumed:
        seconds = time.perf_counter() - self.start
        gigabytes = read_bytes / 1e9
        return Consumed(
            how,
            read_bytes / seconds / 1e6,
            records / seconds,
            (cpu_seconds(self.pid) - self.broker) / gigabytes,
            (time.process_time() - self.client) / gigabytes,
        )


def _replayed(address: tuple[str, int], topic: str, pid: int, batch_records: int) -> Consumed:
    request = fetch(topic, 0, BATCH_BYTES)
    meter = _Meter(pid)
    done = replay(address, request, window=1, requests=FETCHES, seconds=5)
    return meter.result(
        "replayed fetch", done.requests * len(done.last_response), done.requests * batch_records
    )


def _ours(bootstrap: str, topic: str, pid: int, records: int, *, raw: bool) -> Consumed:
    partition = TopicPartition(topic, 0)
    read = read_bytes = 0
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        meter = _Meter(pid)
        while read < records:
            if raw:
                for each in consumer.poll_raw(timeout_ms=5000):
                    read = each.next_position
                    read_bytes += len(each.data)
            else:
                polled = consumer.poll(timeout_ms=5000, max_records=10_000)
                read += len(polled)
                read_bytes = FILL_BYTES * read // records
        how = "our consumer, whole batches" if raw else "our consumer, records"
        return meter.result(how, read_bytes, read)


def _confluent(bootstrap: str, topic: str, pid: int, records: int, size: int) -> Consumed:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    meter = _Meter(pid)
    read = 0
    while read < records:
        read += len(consumer.consume(min(10_000, records - read), timeout=5))
    result = meter.result("confluent-kafka", size, read)
    consumer.close()
    return result
