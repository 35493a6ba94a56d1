"""Decides when a micro-batch is worth its while, from counts and a clock's readings.

As the JVM connector's minOffsetsPerTrigger and maxTriggerDelay; how much a micro-batch takes at
most is offsets.py's.
"""

from .source_options import Admission


class Gathering:
    """Holds micro-batches back until there is enough to read, or the last is long ago."""

    def __init__(self, admission: Admission) -> None:
        self._least = admission.min_offsets or 0
        self._delay_seconds = admission.max_delay_ms / 1000
        self._last: float | None = None

    def is_too_early(self, waiting: int, now: float) -> bool:
        """True if `waiting` offsets should wait for more; False begins a micro-batch at `now`.

        `now` is in seconds. The first batch of a query, also after a restart, is never held back.
        """
        if self._least == 0:
            return False
        is_due = self._last is None or now - self._last >= self._delay_seconds
        if waiting == 0 or (waiting < self._least and not is_due):
            return True
        self._last = now
        return False
