"""The wait before another attempt: constant at first, then doubling up to a maximum, with jitter.

Pure: the random numbers are passed in. Never sleeps.
"""

from dataclasses import dataclass
from typing import Protocol


class Dice(Protocol):
    """The part of `random.Random` that jitter needs."""

    def random(self) -> float:
        """Return a random number from 0 up to, but not including, 1."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of `first_ms`, `steady_count` times; after these each is double, up to `most_ms`.

    Most outages are elections that end within a second, and steady waits end soon after them. Each
    wait is shorter or longer by a random fraction of up to `jitter`.
    """

    first_ms: int
    most_ms: int
    steady_count: int = 20
    jitter: float = 0.2

    def after(self, failure_count: int, dice: Dice) -> int:
        """Return the ms to wait after `failure_count` (1 or more) failures in a row."""
        # More than 30 doublings make only larger numbers, of which the maximum is taken anyway.
        doublings = min(max(failure_count - self.steady_count, 0), 30)
        base = min(self.first_ms << doublings, self.most_ms)
        return max(1, round(base * (1 + self.jitter * (2 * dice.random() - 1))))
