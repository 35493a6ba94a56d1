"""The wait before another attempt: constant at first, then doubling up to a maximum, with jitter.

Pure: random numbers are passed in, and the caller sleeps.
"""

from dataclasses import dataclass
from typing import Protocol


class Dice(Protocol):
    """The part of `random.Random` that jitter needs."""

    def random(self) -> float:
        """Return a random number from 0 up to, but not including, 1."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits after failures: `steady_count` waits of `first_ms`, then doubling up to `most_ms`.

    Most outages are elections that end within a second, and short steady waits end soon after. Each
    wait is made shorter or longer by a random fraction of up to `jitter`.
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
