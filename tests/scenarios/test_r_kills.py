"""Scenarios R: brokers are killed, paused and cut off at each step of a record's way to its target.

park -> plan appended -> plan committed -> sent -> target appended -> answered -> end written
"""

import random
from collections.abc import Callable
from functools import partial

import pytest

from minikafka.broker.forward.steps import Step

from ..simulation.stage import Stage, staged
from .delay_stage import (
    FIXED_100,
    at_once,
    delay_topic,
    in_target,
    park,
    planned_once,
    source_of,
    steps_of,
    until_idle,
)

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
FORGETFUL = {"producer.id.expiration.ms": "1000"}


async def arrived(stage: Stage, topic: str = "now") -> list[bytes | None]:
    return [record.value for record in await in_target(stage, topic=topic)]


async def until_led_by_another(stage: Stage) -> None:
    await stage.until(lambda: stage.state("later").leader in (2, 3), "another leader", 30)


def plan_at(stage: Stage, who: int, offset: int) -> Step:
    """Return the step at this offset, which has one plan."""
    step = steps_of(stage, who)[offset]
    assert len(step.plans) == 1
    return step


@staged()
async def test_r_04_a_plan_that_does_not_commit_is_gone_and_the_record_is_planned_anew(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    later = stage.partition(1, "later")
    await park(stage, (b"a", 1_000))
    stage.block("broker-2", "broker-1")
    stage.block("broker-3", "broker-1")
    await stage.until(lambda: later.log_end_offset == end + 2, "the plan")
    (lost,) = plan_at(stage, 1, end + 1).plans
    stage.kill(1)
    stage.heal()
    await until_led_by_another(stage)
    await until_idle(stage)
    made = [plan for step in steps_of(stage, 2).values() for plan in step.plans]
    assert lost.plan_id not in [plan.plan_id for plan in made]
    assert lost.plan_id not in stage.invariants.forwards.senders
    assert await arrived(stage) == [b"before", b"a"]


@staged()
async def test_r_04_a_plan_that_commits_though_its_leader_is_killed_is_sent_by_the_next(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000))
    replicas = [stage.partition(who, "later") for who in (1, 2, 3)]

    def is_on_all() -> bool:
        return all(each.log_end_offset == end + 2 for each in replicas)

    await at_once(stage, is_on_all, lambda: stage.kill(1), "the plan is on all")
    assert replicas[0].high_watermark == end + 1
    await until_led_by_another(stage)
    await until_idle(stage)
    (plan,) = plan_at(stage, 2, end + 1).plans
    assert stage.invariants.forwards.senders[plan.plan_id] == ["broker-2"]
    assert await arrived(stage) == [b"before", b"a"]


@staged()
async def test_r_05_killed_after_the_commit_and_before_the_send_the_next_leader_sends(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000))
    later, now = stage.partition(1, "later"), stage.partition(2, "now")
    there = now.log_end_offset
    ends: list[int] = []

    def kill() -> None:
        stage.kill(1)
        ends.append(now.log_end_offset)

    await at_once(stage, lambda: later.high_watermark == end + 2, kill, "the commit")
    assert ends == [there]
    await until_led_by_another(stage)
    await until_idle(stage)
    (plan,) = plan_at(stage, 2, end + 1).plans
    assert stage.invariants.forwards.senders[plan.plan_id] == ["broker-2"]
    assert stage.log(2, "now")[-1].producer_id == plan.producer_id
    assert await arrived(stage) == [b"before", b"a"]


@staged()
async def test_r_06_killed_after_the_targets_append_the_end_names_where_it_is(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000))
    now = stage.partition(2, "now")
    there = now.log_end_offset
    await at_once(
        stage, lambda: now.log_end_offset == there + 1, lambda: stage.kill(1), "the append"
    )
    await until_led_by_another(stage)
    await until_idle(stage)
    (plan,) = plan_at(stage, 2, end + 1).plans
    assert stage.invariants.forwards.senders[plan.plan_id] == ["broker-1", "broker-2"]
    ends = [each for step in steps_of(stage, 2).values() for each in step.ends]
    assert [each.base_offset for each in ends if each.plan_id == plan.plan_id] == [there]
    assert await arrived(stage) == [b"before", b"a"]


