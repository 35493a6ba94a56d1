"""How long to wait before trying again: doubling, capped, spread by jitter.

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
    """Waits of `first_ms`, then twice as long each time up to `most_ms`, each up to 20 % off."""

    first_ms: int
    most_ms: int
    jitter: float = 0.2

    def after(self, failure_count: int, rng: Dice) -> int:
        """Milliseconds to wait after `failure_count` failures in a row (at least 1)."""
        # A shift beyond 30 could only overflow what the cap cuts off anyway.
        doubled = self.first_ms << min(max(failure_count - 1, 0), 30)
        base = min(doubled, self.most_ms)
        return max(1, round(base * (1 + self.jitter * (2 * rng.random() - 1))))
