"""Scenarios R: records that expire, which consumers do not get any more."""

import asyncio
from collections.abc import Sequence

import pytest

from minikafka.client.errors import AdminError, DeliveryFailed
from minikafka.client.producer.producer import Producer
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import DELAY_MS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.expiry import EXPIRES_AT, TTL_MS
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Client, Stage, staged
from .delay_stage import MIN_ISR, delay_topic, headers_of, in_target, until_idle

AFTER_2_S = {**MIN_ISR, "minikafka.ttl.ms": "2000"}
BY_HEADER = {**MIN_ISR, "minikafka.ttl.enable": "true"}
Sent = tuple[bytes, dict[str, bytes]]


async def send(
    stage: Stage, topic: str, sent: Sequence[Sent], *, linger_ms: int = 0, codec: str = "none"
) -> Client:
    """Send values with headers; with a linger they are one batch."""
    client = await stage.client()

    async def ask() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap,
            runtime=client.runtime,
            linger_ms=linger_ms,
            compression_type=codec,
        ) as producer:
            waiting = [
                producer.send(topic, value, key=b"k", headers=list(said.items()))
                for value, said in sent
            ]
            for each in waiting:
                await each

    await client.ask(ask)
    return client


async def values(stage: Stage, topic: str) -> list[bytes | None]:
    return [record.value for record in await in_target(stage, topic=topic)]


async def position_at_end(stage: Stage, topic: str) -> int:
    """Read all of a topic by a consumer that reads committed records; return its position."""
    client, consumer = await stage.consumer(isolation_level="read_committed")
    there = TopicPartition(topic, 0)

    async def ask() -> int:
        end = (await consumer.end_offsets([there]))[there]
        consumer.assign([there])
        consumer.seek(there, 0)
        found: list[ConsumerRecord] = []
        while await consumer.position(there) < end:
            found.extend(await consumer.poll(timeout_ms=500))
        assert not found
        place = await consumer.position(there)
        await consumer.close()
        return place

    return await client.ask(ask)


@staged()
async def test_r_40_a_consumer_reads_on_past_what_has_expired(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=AFTER_2_S)
    await stage.send("t", *[b"old%d" % n for n in range(20)])
    assert len(await values(stage, "t")) == 20
    await stage.sleep(3)
    assert await position_at_end(stage, "t") == 20
    await stage.send("t", b"new")
    assert await values(stage, "t") == [b"new"]
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader > 1, "another leader", 30)
    assert await values(stage, "t") in ([b"new"], [])


@staged()
async def test_r_40_an_aborted_transaction_stays_hidden_beside_what_has_expired(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=AFTER_2_S)
    client = await stage.client()

    async def ask() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap,
            runtime=client.runtime,
            transactional_id="x",
        ) as producer:
            for number in range(6):
                await producer.begin_transaction()
                producer.send("t", b"%d" % number)
                if number % 2:
                    await producer.commit_transaction()
                else:
                    await producer.flush()
                    await producer.abort_transaction()
                if number == 2:
                    await asyncio.sleep(3)

    await client.ask(ask)
    assert await values(stage, "t") == [b"3", b"5"]


@staged()
async def test_r_41_records_say_when_they_expire(stage: Stage) -> None:
    await stage.create_topic("whole", [[1, 2, 3]], configs=BY_HEADER)
    strict = {**BY_HEADER, "minikafka.ttl.strict": "true", "minikafka.ttl.ms": "60000"}
    await stage.create_topic("strict", [[1, 2, 3]], configs=strict)
    sent: list[Sent] = [
        (b"soon", {TTL_MS: b"2000"}),
        (b"topic", {}),
        (b"never", {TTL_MS: b"never"}),
    ]
    for topic in ("whole", "strict"):
        await send(stage, topic, sent, linger_ms=50, codec="lz4")
        assert await values(stage, topic) == [b"soon", b"topic", b"never"]
    assert len(stage.log(1, "strict")) == 1
    await stage.sleep(3)
    assert await values(stage, "whole") == [b"soon", b"topic", b"never"]
    found = await in_target(stage, topic="strict")
    assert [(each.offset, each.value) for each in found] == [(1, b"topic"), (2, b"never")]
    await stage.sleep(60)
    assert await values(stage, "strict") == [b"never"]


@staged()
async def test_r_41_times_that_say_nothing_are_refused(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=BY_HEADER)
    for said in ({TTL_MS: b"abc"}, {EXPIRES_AT: b"-1"}, {TTL_MS: b"1", EXPIRES_AT: b"1"}):
        for codec in ("none", "gzip"):
            with pytest.raises(DeliveryFailed) as refused:
                await send(stage, "t", [(b"v", said)], codec=codec)
            assert refused.value.error.code is ErrorCode.INVALID_RECORD
    assert stage.partition(1, "t").log_end_offset == 0


@staged()
async def test_r_44_replicas_stay_equal_whatever_has_expired(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=AFTER_2_S)
    stage.kill(3)
    await stage.send("t", *[b"%d" % n for n in range(10)])
    await stage.sleep(3)
    assert await position_at_end(stage, "t") == 10
    stage.start(3)
    await stage.until(lambda: 3 in stage.state("t").isr, "broker 3 in sync", 30)
    logs = [stage.log(who, "t") for who in (1, 2, 3)]
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == 10


@staged()
async def test_r_20_what_expires_before_it_is_forwarded_is_cancelled_or_buried(
    stage: Stage,
) -> None:
    await stage.create_topic("dead", 1)
    buries = {"minikafka.delay.paused": "true", "minikafka.deadletter.topic": "dead"}
    await delay_topic(stage, buries)
    delay = {DELAY_MS: b"100"}
    sent: list[Sent] = [
        (b"gone", {**delay, TTL_MS: b"1000"}),
        (b"at", {EXPIRES_AT: b"5"}),
        (b"long", {**delay, TTL_MS: b"60000"}),
        (b"ever", delay),
        (b"hurried", {DELAY_MS: b"60000", TTL_MS: b"1000"}),
    ]
    await send(stage, "later", sent)
    await stage.sleep(3)
    there = TopicPartition("later", 0)
    await stage.admin(lambda admin: admin.reschedule_delayed({there: {4: None}}))
    await stage.alter_configs("later", {"minikafka.delay.paused": "false"})
    await until_idle(stage)
    assert await stage.read("now") == [b"hurried", b"long", b"ever"]
    assert await stage.read("dead") == []
    await stage.alter_configs("later", {"minikafka.delay.deadletter.on.expiry": "true"})
    await send(stage, "later", [(b"late", {EXPIRES_AT: b"5"})])
    await until_idle(stage)
    (letter,) = await in_target(stage, topic="dead")
    said = headers_of(letter)
    assert (letter.value, said["__dlq.errors.offset"]) == (b"late", b"%d" % letter_offset(said))
    assert (said["__dlq.errors.message"] or b"").startswith(b"EXPIRED: ")


def letter_offset(said: dict[str, bytes | None]) -> int:
    return int((said["minikafka-source"] or b"").rpartition(b"/")[2])


@staged()
async def test_r_41_neither_delay_topics_nor_internal_ones_expire(stage: Stage) -> None:
    await delay_topic(stage)
    await stage.create_topic("__consumer_offsets", 1)
    for topic in ("later", "__consumer_offsets"):
        for key, value in (("minikafka.ttl.ms", "5"), ("minikafka.ttl.enable", "true")):
            with pytest.raises(AdminError, match="INVALID_CONFIG"):
                await stage.alter_configs(topic, {key: value})
