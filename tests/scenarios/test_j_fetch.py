"""Scenarios J: fetches, sessions and what consumers see."""

import asyncio
from itertools import count
from typing import Any

import pytest

from minikafka.aio import Consumer
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import FetchAnswer, FetchSpec
from minikafka.broker.replica.selector import RACK_AWARE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    FINAL_SESSION_EPOCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.records.record_batch import headers
from minikafka.protocol.records.records import records
from minikafka.protocol.types import TopicPartition
from tests.simulation.stage import Client, Stage, staged

T0 = TopicPartition("t", 0)
RACKS = {"replica.selector.class": RACK_AWARE}


async def fetch(
    stage: Stage, broker: int, offset: int | dict[int, int], /, **fields: Any
) -> FetchResponse:
    """Fetch from `t`: its partition 0, or partitions and offsets."""
    limit = fields.pop("partition_max_bytes", 1 << 20)
    offsets = {0: offset} if isinstance(offset, int) else offset
    topic = FetchTopic(
        topic_id=stage.image().topic_ids["t"],
        partitions=[
            FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=limit)
            for index, at in offsets.items()
        ],
    )
    options: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    request = FetchRequest(topics=[topic] if offsets else [], **options)
    response = await stage.ask(broker, request)
    assert isinstance(response, FetchResponse)
    return response


def told(response: FetchResponse) -> dict[int, PartitionData]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def values(data: PartitionData) -> list[bytes]:
    found = [
        record
        for position, _ in headers(data.records or b"")
        for record in records(data.records or b"", position)
    ]
    return [record.value or b"" for record in found]


def code(response: FetchResponse) -> ErrorCode:
    return ErrorCode(response.error_code)


@staged()
async def test_j_01_sessions_are_kept_apart_by_id_and_epoch(stage: Stage) -> None:
    """Given a fetch session; when a fetch names an unknown id, a wrong epoch, epoch 0 with an id,
    or epoch -1; then the errors are Kafka's, and the session lives or ends accordingly.
    """
    await stage.create_topic("t", [[1, 2, 3]])
    opened = await fetch(stage, 1, 0, session_epoch=0)
    session = opened.session_id
    assert session > 0
    unknown = await fetch(stage, 1, {}, session_id=session + 1, session_epoch=1)
    assert code(unknown) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    wrong = await fetch(stage, 1, {}, session_id=session, session_epoch=5)
    assert code(wrong) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    lives = await fetch(stage, 1, {}, session_id=session, session_epoch=1)
    assert (code(lives), lives.session_id) == (ErrorCode.NONE, session)
    other = await fetch(stage, 1, 0, session_id=session, session_epoch=0)
    assert other.session_id not in (0, session)
    closed = await fetch(stage, 1, {}, session_id=session, session_epoch=2)
    assert code(closed) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    final = await fetch(stage, 1, 0, session_id=other.session_id, session_epoch=FINAL_SESSION_EPOCH)
    assert (code(final), final.session_id) == (ErrorCode.NONE, 0)
    gone = await fetch(stage, 1, {}, session_id=other.session_id, session_epoch=1)
    assert code(gone) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@staged()
async def test_j_02_after_an_error_a_partition_is_told_of_again(stage: Stage) -> None:
    """Given a session in which one partition answered with an error; when it recovers, with no
    other news; then the next incremental response has it.
    """
    await stage.create_topic("t", [[1, 2, 3], [1, 2, 3]])
    session = (await fetch(stage, 1, {0: 0, 1: 0}, session_epoch=0)).session_id
    quiet = await fetch(stage, 1, {}, session_id=session, session_epoch=1)
    assert told(quiet) == {}
    error = await fetch(stage, 1, {0: 3}, session_id=session, session_epoch=2)
    assert told(error)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    again = await fetch(stage, 1, {}, session_id=session, session_epoch=3)
    assert list(told(again)) == [0], "an error is said each time"
    well = await fetch(stage, 1, {0: 0}, session_id=session, session_epoch=4)
    assert list(told(well)) == [0]
    assert told(well)[0].error_code == ErrorCode.NONE
    quiet = await fetch(stage, 1, {}, session_id=session, session_epoch=5)
    assert told(quiet) == {}


