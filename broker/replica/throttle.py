"""A bound on bytes per second for copies that catch up, so that they leave room for the rest.

Pure. Spending is noted after the fact and may overdraw: the next caller waits until it is paid
back. A second's worth may be spent at once. The fetching code decides which copies are bound;
in-sync copies never are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...runtime.config import INT64_MAX

PAUSE_MIN_MS = 20
"""The shortest pause of a throttled fetch, which is in no hurry."""
PAUSE_MAX_MS = 1000
ALL_REPLICAS: Final = ("*",)


@dataclass(slots=True)
class Throttle:
    """Bytes a second in one direction."""

    rate: int = INT64_MAX
    _owed: float = 0
    """Bytes spent and not yet paid back."""
    _paid_at_ms: int = 0

    @property
    def is_on(self) -> bool:
        """True if there is a bound."""
        return self.rate < INT64_MAX

    def spend(self, count: int, now_ms: int) -> None:
        """Note that `count` bytes were moved."""
        self._pay(now_ms)
        self._owed += count

    def is_exceeded(self, now_ms: int) -> bool:
        """True if more has been spent than a second allows."""
        self._pay(now_ms)
        return self._owed >= self.rate

    def free_at_ms(self, now_ms: int) -> int:
        """Return the time from which asking again is worth while."""
        self._pay(now_ms)
        pause_ms = (self._owed - self.rate) * 1000 / self.rate if self.rate else PAUSE_MAX_MS
        return now_ms + int(min(max(pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS))

    def _pay(self, now_ms: int) -> None:
        if now_ms > self._paid_at_ms:
            paid = self.rate * (now_ms - self._paid_at_ms) / 1000
            self._owed = max(0.0, self._owed - paid)
            self._paid_at_ms = now_ms


@dataclass(frozen=True, slots=True)
class Throttles:
    """The bounds for serving followers that catch up, and for catching up as one."""

    leader: Throttle = field(default_factory=Throttle)
    follower: Throttle = field(default_factory=Throttle)


def names(replicas: Sequence[str], index: int, broker_id: int) -> bool:
    """True if a list of throttled replicas names the copy of partition `index` on this broker."""
    return tuple(replicas) == ALL_REPLICAS or f"{index}:{broker_id}" in replicas
