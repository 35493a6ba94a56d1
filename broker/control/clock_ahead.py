"""Knows how far the wall clock of this broker is ahead of the other brokers'.

The controller says so with each heartbeat. If the clock is set between two heartbeats, it has
gained on the monotonic clock, which counts too.
"""

import logging
from collections.abc import Callable

from ...runtime.runtime import Runtime

log = logging.getLogger(__name__)


class ClockAhead:
    """The wall clock of this broker beside those of the others."""

    def __init__(self, runtime: Runtime) -> None:
        self.on_noted: Callable[[], None] = lambda: None
        """Called after a heartbeat if somebody has found the clock ahead since the one before."""
        self._runtime = runtime
        self._told_ms = 0
        self._gained_ms = self._gain_ms()
        self._was_found_ahead = False

    @property
    def ms(self) -> int:
        """About how many ms this clock is ahead; negative if it is behind."""
        return self._told_ms + self._gain_ms() - self._gained_ms

    def is_ahead_by(self, most_ms: int) -> bool:
        """Return True if this clock is more than `most_ms` ahead; ask again when told so."""
        is_ahead = self.ms > most_ms
        if is_ahead and not self._was_found_ahead:
            self._was_found_ahead = True
            log.warning("the wall clock is %d ms ahead of the other brokers'", self.ms)
        return is_ahead

    def on_heartbeat_answered(self, ahead_ms: int | None) -> None:
        """Note how far the controller says that this clock is ahead; None if it does not know."""
        if ahead_ms is not None:
            self._told_ms, self._gained_ms = ahead_ms, self._gain_ms()
        if self._was_found_ahead:
            self._was_found_ahead = False
            self.on_noted()

    def _gain_ms(self) -> int:
        return self._runtime.wall_ms() - self._runtime.monotonic_ms()
