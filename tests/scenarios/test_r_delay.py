"""Scenarios R: delay topics, whose records the Forwarder moves to their target, exactly once."""

import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from minikafka.broker.forward.steps import Step, encode
from minikafka.broker.forward.taking import READ_BYTES
from minikafka.client.errors import AdminError, DeliveryFailed
from minikafka.client.net.connection import KafkaConnection
from minikafka.client.producer.producer import Producer
from minikafka.protocol.delays import DELAY_MS, DELIVER_AT, DUE, HOPS, SOURCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.partitioning import partition_for_key
from minikafka.protocol.records.batch_header import CONTROL_BIT
from minikafka.protocol.records.records import BatchBuilder
from minikafka.protocol.types import TopicPartition
from minikafka.security.quotas import PENDING
from minikafka.storage.producer_state import FORWARD_EPOCH

from ..simulation.cluster import BROKER_PORT
from ..simulation.stage import Stage, staged
from .delay_stage import (
    FIXED_100,
    MIN_ISR,
    delay_topic,
    headers_of,
    in_target,
    park,
    source_of,
    until_idle,
)

INTERNAL = "__consumer_offsets"
CLEANS = {"log.cleaner.backoff.ms": "500", "log.flush.scheduler.interval.ms": "500"}
BY_KEY = {"minikafka.delay.replace": "key"}


@staged()
async def test_r_01_a_record_comes_once_it_is_due(stage: Stage) -> None:
    await delay_topic(stage)
    client = await park(stage, (b"b", 2_000), (b"a", 1_000))
    parked_at = client.runtime.wall_ms()
    await park(stage, (b"c", 3_000), header=DELIVER_AT, client=client)
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == 1, "a", 5)
    assert 0 <= client.runtime.wall_ms() - parked_at - 1_000 < 250
    await until_idle(stage)
    found = await in_target(stage)
    assert [record.value for record in found] == [b"a", b"b", b"c"]
    said = headers_of(found[0])
    assert said[SOURCE] == b"later/0/1"
    assert int(said[DUE] or b"") == found[0].timestamp_ms
    assert (said[HOPS], DELAY_MS in said) == (b"1", False)


@staged()
async def test_r_01_by_timestamp_and_after_a_fixed_time(stage: Stage) -> None:
    await delay_topic(stage, FIXED_100)
    await stage.send("later", b"x")
    await until_idle(stage)
    await stage.alter_configs("later", {"minikafka.delay.by": "timestamp"})
    await stage.send("later", b"y")
    await until_idle(stage)
    assert await stage.read("now") == [b"x", b"y"]


@staged()
async def test_r_02_times_that_say_nothing_are_refused(stage: Stage) -> None:
    await delay_topic(stage)
    client = await stage.client()
    month = 31 * 24 * 3_600_000
    wrong: list[tuple[list[tuple[str, bytes]], ErrorCode]] = [
        ([(DELAY_MS, b"abc")], ErrorCode.INVALID_RECORD),
        ([(DELAY_MS, b"-1")], ErrorCode.INVALID_RECORD),
        ([(DELAY_MS, b"5"), (DELIVER_AT, b"5")], ErrorCode.INVALID_RECORD),
        ([(DELAY_MS, b"%d" % month)], ErrorCode.INVALID_TIMESTAMP),
    ]

    async def send(headers: list[tuple[str, bytes]], codec: str) -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(
            bootstrap_servers=bootstrap, runtime=client.runtime, compression_type=codec
        ) as producer:
            await producer.send("later", b"v", headers=headers)

    for headers, code in wrong:
        for codec in ("none", "gzip"):
            with pytest.raises(DeliveryFailed) as refused:
                await client.ask(partial(send, headers, codec))
            assert refused.value.error.code is code
    assert stage.partition(1, "later").log_end_offset == 0
    await client.ask(lambda: send([(DELIVER_AT, b"5")], "none"))
    await client.ask(lambda: send([], "gzip"))
    await until_idle(stage)
    assert await stage.read("now") == [b"v", b"v"]


