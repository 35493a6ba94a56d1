"""Waiting for commits: by offset, by deadline, in any order of arrival."""

import pytest

from minikafka.broker.deadlines import NOTCH_MS, Deadlines
from minikafka.broker.partition.requests import Appended
from minikafka.broker.partition.waiters import CommitWaiters, Waiter
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.runtime import SystemRuntime


class Waiting:
    """A queue of commit waiters under a clock of our own."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        runtime = SystemRuntime()
        runtime.monotonic_ms = lambda: self.now_ms  # type: ignore[method-assign]
        self.wheel = Deadlines(runtime)
        self.waiters = CommitWaiters(self.wheel)
        self.told: list[tuple[int, str]] = []

    def add(self, offset: int, deadline_ms: int = 60_000) -> Waiter:
        appended = Appended()
        waiter = Waiter(
            offset, appended, deadline_ms, lambda: self.told.append((offset, appended.error.name))
        )
        self.waiters.add(waiter)
        return waiter

    def pass_time(self, until_ms: int) -> None:
        self.now_ms = until_ms
        self.wheel._turn()


@pytest.fixture
async def waiting() -> Waiting:
    return Waiting()


async def test_all_below_the_high_watermark_are_told_in_offset_order(waiting: Waiting) -> None:
    for offset in (2, 4, 6):
        waiting.add(offset)
    waiting.waiters.complete(5, ErrorCode.NONE)
    assert waiting.told == [(2, "NONE"), (4, "NONE")]
    assert len(waiting.waiters) == 1


async def test_a_repeat_of_an_older_batch_waits_for_its_own_offset(waiting: Waiting) -> None:
    for offset in (2, 6, 4):
        waiting.add(offset)
    waiting.waiters.complete(4, ErrorCode.NONE)
    assert waiting.told == [(2, "NONE"), (4, "NONE")]


async def test_a_cancelled_waiter_is_told_nothing(waiting: Waiting) -> None:
    waiting.add(2).cancel()
    waiting.add(3)
    waiting.waiters.complete(9, ErrorCode.NONE)
    assert waiting.told == [(3, "NONE")]


async def test_only_those_whose_time_is_up_are_told_so(waiting: Waiting) -> None:
    waiting.add(2, deadline_ms=3_000)
    waiting.add(4, deadline_ms=2_000)
    waiting.pass_time(2_000 + NOTCH_MS)
    assert waiting.told == [(4, "REQUEST_TIMED_OUT")]
    waiting.pass_time(3_000 + NOTCH_MS)
    assert waiting.told[1:] == [(2, "REQUEST_TIMED_OUT")]
    assert len(waiting.waiters) == 0


async def test_a_failure_is_everybodys(waiting: Waiting) -> None:
    waiting.add(2)
    waiting.add(4)
    waiting.waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert waiting.told == [(2, "NOT_LEADER_OR_FOLLOWER"), (4, "NOT_LEADER_OR_FOLLOWER")]


async def test_too_few_replicas_are_said_at_the_commit(waiting: Waiting) -> None:
    waiting.add(2)
    waiting.waiters.complete(2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert waiting.told == [(2, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")]


async def test_once_empty_no_timer_is_left(waiting: Waiting) -> None:
    waiting.add(2, deadline_ms=2_000)
    waiting.waiters.complete(2, ErrorCode.NONE)
    waiting.pass_time(5_000)
    assert waiting.told == [(2, "NONE")]
    assert waiting.wheel._timer is None