def paused(stage: Stage) -> None:
    """Pause broker 1, which does not learn that it leads no more before it has sent its plan."""
    stage.pause(1)
    stage.cut("broker-1", "controller-1")


@staged()
async def test_r_07_an_old_leader_that_sends_when_the_new_one_has_planned_on_changes_nothing(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    client = await park(stage, (b"a", 1_000))
    later = stage.partition(1, "later")
    await at_once(
        stage, lambda: later.high_watermark == end + 2, partial(paused, stage), "the commit"
    )
    await until_led_by_another(stage)
    await park(stage, (b"b", 0), (b"c", 100), client=client)
    await until_idle(stage)
    (plan,) = plan_at(stage, 2, end + 1).plans
    senders = stage.invariants.forwards.senders[plan.plan_id]
    assert senders == ["broker-2"]
    stage.resume(1)
    await stage.until(lambda: senders == ["broker-2", "broker-1"], "the old leader sends")
    stage.heal()
    await stage.sleep(2)
    await until_idle(stage)
    assert await arrived(stage) == [b"before", b"a", b"b", b"c"]


def is_whole(stage: Stage) -> bool:
    states = [stage.state("later"), *(stage.state("now", index) for index in range(3))]
    return all(len(state.isr) == 3 for state in states)


def after(steps: int) -> Callable[[], bool]:
    """Return a condition that is true once it was asked so often."""
    return partial(next, iter([False] * steps), True)


async def both_killed(stage: Stage, dice: random.Random) -> None:
    """Kill the leaders of source and target together, at any step of theirs; several times."""
    await delay_topic(stage, targets=3)
    sent: list[bytes] = []
    for turn in range(3):
        values = [(b"%d.%d" % (turn, each), dice.randrange(1_500)) for each in range(15)]
        await park(stage, *values)
        sent.extend(value for value, _ in values)
        await stage.sleep(dice.random() * 1.5)
        index = dice.randrange(3)
        leaders = (stage.state("later").leader, stage.state("now", index).leader)
        killed = dict.fromkeys(leaders)
        kill = partial(stage.kill, *killed)
        await at_once(stage, after(dice.randrange(60)), kill, "both are killed")
        await stage.sleep(dice.random())
        stage.start(*killed)
        for each in killed:
            await stage.ready(each)
        await stage.until(lambda: is_whole(stage), "all replicas are in sync", 30)
    await until_idle(stage)
    found = [record for index in range(3) for record in await in_target(stage, index)]
    assert sorted(record.value or b"" for record in found) == sorted(sent)


@pytest.mark.parametrize("seed", range(20))
def test_r_08_each_record_once_though_both_leaders_are_killed_together(seed: int) -> None:
    """The invariants 35 to 39 are checked after each step."""

    @staged(seed=seed)
    async def story(stage: Stage) -> None:
        await both_killed(stage, random.Random(seed))

    story()


@staged()
async def test_r_10_a_plan_of_other_records_is_never_taken_for_one_that_was_lost(
    stage: Stage,
) -> None:
    """With the lost plan's producer id its target would take "a" for a repeated batch."""
    stage.mute(35, 38)
    await stage.create_topic("now", [[2]], configs={"min.insync.replicas": "1"})
    configs = {**UNCLEAN, "minikafka.delay.target": "now"}
    await stage.create_topic("later", [[1, 3]], configs=configs)
    await park(stage, (b"a", 8_000))
    await stage.until(lambda: stage.partition(3, "later").high_watermark == 1, "replicated")
    stage.kill(3)
    await stage.until(lambda: stage.state("later").isr == (1,), "broker 1 is alone")
    await park(stage, (b"lost", 0))
    await stage.until(lambda: stage.partition(2, "now").high_watermark == 1, "it is sent")
    stage.kill(1)
    stage.start(3)
    await stage.until(lambda: stage.state("later").leader == 3, "an unclean leader", 30)
    await until_idle(stage)
    assert await arrived(stage) == [b"lost", b"a"]


@staged()
async def test_r_12_what_a_leader_gave_up_behind_a_fence_no_earlier_leader_can_send(
    stage: Stage,
) -> None:
    """Never both a dead letter and delivered, though the limit was raised in between."""
    await stage.create_topic("dead", [[2, 3, 1]])
    end = await planned_once(stage, {"minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    large = b"x" * 600
    await park(stage, (large, 500))
    later = stage.partition(1, "later")
    await at_once(
        stage, lambda: later.high_watermark == end + 2, partial(paused, stage), "the commit"
    )
    await until_led_by_another(stage)
    await until_idle(stage)
    assert await arrived(stage, "dead") == [large]
    await stage.alter_configs("now", {"max.message.bytes": "5000"})
    (plan,) = plan_at(stage, 2, end + 1).plans
    senders = stage.invariants.forwards.senders[plan.plan_id]
    stage.resume(1)
    await stage.until(lambda: senders[-1] == "broker-1", "the old leader sends")
    stage.heal()
    await stage.sleep(2)
    await until_idle(stage)
    assert await arrived(stage) == [b"before"]
    assert await arrived(stage, "dead") == [large]


@staged(broker=FORGETFUL, seconds=3_000)
async def test_r_14_a_plan_that_is_stuck_for_longer_than_producer_ids_live_comes_once(
    stage: Stage,
) -> None:
    end = await planned_once(stage)
    await park(stage, (b"a", 1_000))
    now = stage.partition(2, "now")
    there = now.log_end_offset
    await at_once(
        stage,
        lambda: now.log_end_offset == there + 1,
        lambda: stage.block("broker-2", "broker-1"),
        "the append; its answer is lost",
    )
    await stage.until(lambda: now.high_watermark == there + 1, "its commit", 30)
    (plan,) = plan_at(stage, 1, end + 1).plans
    # A producer that is no Forwarder is forgotten meanwhile.
    other = await stage.producer()
    await other.send("now", b"other")
    known = now.log.producers
    ids = [n for n in range(10_000) if known.known(n) is not None and n != plan.producer_id]
    assert ids
    await stage.until(lambda: not any(map(known.known, ids)), "they are forgotten", 1_000)
    assert known.known(plan.producer_id) is not None
    stage.heal()
    await until_idle(stage)
    assert stage.invariants.forwards.senders[plan.plan_id].count("broker-1") >= 2
    assert await arrived(stage) == [b"before", b"a", b"other"]


@staged()
async def test_r_16_a_producer_that_repeats_a_batch_parks_it_once(stage: Stage) -> None:
    await delay_topic(stage, {**FIXED_100, "minikafka.delay.ms": "20000"})
    producer = await stage.producer("writer")
    await producer.send("later", b"0")
    stage.block(1, "writer")
    acks = [producer.send("later", b"%d" % number) for number in (1, 2)]
    await stage.until(lambda: stage.partition(2, "later").log_end_offset == 3, "they are there")
    stage.kill(1)
    stage.heal()
    assert [(await ack).offset for ack in acks] == [1, 2]
    await stage.until(lambda: source_of(stage, 2).schedule.state.folded == 3, "folded")
    assert source_of(stage, 2).pending == 3
    await until_idle(stage)
    assert await arrived(stage) == [b"0", b"1", b"2"]


@staged()
async def test_r_19_clocks_that_are_set_back_by_an_hour_forward_nothing_twice(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 100), (b"b", 200), (b"c", 20_000))
    now = stage.partition(2, "now")
    await stage.until(lambda: now.high_watermark == 2, "a and b")
    for who in (1, 2, 3):
        stage.skew(who, -3_600_000)
    stage.kill(1)
    await until_led_by_another(stage)
    await stage.sleep(30)
    assert await arrived(stage) == [b"a", b"b"]
    for who in (1, 2, 3):
        stage.skew(who, 3_600_000)
    stage.start(1)
    await until_idle(stage, 120)
    assert await arrived(stage) == [b"a", b"b", b"c"]