@staged()
async def test_r_03_the_targets_order_is_that_of_times_and_offsets(stage: Stage) -> None:
    await delay_topic(stage, targets=3)
    dice = random.Random(3)
    parked = [(b"%d" % number, dice.randrange(500, 3_000)) for number in range(1_000)]
    await park(stage, *parked)
    await until_idle(stage)
    count = 0
    for index in range(3):
        found = await in_target(stage, index)
        order = [
            (int(said[DUE] or b""), int((said[SOURCE] or b"").rpartition(b"/")[2]))
            for said in map(headers_of, found)
        ]
        assert order == sorted(order)
        count += len(found)
    assert count == 1_000


async def killed_on_the_way(stage: Stage, dice: random.Random) -> Sequence[bytes]:
    """Park records while brokers are killed and stopped; return the values that were parked."""
    await delay_topic(stage, targets=3)
    sent: list[bytes] = []
    for turn in range(6):
        values = [(b"%d.%d" % (turn, each), dice.randrange(4_000)) for each in range(20)]
        await park(stage, *values)
        sent.extend(value for value, _ in values)
        await stage.sleep(dice.random())
        victim = dice.choice((stage.state("later").leader, stage.state("now").leader, 3))
        if victim > 0 and stage.daemon(victim).alive:
            stage.kill(victim)
            await stage.sleep(dice.random() * 2)
            stage.start(victim)
            await stage.ready(victim)
            await stage.until(lambda: len(stage.state("later").isr) == 3, "full ISR", 30)
            await stage.until(lambda: len(stage.state("now").isr) == 3, "full ISR", 30)
    return sent


@pytest.mark.parametrize("seed", range(6))
def test_r_04_to_08_each_record_once_though_leaders_are_killed(seed: int) -> None:
    @staged(seed=seed)
    async def story(stage: Stage) -> None:
        sent = await killed_on_the_way(stage, random.Random(seed))
        await until_idle(stage)
        found = [record for index in range(3) for record in await in_target(stage, index)]
        assert sorted(record.value or b"" for record in found) == sorted(sent)

    story()


@staged()
async def test_r_09_an_unclean_election_of_the_source_loses_no_record_that_is_left(
    stage: Stage,
) -> None:
    """The new leader knows nothing of a plan that was sent, and plans the record once more."""
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await stage.create_topic("now", [[2]], configs={"min.insync.replicas": "1"})
    configs = {**unclean, "minikafka.delay.target": "now"}
    await stage.create_topic("later", [[1, 3]], configs=configs)
    await park(stage, (b"a", 2_000), (b"b", 2_500))
    await stage.until(lambda: stage.partition(3, "later").high_watermark == 2, "replicated")
    stage.kill(3)
    await stage.until(lambda: stage.state("later").isr == (1,), "broker 1 is alone")
    await until_idle(stage)
    stage.kill(1)
    stage.start(3)
    await stage.until(lambda: stage.state("later").leader == 3, "an unclean leader", 30)
    await until_idle(stage)
    found = await in_target(stage)
    # At least once: each copy names the same record of the source.
    assert [record.value for record in found] == [b"a", b"b"] * 2
    assert [headers_of(record)[SOURCE] for record in found] == [b"later/0/0", b"later/0/1"] * 2


@staged()
async def test_r_11_an_unclean_election_of_the_target_does_not_stop_later_records(
    stage: Stage,
) -> None:
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await stage.create_topic("now", [[2, 3]], configs=unclean)
    await stage.create_topic("later", [[1]], configs={"minikafka.delay.target": "now", **unclean})
    await park(stage, (b"a", 0))
    await until_idle(stage)
    stage.kill(3)
    await stage.until(lambda: stage.state("now").isr == (2,), "broker 2 is alone")
    await park(stage, (b"lost", 0))
    await until_idle(stage)
    stage.kill(2)
    stage.start(3)
    await stage.until(lambda: stage.state("now").leader == 3, "an unclean leader", 30)
    await park(stage, (b"b", 0), (b"c", 100))
    await until_idle(stage)
    assert await stage.read("now") == [b"a", b"b", b"c"]


