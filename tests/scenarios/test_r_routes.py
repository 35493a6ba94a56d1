"""Scenarios R: topics whose records are copied to others, by rules."""

import json
from unittest.mock import patch

import pytest

from minikafka.broker.forward import taking
from minikafka.client.errors import AdminError
from minikafka.client.producer.producer import Producer
from minikafka.protocol.delays import DELAY_MS, SOURCE
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Stage, staged
from .delay_stage import MIN_ISR, headers_of, in_target, source_of, until_idle

RULES = "minikafka.route.rules"
KIND = {"if": {"header": {"kind": {"equals": "order"}}}, "to": ["a"]}
EU = {"if": {"key": {"prefix": "eu-"}}, "to": ["b"]}
BOTH = {"if": {"key": {"exists": True}}, "to": ["a", "b"]}


async def topics(stage: Stage, rules: object) -> None:
    """The source "later", which broker 1 leads, and "a" and "b" of brokers 2 and 3."""
    await stage.create_topic("a", [[2, 3, 1]], configs=MIN_ISR)
    await stage.create_topic("b", [[3, 1, 2]], configs=MIN_ISR)
    configs = {**MIN_ISR, RULES: json.dumps(rules)}
    await stage.create_topic("later", [[1, 2, 3]], configs=configs)


async def send(stage: Stage, *sent: tuple[bytes, bytes, dict[str, bytes]]) -> None:
    """Send (key, value, headers) to the source."""
    client = await stage.client()

    async def ask() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap, runtime=client.runtime, linger_ms=0
        ) as producer:
            waiting = [
                producer.send("later", value, key=key, headers=list(said.items()))
                for key, value, said in sent
            ]
            for each in waiting:
                await each

    await client.ask(ask)


def shelved(stage: Stage) -> int:
    """Return how many records wait for their targets."""
    leading = source_of(stage, 1).leading
    return 0 if leading is None else sum(map(len, leading.taking.shelves))


@staged()
async def test_r_50_a_record_goes_to_every_topic_that_the_rules_name(stage: Stage) -> None:
    await topics(stage, [KIND, EU])
    kind = {"kind": b"order", DELAY_MS: b"9999"}
    await send(stage, (b"eu-1", b"1", kind), (b"us", b"2", kind), (b"eu-2", b"3", {}))
    await send(stage, (b"us", b"4", {}))
    await until_idle(stage)
    assert (await stage.read("a"), await stage.read("b")) == ([b"1", b"2"], [b"1", b"3"])
    assert await stage.read("later") == [b"1", b"2", b"3", b"4"]
    first = (await in_target(stage, topic="a"))[0]
    assert headers_of(first)[SOURCE] == b"later/0/0"
    original = (await in_target(stage, topic="later"))[0]
    assert first.timestamp_ms == original.timestamp_ms


@staged()
async def test_r_50_a_target_that_does_not_commit_holds_up_no_other_and_gets_each_once(
    stage: Stage,
) -> None:
    await topics(stage, [BOTH])
    # Of "b" no other replica is left, so that it takes nothing.
    await stage.alter_configs("b", {"min.insync.replicas": "3"})
    stage.kill(2)
    await stage.until(lambda: stage.state("a").leader == 3, "another leader of a", 30)
    values = [b"%d" % number for number in range(20)]
    await send(stage, *[(b"k", value, {}) for value in values])
    await stage.until(lambda: stage.partition(3, "a").high_watermark >= 20, "all in a", 30)
    assert await stage.read("b") == []
    stage.kill(1)
    stage.start(2)
    await stage.sleep(2)
    stage.start(1)
    await until_idle(stage, 120)
    assert await stage.read("a") == values
    assert await stage.read("b") == values


@staged()
async def test_r_50_records_for_a_topic_that_is_gone_hold_up_no_other(stage: Stage) -> None:
    with patch.object(taking, "MOST_PLANNED", 10):
        await topics(stage, [EU])
    await stage.alter_configs("later", {"minikafka.delay.target": "a"})
    await stage.delete_topic("b")
    await send(stage, *[(b"eu-", b"for b", {}) for _ in range(40)])
    await stage.until(lambda: shelved(stage) == 40, "all wait for b")
    await send(stage, *[(b"us", b"for a", {}) for _ in range(40)])
    await stage.until(lambda: stage.partition(2, "a").high_watermark >= 40, "all in a")
    there = TopicPartition("later", 0)
    assert len(await stage.admin(lambda admin: admin.list_delayed([there], limit=99))) == 40
    await stage.create_topic("b", 1)
    await until_idle(stage)
    assert await stage.read("b") == [b"for b"] * 40


