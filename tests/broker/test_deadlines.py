"""The wheel: never early, in order, one timer."""

import asyncio

import pytest

from minikafka.broker.deadlines import EMPTY_MAX, NOTCH_MS, Deadlines
from minikafka.runtime.runtime import SystemRuntime


class Wheel(Deadlines):
    """Turned by hand."""

    def __init__(self) -> None:
        self.now_ms = 0
        runtime = SystemRuntime()
        runtime.monotonic_ms = lambda: self.now_ms  # type: ignore[method-assign]
        super().__init__(runtime)
        self.fired: list[str] = []

    def arm(self, at_ms: int, name: str) -> object:
        return self.at(at_ms, lambda: self.fired.append(name))

    def turn_to(self, now_ms: int) -> list[str]:
        self.now_ms = now_ms
        self._turn()
        fired, self.fired = self.fired, []
        return fired


@pytest.fixture
async def wheel() -> Wheel:
    return Wheel()


async def test_nothing_fires_before_its_time(wheel: Wheel) -> None:
    wheel.arm(105, "a")
    assert wheel.turn_to(104) == []
    assert wheel.turn_to(105) == [], "rounded up to the next notch"
    assert wheel.turn_to(105 + NOTCH_MS) == ["a"]


async def test_earlier_notches_fire_first_and_one_notch_in_order_of_arming(wheel: Wheel) -> None:
    for at_ms, name in ((50, "late"), (20, "a"), (15, "b")):
        wheel.arm(at_ms, name)
    assert wheel.turn_to(100) == ["a", "b", "late"]


async def test_a_cancelled_deadline_never_fires(wheel: Wheel) -> None:
    first = wheel.at(20, lambda: second.cancel())
    second = wheel.at(20, lambda: wheel.fired.append("second"))
    third = wheel.at(20, lambda: wheel.fired.append("third"))
    third.cancel()
    third.cancel()
    assert wheel.turn_to(30) == []
    first.cancel()


async def test_cancelled_deadlines_leave_nothing_however_far_they_were(wheel: Wheel) -> None:
    """Clients choose such times, and their connections may end at once."""
    wheel.arm(15_000 * NOTCH_MS, "kept")
    for notch in range(10_000, 20_000):
        wheel.at(notch * NOTCH_MS, lambda: wheel.fired.append("cancelled")).cancel()
        assert len(wheel._notches) == len(wheel._order) <= 2 * EMPTY_MAX
    wheel.arm(12_000 * NOTCH_MS, "earlier")
    assert wheel.turn_to(20_000 * NOTCH_MS) == ["earlier", "kept"]
    assert not wheel._order


async def test_one_armed_for_the_past_waits_for_the_next_turn(wheel: Wheel) -> None:
    def arm_again() -> None:
        wheel.arm(10, "again")

    wheel.at(20, arm_again)
    assert wheel.turn_to(30) == []
    assert wheel.turn_to(30) == ["again"]


async def test_the_loops_timer_turns_the_wheel_and_is_gone_afterwards() -> None:
    runtime = SystemRuntime()
    wheel, fired = Deadlines(runtime), asyncio.Event()
    wheel.at(runtime.monotonic_ms() + 5, fired.set)
    await asyncio.wait_for(fired.wait(), 5)
    assert wheel._timer is None


async def test_a_closed_wheel_fires_nothing(wheel: Wheel) -> None:
    wheel.arm(10, "a")
    wheel.close()
    assert wheel.turn_to(100) == []


async def test_one_that_fails_takes_no_other_along(wheel: Wheel) -> None:
    def fail() -> None:
        raise ValueError("a mistake of its own")

    wheel.arm(5, "before")
    wheel.at(10, fail)
    wheel.arm(10, "beside")
    wheel.arm(20, "behind")
    with pytest.raises(ValueError, match="of its own"):
        wheel.turn_to(20)
    assert wheel.turn_to(20) == ["before", "beside", "behind"]