@staged()
async def test_r_12_a_record_its_target_refuses_is_a_dead_letter_and_nothing_else(
    stage: Stage,
) -> None:
    await stage.create_topic("dead", 1)
    await delay_topic(stage, {"minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    await park(stage, (b"a", 100), (b"x" * 600, 100), (b"b", 100))
    await until_idle(stage)
    assert await stage.read("now") == [b"a", b"b"]
    (dead,) = await in_target(stage, topic="dead")
    said = headers_of(dead)
    assert said["__dlq.errors.topic"] == b"later"
    assert said["__dlq.errors.offset"] == b"1"
    assert (said["__dlq.errors.message"] or b"").startswith(b"MESSAGE_TOO_LARGE")
    # The plan that was given up is fenced: it cannot be appended any more, whatever the limit.
    known = stage.partition(2, "now").log.producers
    ids = [each for each in range(10_000) if known.known(each) is not None]
    epochs = [producer.epoch for each in ids if (producer := known.known(each)) is not None]
    assert FORWARD_EPOCH + 1 in epochs


@staged()
async def test_r_28_a_record_that_does_not_fit_stops_no_other(stage: Stage) -> None:
    """Without a topic for dead letters it is tried until its target takes it."""
    await delay_topic(stage)
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    await park(stage, (b"x" * 600, 100), (b"a", 100))
    await stage.until(lambda: stage.partition(2, "now").high_watermark >= 2, "a, and a marker")
    await park(stage, (b"b", 100))
    await stage.sleep(2)
    assert await stage.read("now") == [b"a", b"b"]
    await stage.alter_configs("now", {"max.message.bytes": "5000"})
    await until_idle(stage, 120)
    assert await stage.read("now") == [b"a", b"b", b"x" * 600]


@staged()
async def test_r_28_large_records_are_read_and_forwarded_a_few_at_a_time(stage: Stage) -> None:
    await delay_topic(stage, targets=3)
    large = [b"%02d" % number + bytes(400_000) for number in range(24)]
    await park(stage, *((value, 500 - number) for number, value in enumerate(large)))
    await until_idle(stage)
    steps = [batch for batch in stage.log(1, "later") if batch.attributes & CONTROL_BIT]
    # Of each record the key is as large as the value.
    assert len(steps) >= 2 * sum(map(len, large)) // READ_BYTES
    found = [record for index in range(3) for record in await in_target(stage, index)]
    assert sorted(record.value or b"" for record in found) == large


@staged()
async def test_r_13_a_target_that_does_not_commit_holds_only_its_own_records(stage: Stage) -> None:
    await stage.create_topic("now", [[2, 3], [1, 2]], configs={"min.insync.replicas": "2"})
    await stage.create_topic("later", [[1]], configs={"minikafka.delay.target": "now"})
    stage.kill(3)
    keys = [b"%d" % each for each in range(20)]
    here = [key for key in keys if partition_for_key(key, 2) == 1]
    await park(stage, *[(key, 10) for key in keys])
    await stage.until(lambda: stage.partition(1, "now", 1).high_watermark == len(here), "those")
    assert stage.partition(2, "now").high_watermark == 0
    stage.start(3)
    await until_idle(stage)
    both = [record.value or b"" for index in (0, 1) for record in await in_target(stage, index)]
    assert sorted(both) == sorted(keys)


@staged()
async def test_r_15_only_committed_records_are_forwarded(stage: Stage) -> None:
    await delay_topic(stage)
    client = await stage.client()

    async def transact() -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(
            bootstrap_servers=bootstrap, runtime=client.runtime, transactional_id="t"
        ) as producer:
            for value, commits in ((b"no", False), (b"yes", True)):
                await producer.begin_transaction()
                await producer.send("later", value, headers=[(DELAY_MS, b"10")])
                await stage.sleep(1)
                if commits:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    await client.ask(transact)
    await until_idle(stage)
    assert await stage.read("now") == [b"yes"]


@staged()
async def test_r_15_a_record_of_an_open_transaction_waits_though_it_is_made_due(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    client = await stage.client()

    async def transact() -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(
            bootstrap_servers=bootstrap, runtime=client.runtime, transactional_id="t"
        ) as producer:
            for value in (b"aborted", b"committed"):
                await producer.begin_transaction()
                sent = await producer.send("later", value, headers=[(DELAY_MS, b"3600000")])
                there = {TopicPartition("later", 0): {sent.offset: None}}
                await stage.admin(lambda admin, at=there: admin.reschedule_delayed(at))  # type: ignore[misc]
                await stage.sleep(1)
                assert await stage.read("now") == []
                if value == b"committed":
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    await client.ask(transact)
    await until_idle(stage)
    assert await stage.read("now") == [b"committed"]


@staged()
async def test_r_19_a_leader_whose_clock_is_set_back_is_late_and_never_early(stage: Stage) -> None:
    await delay_topic(stage)
    stage.skew(1, -3_600_000)
    await park(stage, (b"a", 1_000))
    await stage.sleep(10)
    assert await stage.read("now") == []
    stage.skew(1, 3_600_000)
    await until_idle(stage, 120)
    assert await stage.read("now") == [b"a"]


@staged(seconds=3_000)
async def test_r_21_what_waits_outlives_retention_and_what_is_forwarded_does_not(
    stage: Stage,
) -> None:
    settings = {
        "retention.ms": "1000",
        "retention.bytes": "1",
        "segment.bytes": "300",
        "minikafka.delay.keep.ms": "1000",
    }
    await delay_topic(stage, settings)
    await park(stage, *[(b"%d" % each, 100) for each in range(20)])
    await park(stage, (b"last", 1_200_000), *[(b"%d" % each, 100) for each in range(20, 40)])
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == 40, "all but one", 30)
    later = stage.partition(1, "later")
    await stage.until(lambda: later.log_start_offset > 0, "retention", 700)
    assert later.log_start_offset <= 20
    await until_idle(stage, 1_500)
    assert (await stage.read("now"))[-1] == b"last"
    await stage.until(lambda: later.log_start_offset > 20, "retention", 700)


@staged()
async def test_r_25_a_target_that_is_deleted_and_made_again_gets_what_was_not_planned(
    stage: Stage,
) -> None:
    await delay_topic(stage, {"minikafka.delay.undeliverable.ms": "60000"})
    await park(stage, (b"a", 2_000))
    await stage.delete_topic("now")
    await stage.sleep(4)
    await stage.create_topic("now", 1)
    await until_idle(stage)
    assert await stage.read("now") == [b"a"]


@staged()
async def test_r_25_without_its_target_a_record_is_a_dead_letter_in_time(stage: Stage) -> None:
    await stage.create_topic("dead", 1)
    settings = {
        "minikafka.delay.undeliverable.ms": "3000",
        "minikafka.deadletter.topic": "dead",
    }
    await delay_topic(stage, settings)
    await park(stage, (b"a", 1_000))
    await stage.delete_topic("now")
    await until_idle(stage)
    (dead,) = await in_target(stage, topic="dead")
    message = headers_of(dead)["__dlq.errors.message"] or b""
    assert message.startswith(b"UNKNOWN_TOPIC_OR_PARTITION")


@staged()
async def test_r_26_a_source_that_is_deleted_leaves_nothing_behind(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, *[(b"%d" % each, 500) for each in range(100)])
    await stage.delete_topic("later")
    forwarders = [stage.broker(each).parts.forwarder for each in (1, 2, 3)]
    await stage.until(lambda: not any(each.sources for each in forwarders), "no sources")
    await delay_topic_again(stage)
    await park(stage, (b"new", 100))
    await until_idle(stage)
    assert (await stage.read("now"))[-1] == b"new"


@staged()
async def test_r_26_a_source_that_is_deleted_while_its_plan_waits_for_another_fails_no_disk(
    stage: Stage,
) -> None:
    """Both plans go over one lane, in which the first one is not answered."""
    await delay_topic(stage)
    configs = {**MIN_ISR, "minikafka.delay.target": "now"}
    await stage.create_topic("also", [[1, 2, 3]], configs=configs)
    # Each source has its producer id.
    await park(stage, (b"a", 10))
    await park(stage, (b"b", 10), topic="also")
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == 2, "both have arrived")
    await park(stage, (b"c", 1_000))
    await park(stage, (b"d", 1_500), topic="also")
    await stage.sleep(0.5)
    stage.block("broker-2", "broker-1")
    await stage.sleep(2)
    forwarder = stage.broker(1).parts.forwarder
    waiting = [each.source.name.topic for some in forwarder._waiting.values() for each in some]
    assert waiting == ["also"]
    await stage.delete_topic("also")
    stage.heal()
    await until_idle(stage)
    assert (await stage.read("now"))[:3] == [b"a", b"b", b"c"]
    assert not any("log directory" in line for line in stage.logs())


async def delay_topic_again(stage: Stage) -> None:
    configs = {**MIN_ISR, "minikafka.delay.target": "now"}
    await stage.create_topic("later", [[1, 2, 3]], configs=configs)


@staged()
async def test_r_33_as_many_may_wait_as_the_setting_says(stage: Stage) -> None:
    await delay_topic(stage, {"minikafka.delay.pending.max": "10"})
    await park(stage, *[(b"%d" % each, 60_000) for each in range(10)])
    with pytest.raises(DeliveryFailed) as refused:
        await park(stage, (b"more", 60_000))
    assert refused.value.error.code is ErrorCode.POLICY_VIOLATION
    await stage.alter_configs("later", {"minikafka.delay.pending.max": "11"})
    await park(stage, (b"more", 60_000))


async def produce_raw(stage: Stage, topic: str, *, reps: int = 1) -> tuple[list[int], float]:
    """Produce a record so many times over one connection; return throttle times, and how long."""
    client = await stage.client()

    async def ask() -> list[int]:
        connection = await KafkaConnection.open(client.runtime, "broker-1", BROKER_PORT)
        told: list[int] = []
        for _ in range(reps):
            batch = BatchBuilder()
            batch.append(client.runtime.wall_ms(), b"k", b"v", [(DELAY_MS, b"900000")])
            data = PartitionProduceData(index=0, records=bytes(batch.build()))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
            told.append((await connection.request(request, version=9)).throttle_time_ms)
        await connection.close()
        return told

    began_at = stage.now
    return await client.ask(ask), stage.now - began_at


@staged()
async def test_r_33_producers_of_any_client_are_held_back_before_that(stage: Stage) -> None:
    await delay_topic(stage, {"minikafka.delay.pending.max": "100"})
    await stage.create_topic("other", [[1, 2, 3]], configs=MIN_ISR)
    await park(stage, *[(b"%d" % each, 900_000) for each in range(75)])
    told, _ = await produce_raw(stage, "later", reps=20)
    assert told[:5] == [0] * 5
    held = [each for each in told if each]
    assert len(held) >= 13
    assert held == sorted(held)
    assert held[-1] > 500
    # The client ignores what it is told: its connection is not read for as long.
    told, seconds = await produce_raw(stage, "later", reps=2)
    assert seconds > told[0] / 1_000 > 0.5
    assert (await produce_raw(stage, "other", reps=3))[0] == [0] * 3
    assert stage.broker(1).parts.edge.quotas.throttled[PENDING] >= 15


@staged()
async def test_r_28_steps_may_be_larger_than_the_topics_messages(stage: Stage) -> None:
    await delay_topic(stage, targets=3)
    values = [b"%d" % each for each in range(400)]
    await park(stage, *[(value, 3_000) for value in values])
    await stage.alter_configs("later", {"max.message.bytes": "300"})
    sizes: list[int] = []

    def noted(step: Step, wall_ms: int) -> bytearray:
        batch = encode(step, wall_ms)
        sizes.append(len(batch))
        return batch

    with patch("minikafka.broker.forward.leading.encode", noted):
        await until_idle(stage)
    assert max(sizes) > 300
    arrived = [
        record.value or b"" for index in range(3) for record in await in_target(stage, index)
    ]
    assert sorted(arrived) == sorted(values)


@staged()
async def test_r_33_what_is_over_counts_no_more(stage: Stage) -> None:
    await delay_topic(stage, {**BY_KEY, "minikafka.delay.pending.max": "3"})
    for number in range(20):
        await park_keyed(stage, (b"k", b"%d" % number, 60_000))
    await stage.until(lambda: source_of(stage, 1).schedule.state.folded == 20, "all is folded")
    assert source_of(stage, 1).pending == 1


@staged()
async def test_r_33_a_delay_topic_that_is_full_gets_what_is_forwarded_to_it_later(
    stage: Stage,
) -> None:
    await stage.create_topic("end")
    await delay_topic(stage)
    chained = {**FIXED_100, "minikafka.delay.ms": "60000", "minikafka.delay.pending.max": "1"}
    await stage.alter_configs("now", {**chained, "minikafka.delay.target": "end"})
    await park(stage, (b"a", 100), (b"b", 1_000))
    now = stage.partition(2, "now")
    await stage.until(lambda: now.staging.is_full, "one waits")
    await stage.sleep(5)
    assert await stage.read("now") == [b"a"]
    await stage.alter_configs("now", {"minikafka.delay.pending.max": "2"})
    await until_idle(stage)
    assert await stage.read("now") == [b"a", b"b"]


@staged()
async def test_r_34_a_pause_and_another_target_count_for_what_is_not_planned(stage: Stage) -> None:
    await delay_topic(stage, {"minikafka.delay.paused": "true"})
    await stage.create_topic("other", 1)
    await park(stage, (b"a", 100))
    await stage.sleep(3)
    assert await stage.read("now") == []
    await stage.alter_configs("later", {"minikafka.delay.target": "other"})
    await stage.alter_configs("later", {"minikafka.delay.paused": "false"})
    await until_idle(stage)
    assert (await stage.read("now"), await stage.read("other")) == ([], [b"a"])


@staged()
async def test_r_35_settings_that_lead_nowhere_or_back_are_refused(stage: Stage) -> None:
    await delay_topic(stage)
    wrong = {
        "later": [{"minikafka.delay.target": each} for each in ("later", "none", INTERNAL)],
        "now": [{"minikafka.delay.target": "later"}, {"minikafka.deadletter.topic": "later"}],
    }
    await stage.create_topic("dead")
    await stage.alter_configs("later", {"minikafka.deadletter.topic": "dead"})
    wrong["dead"] = [{"minikafka.deadletter.topic": "later"}]
    for topic, changes in wrong.items():
        for change in changes:
            with pytest.raises(AdminError, match="INVALID_CONFIG"):
                await stage.alter_configs(topic, change)
    with pytest.raises(AdminError, match="INVALID_CONFIG"):
        await stage.create_topic("c", configs={"minikafka.delay.target": "nowhere"})
    with pytest.raises(AdminError, match="INVALID_CONFIG"):
        await stage.alter_configs("later", {"cleanup.policy": "compact"})


async def park_keyed(
    stage: Stage, *sent: tuple[bytes, bytes | None, int], settings: dict[str, object] | None = None
) -> None:
    """Produce (key, value, delay) to "later", in one transaction if there is a transactional id."""
    client = await stage.client()
    options: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 2_000, **(settings or {})}

    async def ask() -> None:
        bootstrap = stage.cluster.bootstrap
        async with Producer(
            bootstrap_servers=bootstrap, runtime=client.runtime, **options
        ) as producer:
            if "transactional_id" in options:
                await producer.begin_transaction()
            for key, value, delay_ms in sent:
                said = [(DELAY_MS, b"%d" % delay_ms)]
                await producer.send("later", value, key=key, headers=said)
            if "transactional_id" in options:
                await producer.commit_transaction()

    await client.ask(ask)


