"""The measured values of clients: totals, and recent rates, averages and maxima.

Pure: the caller passes the time. As in Kafka, "recent" means the last two samples of 30 s: one that
is complete and the one being filled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

SAMPLE_MS: Final = 30_000
NOTHING: Final = float("nan")
"""The average or maximum of no values, as Kafka's clients report it."""


class Clock(Protocol):
    """A monotonic clock, as `Runtime` has it."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some point in the past."""

    def monotonic_us(self) -> int:
        """Return microseconds since the same point."""


@dataclass(slots=True)
class _Sample:
    count: int = 0
    total: float = 0.0
    highest: float = float("-inf")


@dataclass(slots=True, eq=False)
class Stat:
    """The count, sum, recent rate, recent average and recent maximum of one measured quantity."""

    _begun_ms: int
    count: int = 0
    total: float = 0.0
    _now: _Sample = field(default_factory=_Sample)
    _then: _Sample = field(default_factory=_Sample)

    def record(self, value: float, now_ms: int) -> None:
        """Add one measured value."""
        self._move_on(now_ms)
        self.count += 1
        self.total += value
        sample = self._now
        sample.count += 1
        sample.total += value
        if value > sample.highest:
            sample.highest = value

    def rate(self, now_ms: int) -> float:
        """Return the recent sum of values per second."""
        self._move_on(now_ms)
        elapsed_ms = max(now_ms - self._begun_ms, 0) + SAMPLE_MS
        return (self._now.total + self._then.total) * 1000 / elapsed_ms

    def per_second(self, now_ms: int) -> float:
        """Return the recent number of values per second."""
        self._move_on(now_ms)
        elapsed_ms = max(now_ms - self._begun_ms, 0) + SAMPLE_MS
        return (self._now.count + self._then.count) * 1000 / elapsed_ms

    def average(self, now_ms: int) -> float:
        """Return the recent average; NaN if there is no value."""
        self._move_on(now_ms)
        count = self._now.count + self._then.count
        return (self._now.total + self._then.total) / count if count else NOTHING

    def highest(self, now_ms: int) -> float:
        """Return the recent maximum; NaN if there is no value."""
        self._move_on(now_ms)
        if not self._now.count and not self._then.count:
            return NOTHING
        return max(self._now.highest, self._then.highest)

    def spread(self, name: str, now_ms: int) -> dict[str, float]:
        """Return the recent average and maximum as `{name}-avg` and `{name}-max`."""
        return {f"{name}-avg": self.average(now_ms), f"{name}-max": self.highest(now_ms)}

    def counts(self, name: str, now_ms: int) -> dict[str, float]:
        """Return the number of values and its rate per second, as `{name}-total`, `{name}-rate`."""
        return {f"{name}-total": float(self.count), f"{name}-rate": self.per_second(now_ms)}

    def sums(self, name: str, now_ms: int) -> dict[str, float]:
        """Return the sum of values and its rate per second, as `{name}-total`, `{name}-rate`."""
        return {f"{name}-total": self.total, f"{name}-rate": self.rate(now_ms)}

    def _move_on(self, now_ms: int) -> None:
        passed = (now_ms - self._begun_ms) // SAMPLE_MS
        if passed <= 0:
            return
        self._then = self._now if passed == 1 else _Sample()
        self._now = _Sample()
        self._begun_ms += passed * SAMPLE_MS


class TimeSpent:
    """The total time that calls took since the client was made, by kind of call."""

    def __init__(self, clock_us: Callable[[], int], kinds: tuple[str, ...]) -> None:
        """`clock_us` returns a monotonic time in microseconds."""
        self._clock_us = clock_us
        self._spent_us = dict.fromkeys(kinds, 0)

    @contextmanager
    def counted(self, kind: str) -> Iterator[None]:
        """Add the time that the block takes to the total of `kind`, even if the block raises."""
        begun_us = self._clock_us()
        try:
            yield
        finally:
            self._spent_us[kind] += self._clock_us() - begun_us

    def read(self) -> dict[str, float]:
        """Return the nanoseconds of each kind as `{kind}-time-ns-total`."""
        return {f"{kind}-time-ns-total": us * 1000.0 for kind, us in self._spent_us.items()}
