"""Scenarios R: records that wait are listed, cancelled, and get other times."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from minikafka.broker.forward.changing import Change
from minikafka.client.admin.admin import Admin
from minikafka.client.admin.delayed_types import DelayedRecord
from minikafka.client.consumer.delayed_records import show, with_key
from minikafka.client.errors import AdminError
from minikafka.protocol.delays import DELIVER_AT, DUE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.list_delayed import State
from minikafka.protocol.types import TopicPartition

from ..simulation.scraper import METRICS, exposition
from ..simulation.stage import Stage, staged
from ..support.scrape import Scrape
from .delay_stage import delay_topic, headers_of, in_target, park, source_of, until_idle

HERE = TopicPartition("later", 0)
MINUTE_MS = 60_000


async def cancel(stage: Stage, *offsets: int) -> None:
    await stage.admin(lambda admin: admin.cancel_delayed({HERE: offsets}))


async def reschedule(stage: Stage, times: Mapping[int, int | None]) -> None:
    await stage.admin(lambda admin: admin.reschedule_delayed({HERE: times}))


async def listed(stage: Stage, **options: Any) -> list[DelayedRecord]:
    return await stage.admin(lambda admin: admin.list_delayed([HERE], **options))


def codes(refused: pytest.ExceptionInfo[AdminError]) -> dict[str, ErrorCode]:
    return {name: error.code for name, error in refused.value.errors.items()}


@staged()
async def test_r_17_what_is_cancelled_before_its_plan_is_never_forwarded(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 2_000), (b"b", 2_000), (b"c", MINUTE_MS))
    await cancel(stage, 0, 2)
    await cancel(stage, 0)
    await until_idle(stage)
    assert [record.value for record in await in_target(stage)] == [b"b"]
    with pytest.raises(AdminError) as refused:
        await cancel(stage, 1, 2, 77)
    assert codes(refused) == {
        "later-0@1": ErrorCode.INVALID_RECORD_STATE,
        "later-0@77": ErrorCode.OFFSET_OUT_OF_RANGE,
    }
    with pytest.raises(AdminError) as refused:
        await reschedule(stage, {0: None})
    assert codes(refused) == {"later-0@0": ErrorCode.INVALID_RECORD_STATE}
    assert source_of(stage, 1).counts.cancelled == 2


@staged()
async def test_r_17_a_cancel_holds_over_a_failover_and_is_answered_alike(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 8_000), (b"b", 8_000))
    await cancel(stage, 1)
    stage.kill(1)
    await stage.until(lambda: stage.state("later").leader in (2, 3), "another leader")
    await cancel(stage, 1)
    await until_idle(stage)
    assert [record.value for record in await in_target(stage)] == [b"a"]


@staged()
async def test_r_17_while_its_plan_does_not_commit_a_cancel_waits_and_comes_too_late(
    stage: Stage,
) -> None:
    await delay_topic(stage)
    # Its id is there already, so that the plan is the next that is appended.
    await park(stage, (b"before", 10))
    await until_idle(stage)
    end = stage.partition(1, "later").log_end_offset
    await park(stage, (b"a", 200))
    stage.block("broker-2", "broker-1")
    stage.block("broker-3", "broker-1")
    await stage.until(lambda: stage.partition(1, "later").log_end_offset == end + 2, "the plan")
    source, answers = source_of(stage, 1), list[list[ErrorCode]]()
    assert source.leading is not None
    source.change([Change(end, None)], lambda said: answers.append([*said]))
    await stage.sleep(0.2)
    assert answers == []
    stage.heal()
    await until_idle(stage)
    assert len(await in_target(stage)) == 2
    assert answers == [[ErrorCode.INVALID_RECORD_STATE]]


@staged()
async def test_r_17_records_get_other_times(stage: Stage) -> None:
    await delay_topic(stage)
    client = await park(stage, (b"a", MINUTE_MS), (b"b", 2 * MINUTE_MS), (b"c", 3_000))
    now_ms = client.runtime.wall_ms()
    await reschedule(stage, {0: None, 1: now_ms + 1_000, 2: now_ms + 5_000})
    await reschedule(stage, {1: now_ms + 9_000})
    await reschedule(stage, {1: now_ms + 1_000})
    with pytest.raises(AdminError) as refused:
        await reschedule(stage, {2: now_ms + 31 * 24 * 60 * MINUTE_MS})
    assert codes(refused) == {"later-0@2": ErrorCode.INVALID_TIMESTAMP}
    await until_idle(stage)
    found = await in_target(stage)
    assert [record.value for record in found] == [b"a", b"b", b"c"]
    dues = [int(headers_of(record)[DUE] or b"") for record in found]
    assert dues == [record.timestamp_ms for record in found]
    assert 0 <= dues[0] - now_ms < 1_000
    assert dues[1:] == [now_ms + 1_000, now_ms + 5_000]


@staged()
async def test_r_17_due_at_once_means_so_for_a_later_leader_by_another_clock(stage: Stage) -> None:
    await delay_topic(stage)
    stage.skew(1, 24 * 60 * MINUTE_MS)
    await stage.sleep(3)
    await park(stage, (b"a", 60 * MINUTE_MS))
    await reschedule(stage, {0: None})
    stage.kill(1)
    await until_idle(stage)
    (found,) = await in_target(stage)
    assert int(headers_of(found)[DUE] or b"") == found.timestamp_ms


@staged()
async def test_r_17_a_time_that_was_changed_holds_over_failovers_and_refusals(
    stage: Stage,
) -> None:
    """Also for a record that its target refuses at first, so that it is planned again."""
    await delay_topic(stage)
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    large = b"x" * 600
    client = await park(stage, (b"a", MINUTE_MS), (large, MINUTE_MS))
    now_ms = client.runtime.wall_ms()
    await reschedule(stage, {0: now_ms + 8_000, 1: now_ms + 8_000})
    stage.kill(1)
    await stage.until(lambda: bool(stage.partition(2, "now").high_watermark), "a", 60)
    await stage.alter_configs("now", {"max.message.bytes": "5000"})
    await until_idle(stage, 120)
    found = await in_target(stage)
    assert [record.value for record in found] == [b"a", large]
    assert [record.timestamp_ms for record in found] == [now_ms + 8_000] * 2


@staged()
async def test_r_17_a_dead_letter_says_the_time_that_was_changed(stage: Stage) -> None:
    await stage.create_topic("dead", 1)
    await delay_topic(stage, {"minikafka.deadletter.topic": "dead"})
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    client = await park(stage, (b"x" * 600, MINUTE_MS))
    due_ms = client.runtime.wall_ms() + 2_000
    await reschedule(stage, {0: due_ms})
    await until_idle(stage)
    (dead,) = await in_target(stage, topic="dead")
    assert (int(headers_of(dead)[DUE] or b""), dead.timestamp_ms) == (due_ms, due_ms)


@staged()
async def test_what_waits_is_listed_in_the_order_of_its_times(stage: Stage) -> None:
    await delay_topic(stage)
    times = [(7 * number) % 50 for number in range(50)]
    client = await stage.client()
    await park(
        stage,
        *((b"%d" % each, MINUTE_MS + 1_000 * each) for each in times),
        header=DELIVER_AT,
        client=client,
    )
    await cancel(stage, 0)
    found = await listed(stage)
    assert [each.offset for each in found] == [times.index(each) for each in range(1, 50)]
    assert found == sorted(found)
    assert await listed(stage, limit=7) == found[:7]
    assert await listed(stage, before_ms=found[9].due_ms) == found[:9]
    status = (await stage.admin(lambda admin: admin.describe_forwarding([HERE])))[HERE]
    assert (status.next_due_ms, status.cancelled, status.forwarded) == (found[0].due_ms, 1, 0)
    assert 49 <= status.pending <= 50


@staged()
async def test_only_leaders_of_delay_topics_tell_what_waits(stage: Stage) -> None:
    await delay_topic(stage)
    there = TopicPartition("now", 0)
    with pytest.raises(AdminError) as refused:
        await stage.admin(lambda admin: admin.list_delayed([there]))
    assert codes(refused) == {"now-0": ErrorCode.INVALID_REQUEST}
    with pytest.raises(AdminError) as refused:
        await stage.admin(lambda admin: admin.cancel_delayed({there: [0]}))
    assert codes(refused) == {"now-0": ErrorCode.INVALID_REQUEST}
    follower = source_of(stage, 2)
    answers: list[list[ErrorCode]] = []
    follower.change([Change(0, None)], lambda said: answers.append([*said]))
    assert answers == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]


@pytest.mark.moves(
    "minikafka_forward_cancelled_total",
    "minikafka_forward_clock_held",
    "minikafka_forward_deadlettered_total",
    "minikafka_forward_dropped_total",
    "minikafka_forward_forwarded_total",
    "minikafka_forward_held",
    "minikafka_forward_lateness_ms",
    "minikafka_forward_overdue_seconds",
    "minikafka_forward_pending",
    "minikafka_forward_planned",
)
@staged(broker=METRICS)
async def test_what_waits_is_held_and_is_over_shows_in_the_metrics(stage: Stage) -> None:
    await delay_topic(stage)

    def told(name: str) -> float:
        text = exposition(stage.daemon(1))
        assert text is not None
        return Scrape.of(text)(f"minikafka_forward_{name}", topic="later", partition=0)

    await park(stage, (b"a", MINUTE_MS), (b"b", MINUTE_MS), (b"c", 10))
    await stage.until(lambda: told("forwarded_total") == 1, "c")
    assert (told("pending"), told("overdue_seconds"), told("held")) == (2, 0, 0)
    assert (told("lateness_ms_count"), told("clock_held")) == (1, 0)
    assert 0 < told("lateness_ms_sum") < 1_000
    await park(stage, (b"d", 10))
    await stage.until(lambda: told("lateness_ms_count") == 2, "d")
    await cancel(stage, 0)
    assert told("cancelled_total") == 1
    await stage.alter_configs("now", {"max.message.bytes": "500"})
    await park(stage, (b"x" * 600, 10))
    await stage.until(lambda: told("held") == told("planned") == 1, "a record that does not fit")
    await stage.create_topic("dead", 1)
    await stage.alter_configs("later", {"minikafka.deadletter.topic": "dead"})
    await park(stage, (b"y" * 600, 10))
    await stage.until(lambda: told("deadlettered_total") == 1, "a dead letter")
    await stage.alter_configs("later", {"minikafka.delay.paused": "true"})
    await reschedule(stage, {1: None})
    await stage.until(lambda: told("overdue_seconds") > 1, "b is late")
    await stage.alter_configs("later", {"minikafka.delay.undeliverable.ms": "1000"})
    await stage.alter_configs("later", {"minikafka.deadletter.topic": None})
    await stage.delete_topic("now")
    await stage.alter_configs("later", {"minikafka.delay.paused": None})
    await stage.until(lambda: told("dropped_total") >= 1, "nobody takes b", 60)
    stage.skew(1, 30_000)
    await stage.until(lambda: told("clock_held") == 1, "its clock is far ahead", 30)
    stage.skew(1, -30_000)
    await stage.until(lambda: told("clock_held") == 0, "its clock is right", 30)


@staged()
async def test_r_24_what_is_deleted_while_it_waits_counts_as_cancelled(stage: Stage) -> None:
    await delay_topic(stage)
    await park(stage, (b"a", 100))
    await until_idle(stage)
    await park(stage, (b"b", 2_000), (b"c", MINUTE_MS))
    (first, *_) = await listed(stage)
    await park(stage, (b"d", 2_000))
    await cancel(stage, first.offset)
    source = source_of(stage, 1)
    assert source.counts.cancelled == 1
    behind = (await listed(stage))[-1].offset + 1
    stage.invariants.on_delete_asked(("later", 0), behind)
    await stage.admin(lambda admin: admin.delete_records({HERE: behind}))
    await stage.until(lambda: source.counts.cancelled == 2, "c is counted, and b not again")
    await until_idle(stage)
    assert [record.value for record in await in_target(stage)] == [b"a", b"d"]
    assert [source_of(stage, each).counts.cancelled for each in (2, 3)] == [0, 0]


@staged()
async def test_r_17_a_record_is_shown_with_its_state_and_found_by_its_key(stage: Stage) -> None:
    await delay_topic(stage)
    client = await park(stage, (b"a", 100), (b"b", MINUTE_MS), (b"c", MINUTE_MS), (b"d", MINUTE_MS))
    now_ms = client.runtime.wall_ms()
    await cancel(stage, 2)
    await reschedule(stage, {3: now_ms + 7 * MINUTE_MS})
    await stage.until(lambda: stage.partition(2, "now").high_watermark == 1, "a")
    await stage.sleep(2)

    async def ask(do: Callable[[Admin], Awaitable[Any]]) -> Any:
        return await stage.admin(do)

    shown = [
        await ask(partial(show, partition=HERE, offset=offset, runtime=client.runtime))
        for offset in range(4)
    ]
    assert [each.state for each in shown] == [
        State.OVER,
        State.WAITS,
        State.CANCELLED,
        State.WAITS,
    ]
    assert shown[1].due_ms == shown[1].record.timestamp_ms + MINUTE_MS
    assert shown[3].due_ms == now_ms + 7 * MINUTE_MS
    assert (shown[1].targets, shown[1].record.value) == (("now",), b"b")
    with pytest.raises(AdminError, match="OFFSET_OUT_OF_RANGE"):
        await ask(partial(show, partition=HERE, offset=99, runtime=client.runtime))
    found = await listed(stage)
    of_key = await ask(partial(with_key, found=found, key=b"d", runtime=client.runtime))
    assert [each.offset for each in of_key] == [3]
    stage.block(1, 2)
    await reschedule(stage, {3: None})
    source = source_of(stage, 1)
    await stage.until(lambda: bool(source.schedule.state.plans), "a plan that is not sent", 30)
    planned = await ask(partial(show, partition=HERE, offset=3, runtime=client.runtime))
    assert (planned.state, planned.due_ms) == (State.PLANNED, 0)