@staged()
async def test_j_03_a_repeated_fetch_is_refused_and_loses_no_partition(stage: Stage) -> None:
    """Given a fetch of a session that is sent twice; then the second gets
    INVALID_FETCH_SESSION_EPOCH, and the session goes on with every partition.
    """
    await stage.create_topic("t", [[1, 2, 3], [1, 2, 3]])
    session = (await fetch(stage, 1, {0: 0, 1: 0}, session_epoch=0)).session_id
    waiting = {"session_id": session, "session_epoch": 1, "max_wait_ms": 400}
    first = asyncio.ensure_future(fetch(stage, 1, {}, **waiting))
    await stage.sleep(0.1)
    second = await fetch(stage, 1, {}, **waiting)
    assert code(second) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code(await first) is ErrorCode.NONE
    await stage.send("t", b"a", partition=0)
    await stage.send("t", b"b", partition=1)
    found = told(await fetch(stage, 1, {}, session_id=session, session_epoch=2))
    assert {index: values(data) for index, data in found.items()} == {0: [b"a"], 1: [b"b"]}


async def racked(stage: Stage) -> None:
    """Brokers 1, 2, 3 stand in racks a, b, c."""
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "c")):
        stage.daemon(broker_id).properties["broker.rack"] = rack
    await stage.begin()
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})


async def reader(stage: Stage, **settings: Any) -> tuple[Client, Consumer]:
    client, consumer = await stage.consumer(client_rack="c", **settings)
    client.now(consumer.assign, [T0])
    client.now(consumer.seek, T0, 0)
    return client, consumer


async def poll(client: Client, consumer: Consumer, number: int) -> list[tuple[int, bytes]]:
    """Poll until so many records have come."""

    async def some() -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        while len(found) < number:
            found += [(r.offset, bytes(r.value or b"")) for r in await consumer.poll(500)]
        return found

    return await client.ask(some)


@staged(broker={**RACKS, "replica.lag.time.max.ms": "2000"}, started=False)
async def test_j_04_a_nearer_replica_is_named_while_it_is_in_sync(stage: Stage) -> None:
    """Given a consumer that the leader sent to broker 3 of its own rack; when that leaves the ISR;
    then the leader names it no more, and the consumer comes back and misses nothing.
    """
    await racked(stage)
    await stage.send("t", b"0", b"1")
    await stage.until(lambda: stage.partition(3, "t").high_watermark == 2, "3 has it")
    named = told(await fetch(stage, 1, 0, rack_id="c"))[0]
    assert (named.preferred_read_replica, values(named)) == (3, [])
    for rack in ("a", "", "elsewhere"):
        assert told(await fetch(stage, 1, 0, rack_id=rack))[0].preferred_read_replica == -1
    assert values(told(await fetch(stage, 3, 0, rack_id="c"))[0]) == [b"0", b"1"]
    client, consumer = await reader(stage, metadata_max_age_ms=3_000)
    assert await poll(client, consumer, 2) == [(0, b"0"), (1, b"1")]
    stage.cut(client.process.name, 1, 2)
    await stage.send("t", b"2")
    assert await poll(client, consumer, 1) == [(2, b"2")], "it reads from 3 alone"
    stage.heal()
    stage.cut(3, 1, 2)
    sending = asyncio.ensure_future(stage.send("t", b"3"))
    await stage.until(lambda: stage.state("t").isr == (1, 2), "3 leaves the ISR", 30)
    await sending
    assert told(await fetch(stage, 1, 0, rack_id="c"))[0].preferred_read_replica == -1
    assert await poll(client, consumer, 1) == [(3, b"3")]
    stage.heal()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "3 returns", 30)
    await stage.send("t", b"4")
    assert await poll(client, consumer, 1) == [(4, b"4")]


def start_of(stage: Stage, broker_id: int) -> int:
    return stage.partition(broker_id, "t").log_start_offset


