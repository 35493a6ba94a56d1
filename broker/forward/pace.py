"""The pauses of a source: after failures, and between steps of few records.

Pure. All times are monotonic, in ms.
"""

from typing import Final

QUIET_MS: Final = 1_000
"""How long answers of targets wait for a step that is written anyway."""
REST_MS: Final = 200
"""The pause after an attempt that failed on this broker."""
PACE_MS: Final = 10
"""The least time between steps of few records, each of which costs as much as a small batch."""
LOOK_MS: Final = 60_000
"""The longest wait for a record that is due, in case the wall clock is set."""


THROTTLE_FROM: Final = 0.8
"""The part of the records that may wait from which on producers are held back."""
THROTTLE_MS: Final = 1_000
"""The time for which a producer is held back at most, after each request."""


def throttle_ms(pending: int, most: int) -> int:
    """Return for how many ms producers are held back while `pending` records wait, of `most`."""
    part = (pending / most - THROTTLE_FROM) / (1 - THROTTLE_FROM)
    return 0 if part < 0 else max(1, round(min(part, 1.0) * THROTTLE_MS))


class Pace:
    """The pauses of one source."""

    __slots__ = ("_ends_due_ms", "_paced_until_ms", "_rest_until_ms")

    def __init__(self) -> None:
        self._ends_due_ms = 0
        self._paced_until_ms = 0
        self._rest_until_ms = 0

    def rest(self, now_ms: int) -> None:
        """Pause, because reading or writing has failed."""
        self._rest_until_ms = now_ms + REST_MS

    def is_resting(self, now_ms: int) -> bool:
        """True during the pause after a failure."""
        return now_ms < self._rest_until_ms

    def on_taken(self, count: int, most: int, now_ms: int) -> None:
        """Note that `count` due records, of at most `most`, are planned now."""
        if 0 < count < most:
            self._paced_until_ms = now_ms + PACE_MS

    def may_take(self, now_ms: int) -> bool:
        """True if due records may be planned now."""
        return now_ms >= self._paced_until_ms

    def on_first_end(self, now_ms: int) -> None:
        """Note that an answer of a target waits to be written down."""
        self._ends_due_ms = now_ms + QUIET_MS

    def are_ends_due(self, now_ms: int) -> bool:
        """True if answers have waited for long enough, and are written alone."""
        return now_ms >= self._ends_due_ms

    def next_ms(self, now_ms: int, due_in_ms: int | None, *, has_ends: bool) -> int | None:
        """Return the time of the next attempt; None if nothing waits.

        `due_in_ms` says how long it is until a record is due that may be planned.
        """
        if self.is_resting(now_ms):
            return self._rest_until_ms
        times = [self._ends_due_ms] if has_ends else []
        if due_in_ms is not None:
            wait_ms = min(max(0, due_in_ms), LOOK_MS)
            times.append(max(now_ms + wait_ms, self._paced_until_ms))
        return min(times, default=None)
