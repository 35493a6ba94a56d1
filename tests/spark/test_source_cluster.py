"""Readers against real brokers, without a JVM: transactions, times, patterns, leaders that move."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from minikafka import Admin, NewTopic, Producer, ProducerRecord, TopicPartition
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.spark.cluster import cluster_for
from minikafka.spark.data_source import MinikafkaDataSource
from minikafka.spark.offsets import DataLoss, OffsetRange
from minikafka.spark.options import OptionError
from minikafka.spark.source import RangePartition, StreamReader
from minikafka.spark.source_options import Patience
from tests.spark.test_source import EVERYTHING, planned
from tests.support.cluster import wait_until

pytestmark = pytest.mark.slow
PATIENT_SECONDS = 60.0
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Site:
    """A cluster of three and what tests do with it."""

    def __init__(self, cluster: LocalCluster, admin: Admin) -> None:
        self.cluster = cluster
        self.admin = admin

    def create(self, topic: str, partitions: int = 1, replicas: int = 1, **configs: str) -> str:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, partitions, replicas, configs=dotted)])
        return topic

    def source(self, **options: str) -> MinikafkaDataSource:
        servers = {"kafka.bootstrap.servers": self.cluster.bootstrap}
        return MinikafkaDataSource({**servers, **options})

    def batch(self, **options: str) -> Any:
        source = self.source(**options)
        return source.reader(source.schema())

    def stream(self, **options: str) -> StreamReader:
        source = self.source(**options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, StreamReader)
        return reader

    def send(self, topic: str, count: int, timestamps: Any = None) -> None:
        with Producer(self.cluster.bootstrap) as producer:
            records = [
                ProducerRecord(b"%d" % i, timestamp_ms=timestamps and timestamps[i])
                for i in range(count)
            ]
            producer.send_batch(topic, records, partition=0).result(60)


def rows(reader: Any, *between: Any) -> list[dict[str, Any]]:
    """Plan and read as Spark would, all tasks in one process."""
    return [
        row
        for wanted in planned(reader, *between)
        for batch in reader.read(RangePartition(wanted))
        for row in batch.to_pylist()
    ]


def offsets(read: list[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in read]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    settings = {"log.cleaner.backoff.ms": "100"}
    with (
        LocalCluster(brokers=3, broker_config=settings) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        yield Site(cluster, admin)


# -- transactions


def test_read_committed_gives_what_was_committed_and_ends_where_it_was_planned(site: Site) -> None:
    topic = site.create("transactions")
    with Producer(site.cluster.bootstrap, transactional_id="tx") as producer:
        for n, commits in enumerate((True, False, True, False)):
            producer.begin_transaction()
            producer.send_batch(topic, [ProducerRecord(b"%d" % n)] * 2, partition=0)
            producer.flush()
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        # Each transaction has two records and a marker: the last offset is a marker's.
        # A commit is answered before its markers are written.
        whole = [OffsetRange(topic, 0, 0, 12)]
        wait_until(lambda: planned(site.batch(subscribe=topic, **COMMITTED)) == whole)
        everything = rows(site.batch(subscribe=topic))
        assert [row["offset"] for row in everything] == [0, 1, 3, 4, 6, 7, 9, 10]
        reader = site.batch(subscribe=topic, **COMMITTED)
        assert planned(reader) == whole
        assert [row["value"] for row in rows(reader)] == [b"0", b"0", b"2", b"2"]
        # Ranges that begin or end at markers, within aborted and within committed ones.
        for first, last, inside in [(2, 3, []), (1, 4, [1]), (4, 7, [6]), (3, 6, []), (8, 12, [])]:
            found = reader.read(RangePartition(OffsetRange(topic, 0, first, last)))
            assert [row["offset"] for batch in found for row in batch.to_pylist()] == inside

        producer.begin_transaction()
        producer.send_batch(topic, [ProducerRecord(b"open")], partition=0)
        producer.flush()
        assert planned(reader) == whole, "an open one is not waited for"
        assert planned(site.batch(subscribe=topic)) == [OffsetRange(topic, 0, 0, 13)]
        stream = site.stream(subscribe=topic, startingOffsets="earliest", **COMMITTED)
        start = stream.initialOffset()
        end = stream.latestOffset(start, EVERYTHING)
        assert end == {topic: {"0": 12}}
        producer.commit_transaction()
        deadline = time.monotonic() + 60
        # A commit is answered before its markers are written.
        while (
            later := stream.latestOffset(end, EVERYTHING)
        ) == end and time.monotonic() < deadline:
            pass
        assert later == {topic: {"0": 14}}
        assert [row["value"] for row in rows(stream, end, later)] == [b"open"]


def test_reads_end_where_they_were_planned_in_a_log_with_holes(site: Site) -> None:
    topic = site.create(
        "holes", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="1"
    )
    with Producer(site.cluster.bootstrap) as producer:
        for n in range(40):
            record = ProducerRecord(b"%d" % n, key=b"lasting" if n == 3 else b"k")
            producer.send_batch(topic, [record], partition=0).result(60)
    whole = site.batch(subscribe=topic)
    deadline = time.monotonic() + PATIENT_SECONDS
    left = offsets(rows(whole))
    while len(left) > 20 and time.monotonic() < deadline:
        left = offsets(rows(whole))
    assert 3 in left
    holes = [offset for offset in range(40) if offset not in left]
    assert len(holes) >= 20
    for hole in (holes[0], holes[-1]):
        here = f'{{"{topic}":{{"0":{hole}}}}}'
        before = offsets(rows(site.batch(subscribe=topic, endingOffsets=here)))
        onwards = offsets(rows(site.batch(subscribe=topic, startingOffsets=here)))
        # Compaction goes on meanwhile: what is still there is there once, and nothing else.
        still = offsets(rows(whole))
        found = before + onwards
        assert found == sorted(set(found))
        assert set(still) <= set(found) <= set(left)
        assert all(each < hole for each in before)
        assert all(each > hole for each in onwards)


# -- times and patterns


def test_times_are_asked_of_the_leaders(site: Site) -> None:
    topic = site.create("times")
    site.send(topic, 5, [1000, 2000, 3000, 4000, 5000])
    read = rows(site.batch(subscribe=topic, startingTimestamp="1500", endingTimestamp="4000"))
    assert [row["offset"] for row in read] == [1, 2]
    each = site.batch(subscribe=topic, startingOffsetsByTimestamp='{"times":{"0":5000}}')
    assert [row["offset"] for row in rows(each)] == [4]
    with pytest.raises(OptionError, match="times-0 has no record that young"):
        site.batch(subscribe=topic, startingTimestamp="5001").partitions()
    latest = {"startingTimestamp": "5001", "startingOffsetsByTimestampStrategy": "latest"}
    assert site.stream(subscribe=topic, **latest).initialOffset() == {topic: {"0": 5}}


def test_topics_of_a_pattern_appear_while_a_stream_runs(site: Site) -> None:
    site.send(site.create("pattern-1"), 3)
    stream = site.stream(subscribePattern="^pattern-", startingOffsets="earliest")
    start = stream.initialOffset()
    assert start == {"pattern-1": {"0": 0}}
    site.send(site.create("pattern-2"), 2)
    deadline = time.monotonic() + PATIENT_SECONDS
    end = stream.latestOffset(start, EVERYTHING)
    while "pattern-2" not in end and time.monotonic() < deadline:
        end = stream.latestOffset(start, EVERYTHING)
    assert end == {"pattern-1": {"0": 3}, "pattern-2": {"0": 2}}
    assert len(rows(stream, start, end)) == 5
    assert rows(site.batch(subscribePattern="^nothing-has-this-name$")) == []
    everything = site.batch(subscribePattern=".")
    assert not [wanted for wanted in planned(everything) if wanted.topic.startswith("__")]


# -- what is gone


def test_records_deleted_between_plan_and_read(site: Site) -> None:
    topic = site.create("deleted")
    site.send(topic, 10)
    reader = site.batch(subscribe=topic)
    (wanted,) = planned(reader)
    site.admin.delete_records({TopicPartition(topic, 0): 6})
    with pytest.raises(DataLoss, match="deleted-0: offsets 0 to 6 were deleted before the read"):
        list(reader.read(RangePartition(wanted)))
    tolerant_reader = site.batch(subscribe=topic, failOnDataLoss="false")
    found = tolerant_reader.read(RangePartition(wanted))
    # One batch holds all ten, and brokers hand out whole batches.
    assert [row["offset"] for batch in found for row in batch.to_pylist()] == [6, 7, 8, 9]


def test_a_topic_deleted_under_a_stream(site: Site) -> None:
    topic = site.create("doomed")
    site.send(topic, 3)
    strict = site.stream(subscribe=topic, startingOffsets="earliest")
    end = strict.latestOffset(strict.initialOffset(), EVERYTHING)
    site.admin.delete_topics([topic])
    with pytest.raises(DataLoss, match="doomed-0 was read up to 3 and is gone"):
        strict.latestOffset(end, EVERYTHING)
    assert site.stream(subscribe=topic, failOnDataLoss="false").latestOffset(end, EVERYTHING) == {}
    with pytest.raises(OptionError, match="'doomed': the cluster does not have it"):
        site.batch(subscribe=topic).partitions()


def test_silence_is_an_error_after_the_time_given(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = site.create("silent")
    site.send(topic, 3)
    cluster = cluster_for(
        {"bootstrap.servers": site.cluster.bootstrap}, Patience(poll_timeout_ms=1)
    )
    here = {topic: (0,)}
    assert cluster.latest(here) == {topic: {0: 3}}
    reads = cluster.read(TopicPartition(topic, 0), 3, 4)
    monkeypatch.setattr(cluster, "latest", lambda partitions: {topic: {0: 4}})
    with pytest.raises(TimeoutError, match=r"kafkaConsumer\.pollTimeoutMs.*the log reaches 4"):
        next(reads)


# -- leaders


def test_a_leader_killed_under_a_read_costs_a_retry_and_no_row(site: Site) -> None:
    topic = site.create("moving", replicas=3, min_insync_replicas="2")
    with Producer(site.cluster.bootstrap, batch_size=2000) as producer:
        for first in range(0, 20_000, 500):
            records = [ProducerRecord(b"%050d" % i) for i in range(first, first + 500)]
            producer.send_batch(topic, records, partition=0).result(60)
    options = {"subscribe": topic, "kafka.fetch.max.bytes": "20000"}
    reader = site.batch(**options, **{"kafka.max.partition.fetch.bytes": "20000"})
    (wanted,) = planned(reader)
    leader = site.admin.describe_topics([topic])[topic].partitions[0].leader_id
    found: list[int] = []
    killed = False
    for batch in reader.read(RangePartition(wanted)):
        found += batch.column("offset").to_pylist()
        if not killed and len(found) > 2000:
            site.cluster.kill(leader)
            killed = True
    assert killed
    assert found == list(range(20_000))
    # The next micro-batch is planned without the old leader, too.
    stream = site.stream(subscribe=topic, startingOffsets="earliest")
    assert stream.latestOffset(stream.initialOffset(), EVERYTHING) == {topic: {"0": 20_000}}
    site.cluster.restart(leader)
