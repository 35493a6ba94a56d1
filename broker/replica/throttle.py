"""A bound on bytes per second: for replicas that catch up or move, and for what is forwarded.

Pure. Bytes are counted after they were transferred, and may exceed the bound. The next fetch then
waits until enough time has passed for the excess. A burst of one second's bytes is allowed. The
fetching code decides which replicas are throttled; replicas in sync never are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...runtime.config import INT64_MAX

PAUSE_MIN_MS = 20
"""The shortest pause of a throttled fetch, in ms."""
PAUSE_MAX_MS = 1000
ALL_REPLICAS: Final = ("*",)


@dataclass(slots=True)
class Throttle:
    """The bound on one direction (`rate`, in bytes per second), and its use so far."""

    rate: int = INT64_MAX
    _owed: float = 0
    """Bytes that were transferred and are not yet paid for by time."""
    _paid_at_ms: int = 0

    @property
    def is_on(self) -> bool:
        """True if there is a bound."""
        return self.rate < INT64_MAX

    def spend(self, count: int, now_ms: int) -> None:
        """Note that `count` bytes were transferred."""
        self._pay(now_ms)
        self._owed += count

    def is_exceeded(self, now_ms: int) -> bool:
        """True if the bytes of a whole second, or more, are not yet paid for by time."""
        self._pay(now_ms)
        return self._owed >= self.rate

    def free_at_ms(self, now_ms: int) -> int:
        """Return the time (monotonic ms) at which to try again."""
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
    """The bounds of one broker: serving followers that catch up, catching up, moves, forwarding."""

    leader: Throttle = field(default_factory=Throttle)
    follower: Throttle = field(default_factory=Throttle)
    moves: Throttle = field(default_factory=Throttle)
    """The bound for replicas that move from one directory of this broker to another."""
    forward: Throttle = field(default_factory=Throttle)
    """The bound for what this broker forwards from delay topics and by rules."""


def names(replicas: Sequence[str], index: int, broker_id: int) -> bool:
    """True if a list of throttled replicas names the replica of `index` on this broker."""
    return tuple(replicas) == ALL_REPLICAS or f"{index}:{broker_id}" in replicas