@staged()
async def test_r_18_of_a_key_only_the_newest_record_that_waits_is_forwarded(stage: Stage) -> None:
    await delay_topic(stage, BY_KEY)
    long = b"k" * 40
    await park_keyed(stage, (b"a", b"1", 900), (long, b"2", 900), (b"b", b"3", 900))
    await park_keyed(stage, (b"a", b"4", 2_000), (long, b"5", 3_000), (b"b", None, 0))
    await park_keyed(stage, (b"a", b"6", 1_000), settings={"transactional_id": "x"})
    await until_idle(stage)
    assert await stage.read("now") == [b"6", b"5"]
    await park_keyed(stage, (b"a", b"7", 100))
    await until_idle(stage)
    assert await stage.read("now") == [b"6", b"5", b"7"]


@staged()
async def test_r_18_the_newest_counts_over_a_failover(stage: Stage) -> None:
    await delay_topic(stage, BY_KEY)
    await park_keyed(stage, *[(b"k%d" % n, b"old", 4_000) for n in range(20)])
    await park_keyed(stage, *[(b"k%d" % n, b"new", 4_000) for n in range(20)])
    await park_keyed(stage, (b"k0", None, 0))
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader > 1, "another leader", 30)
    stage.start(1)
    await until_idle(stage, 120)
    assert await stage.read("now") == [b"new"] * 19


