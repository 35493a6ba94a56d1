"""Decides when a micro-batch is large enough to begin, from counts and the time.

It works as the JVM connector's minOffsetsPerTrigger and maxTriggerDelay. offsets.py limits how much
a micro-batch reads.
"""

from .source_options import Admission


class Gathering:
    """Delays a micro-batch until there is enough to read, or the last one began long ago."""

    def __init__(self, admission: Admission) -> None:
        self._least = admission.min_offsets or 0
        self._delay_seconds = admission.max_delay_ms / 1000
        self._last: float | None = None

    def is_too_early(self, waiting: int, now: float) -> bool:
        """True if `waiting` unread offsets should wait for more; if False, a batch begins now.

        `now` is in seconds. The first batch of a query, also after a restart, begins with any
        records.
        """
        if self._least == 0:
            return False
        is_due = self._last is None or now - self._last >= self._delay_seconds
        if waiting == 0 or (waiting < self._least and not is_due):
            return True
        self._last = now
        return False