async def retired_by_3(stage: Stage) -> None:
    """Broker 3 has smaller segments than the others, and so retires more than they do, after them.

    No record comes after that.
    """
    stage.daemon(3).properties["log.retention.check.interval.ms"] = "5000"
    await racked(stage)
    await stage.alter_configs("t", {"segment.bytes": "4000"})
    for number in range(12):
        await stage.send("t", b"%d" % number * 900)
        stage.partition(3, "t").log.roll()
    await stage.until(lambda: stage.partition(3, "t").high_watermark == 12, "3 has it")
    await stage.alter_configs("t", {"retention.bytes": "3000"})
    await stage.until(lambda: start_of(stage, 1) > 0 < start_of(stage, 2), "1 and 2 retire")
    assert start_of(stage, 1) == start_of(stage, 2)
    await stage.until(lambda: start_of(stage, 3) > start_of(stage, 1), "3 retires more")


RETIRING = {**RACKS, "log.retention.check.interval.ms": "300"}


@staged(broker=RETIRING, started=False)
async def test_j_04_a_follower_is_not_named_for_what_it_has_retired(stage: Stage) -> None:
    """Given a follower that retired more than its leader, and no record since; then the leader is
    told where its log begins, and a consumer in its rack reads what only the leader has.
    """
    await retired_by_3(stage)
    first = start_of(stage, 1)
    leader = stage.partition(1, "t").leader
    assert leader is not None
    progress = leader.followers[3]
    await stage.until(lambda: progress.log_start_offset == start_of(stage, 3), "1 is told", 1)
    assert told(await fetch(stage, 1, first, rack_id="c"))[0].preferred_read_replica == -1
    assert told(await fetch(stage, 1, 11, rack_id="c"))[0].preferred_read_replica == 3
    client, consumer = await reader(stage)
    client.now(consumer.seek, T0, first)
    assert [offset for offset, _ in await poll(client, consumer, 12 - first)] == [*range(first, 12)]


@staged(broker=RETIRING, started=False)
async def test_j_04_what_a_nearer_replica_refused_is_had_from_the_leader(stage: Stage) -> None:
    """Given a leader that cannot hear how much a follower has retired, and goes on naming it; when
    that one refuses an offset; then the consumer has it from the leader, and goes to it once.
    """
    await retired_by_3(stage)
    leader = stage.partition(1, "t").leader
    assert leader is not None
    first = start_of(stage, 1)
    stage.cut(3, 1)
    leader.followers[3].log_start_offset = first
    refused: list[int] = []
    fetched = Partition.fetch

    def watched(self: Partition, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        answer = fetched(self, spec, now_ms)
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            refused.append(spec.fetch_offset)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Partition, "fetch", watched)
        client, consumer = await reader(stage)
        client.now(consumer.seek, T0, first)
        found = await poll(client, consumer, 12 - first)
    assert [offset for offset, _ in found] == [*range(first, 12)]
    assert refused == [first]


@staged(broker=RACKS, started=False)
async def test_j_04_a_consumer_comes_back_from_a_replica_that_is_gone(stage: Stage) -> None:
    """Given a consumer that reads from a follower; when that one dies; then the consumer goes on
    with the leader, long before it would have asked it again anyway.
    """
    await racked(stage)
    await stage.send("t", b"0")
    client, consumer = await reader(stage, metadata_max_age_ms=200_000)
    assert await poll(client, consumer, 1) == [(0, b"0")]
    stage.cut(client.process.name, 1, 2)
    await stage.send("t", b"1")
    assert await poll(client, consumer, 1) == [(1, b"1")], "it reads from 3 alone"
    stage.heal()
    begun = stage.now
    stage.kill(3)
    await stage.send("t", b"2")
    assert await poll(client, consumer, 1) == [(2, b"2")]
    assert stage.now - begun < 30


