"""The wait before another attempt: doubling, capped, spread by jitter.

Pure: the dice are passed in. Never sleeps.
"""

from dataclasses import dataclass
from typing import Protocol


class Dice(Protocol):
    """The part of `random.Random` that jitter needs."""

    def random(self) -> float:
        """A number from 0 up to 1, without 1."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of `first_ms`, after `steady_count` of them doubling up to `most_ms`.

    The steady ones come first because most outages are elections, over within a second: they
    should end when the election does. Each wait is up to `jitter` shorter or longer.
    """

    first_ms: int
    most_ms: int
    steady_count: int = 20
    jitter: float = 0.2

    def after(self, failure_count: int, dice: Dice) -> int:
        """Milliseconds to wait after `failure_count` failures in a row (at least 1)."""
        # A shift beyond 30 could only overflow what the cap cuts off anyway.
        doublings = min(max(failure_count - self.steady_count, 0), 30)
        base = min(self.first_ms << doublings, self.most_ms)
        return max(1, round(base * (1 + self.jitter * (2 * dice.random() - 1))))
