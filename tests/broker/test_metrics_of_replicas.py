"""Metrics of partitions, logs and replication: each is moved by what it tells of."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikafka.broker.metrics.labelled import Labelled
from minikafka.broker.partition.leading import carry_out
from minikafka.protocol.control.messages import PartitionsAltered
from minikafka.protocol.control.records import PartitionRecord
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records import record_batch

from .channel_support import until
from .metrics_support import MANAGER, Told
from .node_support import ME, ORDERS, WALL_MS, B, C, led_batch, state
from .test_isr_proposals import result

FIRST: dict[str, str | int] = {"topic": "orders", "partition": 0}
LED = state(ME, isr=(ME, B, C))


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    made = await Told(tmp_path).begin()
    yield made
    await made.end()


async def test_replicas_and_leaders_are_counted(told: Told) -> None:
    hosted, led = told.count("partitioncount"), told.count("leadercount")
    await told.give(LED, state(B))
    assert told.count("partitioncount") == hosted + 2
    assert told.count("leadercount") == led + 1
    await told.change(state(B, leader_epoch=2, partition_epoch=2))
    assert told.count("leadercount") == led
    await told.forget_topic()
    assert told.count("partitioncount") == hosted


async def test_a_follower_that_leaves_the_isr_is_seen(told: Told) -> None:
    await told.give(LED)
    await told.configure("min.insync.replicas", "2")
    before = told.scrape()
    at_least = before(MANAGER + "atminisrpartitioncount")
    assert before("kafka_topic_partition_in_sync_replica", **FIRST) == 3
    assert before(MANAGER + "underreplicatedpartitions") == 0

    await told.change(state(ME, isr=(ME, B), partition_epoch=2))
    smaller = told.scrape()
    assert smaller(MANAGER + "underreplicatedpartitions") == 1
    assert smaller(MANAGER + "atminisrpartitioncount") == at_least + 1
    assert smaller(MANAGER + "underminisrpartitioncount") == 0
    assert smaller("kafka_topic_partition_under_replicated_partition", **FIRST) == 1
    assert smaller("kafka_topic_partition_in_sync_replica", **FIRST) == 2
    assert smaller("kafka_topic_partition_replicas", **FIRST) == 3
    assert smaller("kafka_cluster_partition_atminisr", **FIRST) == 1

    await told.change(state(ME, isr=(ME,), partition_epoch=3))
    least = told.scrape()
    assert least(MANAGER + "underminisrpartitioncount") == 1
    assert least("kafka_cluster_partition_underminisr", **FIRST) == 1
    assert least("kafka_cluster_partition_atminisr", **FIRST) == 0


async def test_a_reassignment_is_seen_and_does_not_look_like_a_lost_replica(told: Told) -> None:
    await told.give(state(ME, replicas=(ME, B), isr=(ME, B)))
    await told.change(state(ME, isr=(ME, B), adding=(C,), partition_epoch=2))
    during = told.scrape()
    assert during(MANAGER + "reassigningpartitions") == 1
    assert during(MANAGER + "underreplicatedpartitions") == 0
    await told.change(state(ME, partition_epoch=3))
    assert told.count("reassigningpartitions") == 0


async def test_a_failed_disk_is_seen(told: Told) -> None:
    partition = await told.give(LED)
    assert told.scrape().every("kafka_log_log_size", **FIRST) == [0]
    hosted = told.count("partitioncount")
    directory = told.partitions.directory_of(partition)
    files, where = directory.files, directory.path
    files.space = lambda: (1000, 150)  # type: ignore[method-assign]
    assert told.scrape()("minikafka_disk_bytes", logDirectory=where) == 1000
    assert told.scrape()("minikafka_disk_usable_bytes", logDirectory=where) == 150
    del files.space
    with pytest.raises(Exception, match="Input/output error"), files.guard:
        raise OSError(5, "Input/output error")
    await until(lambda: bool(partition.offline_because))
    after = told.scrape()
    assert after("kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert after(MANAGER + "offlinereplicacount") == hosted
    assert after(MANAGER + "partitioncount") == 0
    assert not after.every("kafka_log_log_size", **FIRST)
    assert not after.every("minikafka_disk_usable_bytes", logDirectory=where)


async def test_producers_are_counted(told: Told) -> None:
    await told.give(LED)
    told.append(batch_of(7))
    told.append(batch_of(8))
    assert told.count("produceridcount") == 2


def batch_of(producer_id: int, *, is_transactional: bool = False) -> bytearray:
    builder = record_batch.BatchBuilder(is_transactional=is_transactional)
    builder.append(WALL_MS, b"key", b"value")
    return builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0)


async def test_an_open_transaction_hides_what_comes_after_it(told: Told) -> None:
    partition = await told.give(state(ME, replicas=(ME,), isr=(ME,)))
    told.produce(b"before")
    lag = "kafka_cluster_partition_laststableoffsetlag"
    assert told.scrape()(lag, **FIRST) == 0
    guard = partition.needs_verification(7, 0, 0)
    data = memoryview(batch_of(7, is_transactional=True))
    assert not partition.append_as_leader(data, acks=1, wall_ms=WALL_MS, guard=guard).error
    told.partitions.write_staged()
    told.produce(b"after")
    assert told.scrape()(lag, **FIRST) == 2


async def test_offsets_sizes_and_segments_are_those_of_the_log(told: Told) -> None:
    partition = await told.give(LED)
    told.produce(b"a", b"b", b"c")
    told.fetched_by(B, offset=2)
    told.fetched_by(C, offset=3)
    partition.log.roll()
    partition.log.advance_log_start(1)
    found = told.scrape()
    assert found("kafka_topic_partition_current_offset", **FIRST) == 2
    assert found("kafka_topic_partition_oldest_offset", **FIRST) == 1
    assert found("kafka_log_log_logendoffset", **FIRST) == 3
    assert found("kafka_log_log_logstartoffset", **FIRST) == 1
    assert found("kafka_log_log_numlogsegments", **FIRST) == 2
    assert found("kafka_log_log_size", **FIRST) == partition.log.size_bytes > 90


async def test_flushes_are_timed_where_there_was_something_to_flush(told: Told) -> None:
    partition = await told.give(LED)
    now_us = iter(range(0, 1_000_000, 5_000))
    (directory,) = told.partitions.store.directories
    directory.flush_times.now_us = lambda: next(now_us)
    name, where = "kafka_log_logflushstats_logflushrateandtimems", directory.path
    told.produce(b"a")
    await partition.log.flush()
    await partition.log.flush()
    found = told.scrape()
    assert found(name + "_count", logDirectory=where) == 1
    assert found(name + "_sum", logDirectory=where) == 5
    assert 5 <= found(name, logDirectory=where, quantile="0.99") <= 6


async def test_who_leads_and_whether_it_should(told: Told) -> None:
    await told.give(LED, state(ME, replicas=(B, ME), isr=(B, ME)))
    found = told.scrape()
    preferred = "kafka_topic_partition_leader_is_preferred"
    assert found("kafka_topic_partition_leader", **FIRST) == ME
    assert found(preferred, **FIRST) == 1
    assert found(preferred, topic="orders", partition=1) == 0


async def test_topics_are_told_by_the_leader_of_their_first_partition(told: Told) -> None:
    await told.give(LED, state(B), state(B))
    assert told.scrape()("kafka_topic_partitions", topic="orders") == 3
    await told.apply(PartitionRecord(ORDERS, 3, (B,), (B,), B, 1, 1))
    assert told.scrape()("kafka_topic_partitions", topic="orders") == 4
    await told.change(state(B, leader_epoch=2, partition_epoch=2))
    assert not told.scrape().every("kafka_topic_partitions", topic="orders")


async def test_brokers_that_are_fenced_do_not_count(told: Told) -> None:
    assert told.scrape()("kafka_brokers") == 3
    await told.fence(B)
    after = told.scrape()
    assert after("kafka_brokers") == 2
    assert after("kafka_broker_info", id=ME, address="127.0.0.1:9001") == 1


async def test_a_follower_that_stops_falls_behind_in_records_and_time(told: Told) -> None:
    await told.give(LED)
    told.fetched_by(B, C, offset=0, last_epoch=-1)
    records, late = "minikafka_follower_lag_records", "minikafka_follower_lag_milliseconds"
    assert told.scrape()(records, follower=C) == 0
    told.produce(b"a", b"b", b"c")
    told.now_ms += 700
    told.fetched_by(B, offset=3)
    after = told.scrape()
    assert (after(records, follower=B), after(late, follower=B)) == (0, 0)
    assert (after(records, follower=C), after(late, follower=C)) == (3, 700)


async def test_what_is_not_fetched_yet_is_a_followers_lag(told: Told) -> None:
    await told.give(state(B), state(B))
    told.follow(led_batch(0, 1, b"a"), high_watermark=5)
    found = told.scrape()
    assert found("kafka_server_fetcherlagmetrics_consumerlag", **FIRST) == 4
    assert found("kafka_server_fetcherlagmetrics_consumerlag", topic="orders", partition=1) == 0
    assert found("kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 4
    told.follow(led_batch(1, 1, b"b", b"c", b"d", b"e"), high_watermark=5)
    assert told.scrape()("kafka_server_replicafetchermanager_maxlag") == 0


async def test_accepted_and_refused_changes_of_an_isr_are_counted(told: Told) -> None:
    partition = await told.give(state(ME, isr=(ME, B)))
    leader = partition.leader
    assert leader is not None

    def counts() -> list[float]:
        found = told.scrape()
        names = ("isrexpands_total", "isrshrinks_total", "failedisrupdates_total")
        return [found(MANAGER + name) for name in names]

    assert counts() == [0, 0, 0]
    told.fetched_by(C, offset=0, last_epoch=-1)
    grown = result(0, isr=(ME, B, C))
    await told.channel.answer(PartitionsAltered(0, partitions=(grown,)))
    await until(lambda: leader.isr == (ME, B, C))
    assert counts() == [1, 0, 0]
    told.produce(b"a")
    told.now_ms += 60_000
    carry_out(partition, leader.on_lag_check(told.now_ms))
    shrunk = result(0, isr=(ME,), partition_epoch=3)
    await told.channel.answer(PartitionsAltered(0, partitions=(shrunk,)))
    await until(lambda: leader.isr == (ME,))
    assert counts() == [1, 1, 0]
    told.fetched_by(B, offset=1)
    refused = result(0, ErrorCode.INELIGIBLE_REPLICA)
    await told.channel.answer(PartitionsAltered(0, partitions=(refused,)))
    await until(lambda: leader.proposal is None)
    assert counts() == [1, 1, 1]


async def test_a_topic_named_anew_brings_new_labels_and_forgets_the_old(told: Told) -> None:
    labelled = Labelled(told.partitions)
    await told.give(LED, LED)
    before = list(labelled)
    assert len(before) == len(told.partitions)
    assert all(one is other for one, other in zip(before, labelled, strict=True))
    await told.forget_topic()
    after = list(labelled)
    assert [row for row in before if "orders" not in row.tail] == after
    assert len(labelled._rows) == len(after) < len(before)


async def test_lines_about_replicas_are_kept_until_the_metadata_changes(told: Told) -> None:
    await told.give(LED)
    (row,) = [each for each in Labelled(told.partitions) if each.partition is told[0]]
    leader = told[0].leader
    assert leader is not None
    first = row.standing(leader)
    assert row.standing(leader) is first
    assert not first.is_under_replicated
    await told.change(state(ME, isr=(ME,), partition_epoch=2))
    second = row.standing(leader)
    assert second.is_under_replicated
    assert second.lines[3] == f"{row.tail} 1\n"


async def test_settings_of_a_topic_move_its_minimum(told: Told) -> None:
    await told.give(state(ME, isr=(ME,)))
    await told.configure("min.insync.replicas", "1")
    assert told.count("underminisrpartitioncount") == 0
    await told.configure("min.insync.replicas", "3")
    assert told.count("underminisrpartitioncount") == 1