@staged()
async def test_r_50_what_is_sent_meanwhile_lets_nothing_wait_longer_for_a_topic_that_is_gone(
    stage: Stage,
) -> None:
    await topics(stage, [EU])
    await stage.create_topic("dead", 1)
    await stage.alter_configs("later", {"minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("later", {"minikafka.delay.undeliverable.ms": "3000"})
    await stage.delete_topic("b")
    for number in range(12):
        await send(stage, (b"eu-", b"%d" % number, {}))
        await stage.sleep(0.5)
    assert b"0" in await stage.read("dead")


@staged()
async def test_r_50_what_waits_for_a_target_that_takes_nothing_is_planned_when_it_does(
    stage: Stage,
) -> None:
    await topics(stage, [EU])
    await stage.alter_configs("later", {"minikafka.delay.target": "a"})
    await stage.alter_configs("b", {"min.insync.replicas": "3"})
    stage.kill(2)
    values = [b"%d" % number for number in range(20)]
    with patch.object(taking.Taking, "most_open", 3):
        for value in values:
            await send(stage, (b"eu-", value, {}), (b"us", value, {}))
            await stage.sleep(0.5)
        leader = stage.state("a").leader
        await stage.until(lambda: stage.partition(leader, "a").high_watermark >= 20, "all in a", 30)
        assert 3 <= len(source_of(stage, 1).schedule.state.plans) <= 5
        assert shelved(stage) >= 15
        stage.start(2)
        await until_idle(stage, 120)
    assert await stage.read("b") == values


@staged()
async def test_r_50_what_no_rule_matches_goes_where_the_topic_says(stage: Stage) -> None:
    await topics(stage, [EU])
    await stage.create_topic("dead", 1)
    await send(stage, (b"us", b"nowhere", {}))
    await until_idle(stage)
    await stage.alter_configs("later", {"minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("later", {"minikafka.route.unmatched": "deadletter"})
    await send(stage, (b"us", b"dead", {}))
    await until_idle(stage)
    (letter,) = await in_target(stage, topic="dead")
    assert letter.value == b"dead"
    assert (headers_of(letter)["__dlq.errors.message"] or b"").startswith(b"UNROUTED: ")
    await stage.alter_configs("later", {"minikafka.route.unmatched": "default"})
    await stage.alter_configs("later", {"minikafka.delay.target": "a"})
    await send(stage, (b"us", b"late", {DELAY_MS: b"500"}), (b"eu-", b"late too", {}))
    await until_idle(stage)
    assert (await stage.read("a"), await stage.read("b")) == ([b"late"], [b"late too"])
    assert source_of(stage, 1).counts.dropped == 0


@staged()
async def test_r_50_a_topic_that_is_gone_makes_a_dead_letter_and_holds_up_no_other(
    stage: Stage,
) -> None:
    await topics(stage, [BOTH])
    await stage.create_topic("dead", 1)
    await stage.alter_configs("later", {"minikafka.deadletter.topic": "dead"})
    await stage.delete_topic("b")
    await send(stage, (b"k", b"v", {}))
    await until_idle(stage)
    assert (await stage.read("a"), await stage.read("dead")) == ([b"v"], [b"v"])


@staged()
async def test_r_50_rules_that_lead_nowhere_or_back_are_refused(stage: Stage) -> None:
    await topics(stage, [EU])
    back = json.dumps([{"else": True, "to": ["later"]}])
    wrong = [
        ("later", {RULES: "[}"}),
        ("later", {RULES: back}),
        ("later", {RULES: json.dumps([{"else": True, "to": ["none"]}])}),
        ("later", {RULES: json.dumps([{"else": True, "to": ["__consumer_offsets"]}])}),
        ("b", {RULES: back}),
        ("b", {"minikafka.delay.target": "later"}),
        ("later", {"cleanup.policy": "compact"}),
    ]
    for topic, change in wrong:
        with pytest.raises(AdminError, match="INVALID_CONFIG"):
            await stage.alter_configs(topic, change)
