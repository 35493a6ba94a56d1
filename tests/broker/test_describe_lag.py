"""DescribeLag: how much a reader has left, as leaders count it and an admin puts it together."""

import asyncio
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest

from minikafka.aio import TopicPartition
from minikafka.client.admin.lag_types import PartitionLag
from minikafka.client.net.errors import ConnectionLost
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_lag import (
    MOST_PARTITIONS,
    CommittedPartition,
    CommittedTopic,
    DescribeLagRequest,
)
from minikafka.runtime.errors import CorruptLog
from minikafka.storage.unread import Unread, count_unread
from tests.simulation.stage import Stage, staged

from .conftest import MakeBroker
from .edge_support import TOPIC
from .test_transactional_apis import ONE

T0 = TopicPartition("t", 0)
COUNT = "minikafka.broker.api.describe_lag.count_unread"
Lags = Mapping[TopicPartition, PartitionLag | ApiError]


def request(topic: str, offsets: Mapping[int, int]) -> DescribeLagRequest:
    partitions = [
        CommittedPartition(partition_index=index, committed_offset=offset)
        for index, offset in offsets.items()
    ]
    return DescribeLagRequest(topics=[CommittedTopic(name=topic, partitions=partitions)])


async def lags(stage: Stage, *offsets: tuple[str, int, int]) -> Lags:
    asked = {TopicPartition(topic, index): offset for topic, index, offset in offsets}
    return await stage.admin(lambda admin: admin.describe_lag(asked, timeout_ms=2_000))


async def lag(stage: Stage, offset: int) -> PartitionLag:
    """Of a reader at this offset in partition 0 of topic t."""
    found = (await lags(stage, ("t", 0, offset)))[T0]
    assert isinstance(found, PartitionLag), found
    return found


def errors(found: Lags) -> dict[TopicPartition, ErrorCode | None]:
    return {key: one.code if isinstance(one, ApiError) else None for key, one in found.items()}


@staged(brokers=3)
async def test_records_bytes_and_seconds_that_are_left(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"a")
    await stage.sleep(40)
    await stage.send("t", b"b", b"c")
    await stage.sleep(2)
    log = stage.partition(1, "t").log
    whole = await lag(stage, 0)
    assert (whole.records, whole.size_bytes, whole.is_estimated) == (3, log.size_bytes, False)
    assert (whole.high_watermark, whole.last_stable_offset, whole.offsets) == (3, 3, 3)
    assert whole.seconds is not None
    assert int(whole.seconds) == 42
    part = await lag(stage, 1)
    assert part.records == 2
    assert part.seconds is not None
    assert int(part.seconds) == 2
    assert await lag(stage, 3) == PartitionLag(3, 3, 3, 0, 0, 0.0)
    ahead = await lag(stage, 9)
    assert (ahead.offsets, ahead.records, ahead.seconds) == (0, 0, 0.0)


@staged(brokers=3)
async def test_the_lag_of_a_group_is_counted_from_what_it_committed(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    for index in (0, 1):
        await stage.send("t", b"a", b"b", b"c", partition=index)
    committed = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 3}
    await stage.admin(lambda admin: admin.alter_group_offsets("g", committed))
    found = await stage.admin(lambda admin: admin.describe_group_lag("g"))
    assert {
        key: (one.committed_offset, one.records)
        for key, one in found.items()
        if isinstance(one, PartitionLag)
    } == {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (3, 0)}
    assert await stage.admin(lambda admin: admin.describe_group_lag("nobody")) == {}


@staged(brokers=1, broker=ONE)
async def test_what_was_aborted_and_markers_do_not_count(stage: Stage) -> None:
    await stage.create_topic("t", 1, replication=1)
    producer = await stage.producer(transactional_id="x", acks="all")
    do = producer.client.ask
    for ends in (producer.producer.commit_transaction, producer.producer.abort_transaction):
        await do(producer.producer.begin_transaction)
        for value in (b"1", b"2", b"3"):
            producer.send("t", value)
        await do(producer.producer.flush)
        await do(ends)
    await stage.sleep(1)
    decided = await lag(stage, 0)
    assert (decided.high_watermark, decided.offsets, decided.records) == (8, 8, 3)
    assert (await lag(stage, 4)).records == 0, "the rest was aborted"
    assert (await lag(stage, 4)).seconds == 0.0
    await do(producer.producer.begin_transaction)
    producer.send("t", b"open")
    await do(producer.producer.flush)
    undecided = await lag(stage, 0)
    assert (undecided.high_watermark, undecided.last_stable_offset) == (9, 8)
    assert undecided.records == 3