@staged(broker=RACKS, started=False)
async def test_j_05_what_a_follower_may_not_give_yet_is_no_reason_to_reset(stage: Stage) -> None:
    """Given a follower that holds more than it knows to be committed; when a consumer asks it for
    an offset in between; then it waits, and is not told that the offset is out of range.
    """
    await racked(stage)
    await stage.send("t", b"0")
    client, consumer = await reader(stage, auto_offset_reset="none")
    assert await poll(client, consumer, 1) == [(0, b"0")]
    stage.pause(2)  # In the ISR: without it nothing is committed.
    await stage.send("t", b"1", acks="1")
    replica = stage.partition(3, "t")
    await stage.until(lambda: replica.log_end_offset == 2, "3 has it")
    assert replica.high_watermark == 1
    for offset in (1, 2):
        between = told(await fetch(stage, 3, offset))[0]
        assert (between.error_code, between.records or b"") == (ErrorCode.NONE, b"")
    beyond = told(await fetch(stage, 3, 3))[0]
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    stage.resume(2)
    assert await poll(client, consumer, 1) == [(1, b"1")]


@staged(brokers=3, controllers=3, seed=6)
async def test_j_06_a_consumer_sees_every_offset_once_and_in_order(stage: Stage) -> None:
    """Given a consumer that polls while brokers and controllers are killed, stopped and cut off;
    then the offsets that it gets grow strictly, none is left out and none comes twice.
    """
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    producer = await stage.producer(delivery_timeout_ms=60_000)
    client, consumer = await stage.consumer()
    client.now(consumer.assign, [T0])
    client.now(consumer.seek, T0, 0)
    seen: list[tuple[int, bytes]] = []
    is_over = False

    async def follow() -> None:
        while not is_over:
            for record in await consumer.poll(200):
                seen.append((record.offset, bytes(record.value or b"")))

    polling = asyncio.ensure_future(client.ask(follow))
    numbers = count()
    acks = []
    rng = stage.world.rng("story")
    for _ in range(8):
        victim = rng.choice(list(stage.cluster.daemons))
        how = rng.choice(("kill", "pause", "isolate"))
        getattr(stage, how)(victim)
        for _ in range(10):
            acks.append(producer.send("t", b"%d" % next(numbers)))
            await stage.sleep(0.2)
        if how == "kill":
            stage.start(victim)
        elif how == "pause":
            stage.resume(victim)
        else:
            stage.heal()
        await stage.ready(victim)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR", 40)
    offsets = [(await ack).offset for ack in acks]
    await stage.until(lambda: len(seen) >= len(acks), "the consumer has all of it", 30)
    is_over = True
    await polling
    assert seen == [(offset, b"%d" % number) for number, offset in enumerate(offsets)]
    assert offsets == list(range(len(offsets)))


@staged()
async def test_j_07_one_batch_is_given_however_small_the_limits(stage: Stage) -> None:
    """Given limits of bytes that are smaller than a batch, for a partition or for all; then the
    first batch comes whole, and no more than that.
    """
    await stage.create_topic("t", [[1, 2, 3], [1, 2, 3]])
    for index in (0, 1):
        await stage.send("t", b"x" * 1000, b"y" * 1000, partition=index)
    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"max_bytes": 0}):
        found = told(await fetch(stage, 1, {0: 0, 1: 0}, **limits))
        assert values(found[0]) == [b"x" * 1000]
        if "max_bytes" in limits:
            assert not found[1].records


@staged(broker=RACKS, started=False)
async def test_j_08_what_is_acknowledged_is_there_for_whoever_asks(stage: Stage) -> None:
    """Given a record acknowledged at an offset; when somebody new asks for that offset, of the
    leader, of a follower, or of whom the leader names; then they get that record.
    """
    await racked(stage)
    for number in range(10):
        (offset,) = await stage.send("t", b"%d" % number)
        assert offset == number
        expected = [b"%d" % number]
        assert values(told(await fetch(stage, 1, offset))[0]) == expected, "the leader, at once"
        named = told(await fetch(stage, 1, offset, rack_id="c"))[0].preferred_read_replica
        assert named == 3
        for broker in (2, named):
            # It may not know yet that this is committed: then it waits for that.
            found = told(await fetch(stage, broker, offset, max_wait_ms=2_000))[0]
            assert values(found) == expected
        assert await stage.read("t", offset=offset) == expected