@staged()
async def test_r_18_a_record_is_not_planned_behind_a_newer_one_that_is_not_committed(
    stage: Stage,
) -> None:
    await delay_topic(stage, BY_KEY)
    await park_keyed(stage, (b"k", b"old", 700), (b"other", b"x", 700))
    stage.pause(2, 3)
    await park_keyed(stage, (b"k", b"new", 0), settings={"acks": "1", "enable_idempotence": False})
    await stage.sleep(1.5)
    assert stage.partition(1, "later").high_watermark < stage.partition(1, "later").log_end_offset
    stage.resume(2, 3)
    await until_idle(stage)
    assert sorted(await stage.read("now")) == [b"new", b"x"]


@staged()
async def test_r_18_the_rule_stays_while_records_wait(stage: Stage) -> None:
    await delay_topic(stage)
    with pytest.raises(AdminError, match="INVALID_CONFIG"):
        await stage.alter_configs("later", BY_KEY)


@staged(brokers=3, broker=CLEANS)
async def test_r_22_what_waits_for_long_keeps_nothing_behind_it(stage: Stage) -> None:
    settings = {
        "segment.bytes": "4000",
        "minikafka.delay.keep.ms": "500",
        "flush.ms": "500",
    }
    stage.invariants.compacted["later"] = None
    await delay_topic(stage, settings)
    long = [(b"long-%d" % number, 60_000 + number) for number in range(3)]
    await park(stage, long[0])
    await park(stage, *[(b"%d" % number, 100 + number) for number in range(200)])
    await park(stage, long[1])
    await park(stage, *[(b"more-%d" % number, 100 + number) for number in range(200)])
    await park(stage, long[2])
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == 400, "all that is due soon", 30)
    logs = [stage.partition(who, "later").log for who in (1, 2, 3)]
    before = logs[0].size_bytes
    await stage.until(lambda: max(log.size_bytes for log in logs) < before // 2, "rewritten", 60)
    assert logs[0].log_start_offset == 0
    stage.kill(3)
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader == 2, "another leader", 30)
    stage.start(1, 3)
    await until_idle(stage, 150)
    found = [record.value for record in await in_target(stage)]
    assert found[-3:] == [value for value, _ in long]
    assert len(found) == 403


