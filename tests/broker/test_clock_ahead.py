"""How far the clock is ahead; whoever waits because of it is told to look again."""

from minikafka.broker.control.clock_ahead import ClockAhead


class Clocks:
    """A runtime of which only the clocks count."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_000_000, 0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def run(self, ms: int) -> None:
        self.wall, self.monotonic = self.wall + ms, self.monotonic + ms


def test_the_controller_says_how_far_it_is_ahead_and_who_waits_looks_again() -> None:
    runtime, told = Clocks(), list[int]()
    clock = ClockAhead(runtime)  # type: ignore[arg-type]
    clock.on_noted = lambda: told.append(clock.ms)
    assert not clock.is_ahead_by(1_000)
    clock.on_heartbeat_answered(1_001)
    assert told == []
    assert clock.is_ahead_by(1_000)
    assert not clock.is_ahead_by(1_001)
    runtime.run(5_000)
    clock.on_heartbeat_answered(None)  # A new controller, which does not know it yet.
    assert (told, clock.is_ahead_by(1_000)) == ([1_001], True)
    clock.on_heartbeat_answered(-5)
    assert told == [1_001, -5]
    clock.on_heartbeat_answered(-5)
    assert told == [1_001, -5]


def test_a_clock_that_is_set_between_two_heartbeats_is_ahead_at_once() -> None:
    runtime = Clocks()
    clock = ClockAhead(runtime)  # type: ignore[arg-type]
    clock.on_heartbeat_answered(0)
    runtime.run(60_000)
    assert not clock.is_ahead_by(0)
    runtime.wall += 10_000
    assert (clock.is_ahead_by(9_999), clock.ms) == (True, 10_000)
    runtime.wall -= 20_000
    assert clock.ms == -10_000
