"""Scenarios R: what happens to the logs of delay topics while records wait and are forwarded.

They are cleaned, deleted from, moved to other brokers, compressed, and stop being delay topics.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial

import pytest

from minikafka.client.producer.producer import Producer
from minikafka.protocol.delays import DELAY_MS, DUE, HOPS, SOURCE
from minikafka.protocol.partitioning import partition_for_key
from minikafka.protocol.records.batch_header import crc_is_valid, headers
from minikafka.protocol.records.records import records
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Stage, staged
from ..simulation.truth import segments_of
from .delay_stage import (
    FIXED_100,
    MIN_ISR,
    at_once,
    delay_topic,
    headers_of,
    in_target,
    park,
    planned_once,
    source_of,
    steps_of,
    until_idle,
)

HERE = TopicPartition("later", 0)
CLEANS = {
    "log.cleaner.backoff.ms": "500",
    "log.flush.scheduler.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
}
SMALL = {"segment.bytes": "4000", "minikafka.delay.keep.ms": "500", "flush.ms": "500"}


async def arrived(stage: Stage, topic: str = "now") -> list[bytes | None]:
    return [record.value for record in await in_target(stage, topic=topic)]


@staged()
async def test_r_15_a_transaction_that_is_open_over_a_failover_counts_as_it_is_decided(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    client = await stage.client()

    async def transact(value: bytes, is_kept: bool) -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap,
            runtime=client.runtime,
            transactional_id=value.decode(),
            request_timeout_ms=2_000,
        ) as producer:
            await producer.begin_transaction()
            await producer.send("later", value, headers=[(DELAY_MS, b"10")])
            leader = stage.state("later").leader
            stage.kill(leader)
            await stage.until(lambda: stage.state("later").leader not in (-1, leader), "another")
            stage.start(leader)
            await stage.sleep(1)
            assert value not in await arrived(stage)
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())

    for value, is_kept in ((b"no", False), (b"yes", True)):
        await client.ask(partial(transact, value, is_kept))
        await stage.until(lambda: len(stage.state("later").isr) == 3, "in sync", 30)
    now = stage.partition(stage.state("now").leader, "now")
    await stage.until(lambda: now.high_watermark == 1, "the marker is written, and it is due")
    await until_idle(stage)
    assert await arrived(stage) == [b"yes"]


def is_clean(stage: Stage, who: int, left: int) -> bool:
    """Return whether the log but for its newest segment has only so many records left."""
    *older, _ = segments_of(stage.daemon(who), stage.partition(who, "later").key, "later-0")
    batches = [(data, *found) for data in older for found in headers(data)]
    plain = [records(data, at) for data, at, header in batches if not header.is_control]
    return bool(older or not left) and sum(map(len, plain)) == left


async def missed_cleaning(stage: Stage, *long: tuple[bytes, int]) -> None:
    """Clean while broker 3 is away, which has the records and not their end; then let it lead."""
    stage.invariants.compacted["later"] = None
    await stage.create_topic("now", [[2, 3, 1]], configs=MIN_ISR)
    configs = {**MIN_ISR, **SMALL, "minikafka.delay.target": "now"}
    await stage.create_topic("later", [[1, 3, 2]], configs=configs)
    short = [(b"%d" % number, 4_000 + number) for number in range(200)]
    await park(stage, *long, *short)
    old = stage.partition(3, "later")
    end = len(long) + len(short)
    await stage.until(lambda: old.high_watermark == end, "broker 3 has all", 3)
    stage.kill(3)
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == len(short), "they are forwarded", 30)
    # Into segments of their own, so that those with the steps are complete.
    more = [(b"more-%d" % number, 0) for number in range(100)]
    await park(stage, *more)
    for who in (1, 2):
        await stage.until(partial(is_clean, stage, who, len(long)), "all of it is cleaned", 90)
        assert (stage.partition(who, "later").log_start_offset > end) is not bool(long)
    stage.start(3)
    await stage.until(lambda: 3 in stage.state("later").isr, "broker 3 is in sync", 30)
    await stage.until(lambda: 3 in stage.state("now").isr, "broker 3 is in sync", 30)
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader == 3, "it leads", 30)
    await until_idle(stage, 150)
    found = [record.value or b"" for record in await in_target(stage)]
    assert sorted(found) == sorted(value for value, _ in (*short, *more, *long))


@staged(broker=CLEANS)
async def test_r_23_a_follower_that_missed_the_cleaning_doubles_nothing_when_it_leads(
    stage: Stage,
) -> None:
    """A record that waits keeps the log's start; the log's steps tell what is over."""
    await missed_cleaning(stage, (b"long", 60_000))


@staged(broker=CLEANS)
async def test_r_23_a_follower_that_missed_the_deletion_begins_anew_and_doubles_nothing(
    stage: Stage,
) -> None:
    await missed_cleaning(stage)


@staged()
async def test_r_24_records_that_are_deleted_while_they_wait_never_come(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 3_000), (b"b", 3_000), (b"c", 3_000))
    await deleted_below(stage, 2)
    source = source_of(stage, 1)
    await stage.until(lambda: source.schedule.state.low == 2, "they are over")
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader == 2, "another leader", 30)
    await until_idle(stage)
    assert await arrived(stage) == [b"c"]


@staged()
async def test_r_24_a_plan_whose_records_are_deleted_before_it_is_sent_never_comes(
    stage: Stage,
) -> None:
    await stage.create_topic("now", [[3]])
    await stage.create_topic(
        "later", [[1, 2]], configs={**MIN_ISR, "minikafka.delay.target": "now"}
    )
    await park(stage, (b"a", 1_000))
    stage.kill(3)
    later = stage.partition(1, "later")
    await stage.until(lambda: later.high_watermark == 2, "its plan")
    await deleted_below(stage, 1)
    stage.start(3)
    await park(stage, (b"b", 0))
    await until_idle(stage)
    assert await arrived(stage) == [b"b"]


@staged()
async def test_r_24_a_plan_whose_records_are_deleted_after_it_was_sent_comes_once(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000))
    later, now = stage.partition(1, "later"), stage.partition(2, "now")
    await at_once(
        stage,
        lambda: now.log_end_offset == 2,
        lambda: stage.block("broker-2", "broker-1"),
        "the append; its answer is lost",
    )
    deleting = asyncio.create_task(deleted_below(stage, end + 1))
    await stage.until(lambda: later.log_start_offset == end + 1, "it is deleted")
    stage.heal()
    await deleting
    await park(stage, (b"b", 0))
    await until_idle(stage)
    assert await arrived(stage) == [b"before", b"a", b"b"]


async def deleted_below(stage: Stage, offset: int) -> None:
    stage.invariants.on_delete_asked(("later", 0), offset)
    await stage.admin(lambda admin: admin.delete_records({HERE: offset}))


@staged()
async def test_r_27_a_plan_keeps_its_partition_though_the_target_grows_before_it_is_sent(
    stage: Stage,
) -> None:
    await delay_topic(stage, targets=3)
    await park(stage, (b"before", 0))
    await until_idle(stage)
    key = next(
        b"%d" % number
        for number in range(100)
        if partition_for_key(b"%d" % number, 3) != partition_for_key(b"%d" % number, 6)
    )
    client = await park(stage, (key, 1_000))
    later = stage.partition(1, "later")
    end = later.log_end_offset
    await at_once(
        stage, lambda: later.high_watermark == end + 1, lambda: stage.pause(1), "the commit"
    )
    await stage.admin(lambda admin: admin.create_partitions({"now": 6}))
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader == 2, "another leader", 30)
    stage.start(1)
    await until_idle(stage)
    await park(stage, (key, 0), client=client)
    await until_idle(stage)
    found = {
        index: [headers_of(each)[SOURCE] for each in await in_target(stage, index)]
        for index in (partition_for_key(key, 3), partition_for_key(key, 6))
    }
    planned = b"later/0/%d" % (end - 1)
    assert found[partition_for_key(key, 3)].count(planned) == 1
    assert planned not in found[partition_for_key(key, 6)]
    assert len(found[partition_for_key(key, 6)]) == 1


@staged()
async def test_r_28_a_record_of_the_greatest_size_stops_no_other(stage: Stage) -> None:
    """Forwarded it is larger: neither its target nor the topic for dead letters takes it."""
    limit = {"max.message.bytes": "2000"}
    await stage.create_topic("dead", [[3, 1, 2]], configs=limit)
    await delay_topic(stage, {**FIXED_100, **limit, "minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("now", limit)
    largest = b"x" * (2_000 - 61 - 9)
    await stage.send("later", largest)
    (batch,) = stage.log(1, "later")
    (data,) = segments_of(stage.daemon(1), stage.partition(1, "later").key, "later-0")
    assert batch.next_offset == 1
    assert 1_995 <= len(data) <= 2_000
    await stage.send("later", b"a", b"b")
    await stage.until(lambda: len(stage.log(2, "now")) >= 2, "a and b", 30)
    await stage.sleep(5)
    assert await arrived(stage) == [b"a", b"b"]
    await stage.alter_configs("dead", {"max.message.bytes": "3000"})
    await until_idle(stage, 120)
    assert (await arrived(stage), await arrived(stage, "dead")) == ([b"a", b"b"], [largest])


@staged(brokers=5)
async def test_r_32_a_source_that_moves_to_other_brokers_goes_on(stage: Stage) -> None:
    await delay_topic(stage, {"minikafka.delay.timestamp": "now"}, targets=3)
    values = [(b"%d" % number, 20 * number) for number in range(400)]
    await park(stage, *values)
    await stage.sleep(2)
    await stage.admin(lambda admin: admin.alter_partition_reassignments({HERE: [4, 5]}))
    await stage.until(lambda: stage.state("later").replicas == (4, 5), "it has moved", 30)
    assert source_of(stage, stage.state("later").leader).pending
    await until_idle(stage)
    found = [record for index in range(3) for record in await in_target(stage, index)]
    assert sorted(each.value or b"" for each in found) == sorted(value for value, _ in values)
    late = [each.timestamp_ms - int(headers_of(each)[DUE] or b"") for each in found]
    assert min(late) >= 0
    assert max(late) < 2_000


@staged()
async def test_r_34_what_is_planned_goes_to_the_old_target_and_the_next_to_the_new(
    stage: Stage,
) -> None:
    await stage.create_topic("other", 1)
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000), (b"b", 6_000))
    later = stage.partition(1, "later")
    await at_once(
        stage,
        lambda: later.high_watermark == end + 3,
        lambda: stage.block("broker-1", "broker-2"),
        "the plan of a; it cannot be sent",
    )
    await stage.alter_configs("later", {"minikafka.delay.target": "other"})
    stage.heal()
    await until_idle(stage)
    assert (await arrived(stage), await arrived(stage, "other")) == ([b"before", b"a"], [b"b"])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_r_36_records_of_compressed_batches_are_forwarded_byte_by_byte(codec: str) -> None:
    @staged()
    async def story(stage: Stage) -> None:
        await delay_topic(stage)
        client = await stage.client()
        dice = random.Random(36)
        values = [dice.randbytes(dice.randrange(300)) + bytes(300) for _ in range(50)]
        now_ms = client.runtime.wall_ms()

        async def send() -> None:
            async with Producer(
                bootstrap_servers=stage.cluster.bootstrap,
                runtime=client.runtime,
                compression_type=codec,
                linger_ms=20,
            ) as producer:
                sent = [
                    producer.send(
                        "later",
                        value,
                        key=value[:7] if number % 2 else None,
                        headers=[("h", value[:9]), ("h", b""), (DELAY_MS, b"%d" % number)],
                        timestamp_ms=now_ms,
                    )
                    for number, value in enumerate(values)
                ]
                for each in sent:
                    await each

        await client.ask(send)
        assert len(stage.log(1, "later")) < len(values)
        await until_idle(stage)
        found = await in_target(stage)
        assert [each.value for each in found] == values
        keys = [value[:7] if number % 2 else None for number, value in enumerate(values)]
        assert [each.key for each in found] == keys
        assert [each.timestamp_ms for each in found] == [now_ms + n for n in range(len(values))]
        assert [each.headers[:2] for each in found] == [
            (("h", value[:9]), ("h", b"")) for value in values
        ]
        assert {*headers_of(found[0])} == {"h", SOURCE, DUE, HOPS}
        for who in (1, 2, 3):
            for data in segments_of(stage.daemon(who), stage.partition(who, "now").key, "now-0"):
                assert all(crc_is_valid(data, at, header) for at, header in headers(data))

    story()


@staged()
async def test_r_39_without_the_setting_it_is_an_ordinary_topic_and_goes_on_with_it_again(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    client = await park(stage, (b"a", 1_000), (b"b", 6_000))
    now = stage.partition(2, "now")
    # Its plan is in the target, and nobody has written that down.
    await at_once(
        stage,
        lambda: now.log_end_offset == 2,
        lambda: stage.block("broker-2", "broker-1"),
        "the append; its answer is lost",
    )
    await set_target(stage, {"minikafka.delay.target": None})
    forwarders = [stage.broker(each).parts.forwarder for each in (1, 2, 3)]
    await stage.until(lambda: not any(each.sources for each in forwarders), "no sources")
    stage.heal()
    wrong = [(b"c", b"no number"), (b"d", b"3600000")]

    async def send() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap, runtime=client.runtime
        ) as producer:
            for value, delay in wrong:
                await producer.send("later", value, headers=[(DELAY_MS, delay)])

    await client.ask(send)
    stage.restart(1)
    await stage.sleep(8)
    assert await stage.read("later") == [b"before", b"a", b"b", b"c", b"d"]
    assert await arrived(stage) == [b"before", b"a"]
    assert steps_of(stage, 2)[end + 2].plans
    await set_target(stage, {"minikafka.delay.target": "now"})
    await stage.until(lambda: now.high_watermark >= 4, "b and c", 30)
    await stage.sleep(3)
    # What says nothing is due at once.
    assert await arrived(stage) == [b"before", b"a", b"c", b"b"]
    waiting = await stage.admin(lambda admin: admin.list_delayed([HERE]))
    assert [each.offset for each in waiting] == [stage.partition(2, "later").log_end_offset - 3]


async def set_target(stage: Stage, settings: Mapping[str, str | None]) -> None:
    await stage.alter_configs("later", settings)