@staged(brokers=3)
async def test_a_partition_without_an_answer_keeps_nothing_from_the_others(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2], [2, 1]])
    await stage.create_topic("u", [[3]])
    await stage.send("t", b"a")
    stage.kill(3)
    await stage.until(lambda: stage.state("u").leader < 0, "nobody leads it")
    stage.pause(2)
    asked = [("t", 0, 0), ("u", 0, 0), ("t", 1, 0), ("t", 7, 0), ("nothing", 0, 0)]
    before = stage.now
    found = await lags(stage, *asked)
    assert stage.now - before < 5
    stage.resume(2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(errors(found).values()) == [
        None,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        unknown,
        unknown,
    ]


@staged(brokers=2)
async def test_only_a_leader_that_knows_answers(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2]])
    await stage.send("t", b"a")
    (told,) = (await stage.ask(2, request("t", {0: 0}))).topics[0].partitions
    assert ErrorCode(told.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (told.high_watermark, told.records, told.oldest_timestamp) == (-1, -1, -1)
    leader = stage.partition(1, "t").leader
    assert leader is not None
    leader.epoch_start_offset = 5
    (told,) = (await stage.ask(1, request("t", {0: 0}))).topics[0].partitions
    assert ErrorCode(told.error_code) is ErrorCode.OFFSET_NOT_AVAILABLE
    leader.epoch_start_offset = 0


@staged(brokers=3)
async def test_a_count_of_a_leader_that_is_none_any_more_does_not_stand(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"a")
    partition = stage.partition(1, "t")
    go_on = asyncio.Event()

    async def slow(*args: Any) -> Unread:
        await go_on.wait()
        return await count_unread(*args)

    with patch(COUNT, slow):
        asked = asyncio.ensure_future(stage.ask(1, request("t", {0: 0})))
        await stage.sleep(0.5)
        assert not asked.done()
        stage.pause(1)
        await stage.until(lambda: stage.state("t").leader == 2, "another leads")
        stage.resume(1)
        await stage.until(lambda: partition.leader is None, "it knows")
        go_on.set()
        (told,) = (await asked).topics[0].partitions
    assert ErrorCode(told.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told.records == -1


@staged(brokers=1)
async def test_a_damaged_log_says_so(stage: Stage) -> None:
    await stage.create_topic("t", 1, replication=1)
    await stage.send("t", b"a")
    with patch(COUNT, side_effect=CorruptLog("x.log", 0, "rotten")):
        (told,) = (await stage.ask(1, request("t", {0: 0}))).topics[0].partitions
    assert ErrorCode(told.error_code) is ErrorCode.KAFKA_STORAGE_ERROR


@staged(brokers=1)
async def test_what_nobody_foresaw_closes_one_connection(stage: Stage) -> None:
    await stage.create_topic("t", 1, replication=1)
    await stage.send("t", b"a")
    with patch(COUNT, side_effect=ZeroDivisionError), pytest.raises(ConnectionLost):
        await stage.ask(1, request("t", {0: 0}))
    (told,) = (await stage.ask(1, request("t", {0: 0}))).topics[0].partitions
    assert told.records == 1


async def test_too_many_are_refused(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    refused = client.ask(request(TOPIC, dict.fromkeys(range(1, MOST_PARTITIONS + 2), 0)), 0)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "501 partitions in one request: name at most 500"
    assert refused.topics == []
    told = client.ask(request(TOPIC, dict.fromkeys(range(1, MOST_PARTITIONS + 1), 0)), 0)
    assert {one.error_code for one in told.topics[0].partitions} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
