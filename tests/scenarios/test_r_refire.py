"""Scenarios R: what a target has lost is forwarded again."""

import pytest

from minikafka.broker.forward.refiring import Refire, Refired
from minikafka.client.errors import AdminError
from minikafka.protocol.delays import DUE, SOURCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.refire_forwarded import FROM_START
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import Stage, staged
from .delay_stage import delay_topic, headers_of, in_target, park, source_of, until_idle

HERE = TopicPartition("later", 0)


async def refire(stage: Stage, *, first: int = 0, last: int | None = None, since: int = 0) -> int:
    stage.invariants.forwards.may_repeat = True
    return await stage.admin(
        lambda admin: admin.refire_forwarded(
            HERE, from_offset=first, to_offset=last, since_ms=since
        )
    )


@staged()
async def test_r_11_what_an_unclean_election_of_the_target_has_lost_is_forwarded_again(
    stage: Stage,
) -> None:
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await stage.create_topic("now", [[2, 3]], configs=unclean)
    await stage.create_topic("later", [[1]], configs={"minikafka.delay.target": "now", **unclean})
    client = await park(stage, (b"a", 0))
    await until_idle(stage)
    stage.kill(3)
    await stage.until(lambda: stage.state("now").isr == (2,), "broker 2 is alone")
    since_ms = client.runtime.wall_ms()
    await park(stage, (b"lost", 0), (b"also", 200))
    await until_idle(stage)
    stage.kill(2)
    stage.start(3)
    await stage.until(lambda: stage.state("now").leader == 3, "an unclean leader", 30)
    assert await stage.read("now") == [b"a"]
    assert await refire(stage, since=since_ms) == 2
    await until_idle(stage)
    assert await stage.read("now") == [b"a", b"lost", b"also"]


@staged()
async def test_r_11_only_what_was_forwarded_is_repeated_and_each_copy_is_like_the_first(
    stage: Stage,
) -> None:
    """Not what waits, was cancelled, or is a dead letter; also by a leader that planned none."""
    await stage.create_topic("dead", 1)
    await delay_topic(stage, {"minikafka.deadletter.topic": "dead"}, targets=2)
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    client = await park(stage, (b"a", 100), (b"b", 60_000), (b"c", 60_000), (b"x" * 600, 100))
    moved_ms = client.runtime.wall_ms() + 1_500
    await stage.admin(lambda admin: admin.reschedule_delayed({HERE: {1: moved_ms}}))
    await stage.admin(lambda admin: admin.cancel_delayed({HERE: [2]}))
    await park(stage, (b"waits", 600_000))
    dead = stage.partition(1, "dead")
    await stage.until(lambda: dead.high_watermark == 1, "the dead letter")
    source = source_of(stage, 1)
    await stage.until(lambda: source.counts.forwarded == 2 and not source.schedule.state.plans, "b")
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader in (2, 3), "another leader", 30)
    assert await refire(stage) == 2
    new = source_of(stage, stage.state("later").leader)
    await stage.until(lambda: not new.schedule.state.plans, "both are there again")
    assert await refire(stage, first=1, last=2) == 1
    (waits,) = await stage.admin(lambda admin: admin.list_delayed([HERE]))
    await stage.admin(lambda admin: admin.cancel_delayed({HERE: [waits.offset]}))
    await until_idle(stage)
    found = [record for index in (0, 1) for record in await in_target(stage, index)]
    copies = {
        value: [
            (record.partition, headers_of(record)[SOURCE], headers_of(record)[DUE])
            for record in found
            if record.value == value
        ]
        for value in (b"a", b"b")
    }
    assert [len(each) for each in copies.values()] == [2, 3]
    assert [len(set(each)) for each in copies.values()] == [1, 1]
    assert copies[b"b"][0][2] == b"%d" % moved_ms
    assert len(found) == 5


@staged()
async def test_r_11_many_are_repeated_by_several_requests(stage: Stage) -> None:
    await delay_topic(stage, targets=3)
    values = [(b"%d" % number, 100) for number in range(2_500)]
    await park(stage, *values)
    await until_idle(stage)
    assert await refire(stage) == 2_500
    await until_idle(stage)
    found = [each.value or b"" for index in range(3) for each in await in_target(stage, index)]
    assert sorted(found) == sorted([value for value, _ in values] * 2)


@staged()
async def test_r_11_what_the_source_has_cleaned_away_is_left_out(stage: Stage) -> None:
    settings = {"segment.bytes": "4000", "minikafka.delay.keep.ms": "500", "flush.ms": "500"}
    stage.invariants.compacted["later"] = None
    await delay_topic(stage, settings)
    await park(stage, (b"long", 100_000))
    await park(stage, *[(b"%d" % number, 100) for number in range(300)])
    await stage.until(lambda: stage.partition(2, "now").high_watermark == 300, "the others", 30)
    log = stage.partition(1, "later").log
    before = log.size_bytes
    await stage.until(lambda: log.size_bytes < before // 2, "rewritten", 60)
    count = await refire(stage)
    assert count < 300
    await until_idle(stage, 150)
    assert stage.partition(2, "now").high_watermark == 301 + count


@staged()
async def test_r_11_nothing_is_repeated_while_the_topic_is_paused(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 100))
    await until_idle(stage)
    await stage.alter_configs("later", {"minikafka.delay.paused": "true"})
    with pytest.raises(AdminError, match="POLICY_VIOLATION"):
        await refire(stage)
    with pytest.raises(AdminError) as refused:
        await stage.admin(lambda admin: admin.refire_forwarded(TopicPartition("now", 0)))
    assert [each.code for each in refused.value.errors.values()] == [ErrorCode.INVALID_REQUEST]
    assert await stage.read("now") == [b"a"]


@staged()
async def test_r_11_requests_that_find_nothing_hold_up_no_other_and_can_be_withdrawn(
    stage: Stage,
) -> None:
    stage.invariants.forwards.may_repeat = True
    await delay_topic(stage)
    await park(stage, (b"a", 10))
    await until_idle(stage)
    source, outcomes = source_of(stage, 1), list[Refired]()
    nothing = Refire(1_000_000, -1, 0, FROM_START, -1, outcomes.append)
    withdrawn = Refire(0, -1, 0, FROM_START, -1, outcomes.append)
    for each in (nothing, nothing, withdrawn, nothing):
        source.refire(each)
    source.withdraw(withdrawn)
    await stage.until(lambda: len(outcomes) == 3, "all are answered")
    assert [each.records for each in outcomes] == [0, 0, 0]
    await stage.sleep(2)
    assert len(await in_target(stage)) == 1
