"""Compares the wall clocks of brokers, as their heartbeats tell them; pure.

A heartbeat takes some time to arrive, so a broker is ahead by a little less than is said here.
"""

from collections.abc import Sequence
from typing import Final

MOST_MS: Final = 1 << 50
"""A clock that is further off counts as this far, so that every difference fits into 64 bits."""


class Clocks:
    """How far the wall clock of each broker is from that of this controller."""

    def __init__(self) -> None:
        self._offsets_ms: dict[int, int] = {}

    def note(self, broker_id: int, broker_ms: int, wall_ms: int) -> None:
        """Note the wall time that a broker has told, at this controller's `wall_ms`."""
        offset_ms = broker_ms - wall_ms
        self._offsets_ms[broker_id] = max(-MOST_MS, min(offset_ms, MOST_MS))

    def ahead_ms(self, broker_id: int, living: Sequence[int]) -> int | None:
        """Return how many ms a broker is ahead of the median of those that live, or behind if < 0.

        Of an even number the slower of the two in the middle counts. Return None if the broker, or
        half of the others, have not told their time.
        """
        own = self._offsets_ms.get(broker_id)
        known = sorted(self._offsets_ms[each] for each in living if each in self._offsets_ms)
        if own is None or not known or 2 * len(known) <= len(living):
            return None
        return own - known[(len(known) - 1) // 2]