@staged()
async def test_r_19_a_leader_whose_clock_is_far_ahead_forwards_nothing_until_it_is_right(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    await stage.sleep(3)
    client = await park(stage, (b"a", 4_000), (b"b", 20_000))
    due_ms = client.runtime.wall_ms() + 4_000
    stage.skew(1, 30_000)
    await stage.sleep(8)
    assert client.runtime.wall_ms() > due_ms
    assert await stage.read("now") == []
    # A controller that has just been elected does not know the clocks yet.
    stage.restart("controller-1")
    await stage.sleep(5)
    assert await stage.read("now") == []
    stage.skew(1, -30_000)
    await stage.until(lambda: stage.partition(2, "now").high_watermark == 1, "a", 10)
    stage.skew(1, -3_600_000)
    await stage.sleep(3)
    assert await stage.read("now") == [b"a"]
    stage.skew(1, 3_600_000)
    await until_idle(stage)
    assert await stage.read("now") == [b"a", b"b"]


@staged()
async def test_r_19_a_clock_that_is_set_back_while_due_records_are_read_plans_none_early(
    stage: Stage,
) -> None:
    await delay_topic(stage, {"minikafka.delay.timestamp": "now"})
    await park(stage, (b"before", 10))  # So that the next plan has its producer id.
    await until_idle(stage)
    stage.skew(1, 900)
    parked = source_of(stage, 1).parked
    read = parked.read

    async def read_slowly(offsets: Iterable[int], most: int | None = None) -> Any:
        wanted = [*offsets]
        if wanted:
            parked.read = read  # type: ignore[method-assign]
            stage.skew(1, -900)
        return await read(wanted, most)

    parked.read = read_slowly  # type: ignore[method-assign, assignment]
    await park(stage, (b"a", 2_000))
    await until_idle(stage)
    *_, found = await in_target(stage)
    assert found.timestamp_ms >= int(headers_of(found)[DUE] or b"")
