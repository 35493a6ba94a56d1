"""The time for which a broker reads nothing from a connection, as its answers said (KIP-219).

Pure. Whoever takes connections from the pool waits for its end.
"""

from collections.abc import Callable
from typing import Any, Final

from ...protocol.api import ApiKey

PACED_BY_THEMSELVES: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""The requests whose throttle time is the time of the next one, and holds nothing else up."""


class Throttle:
    """The throttle of one connection."""

    __slots__ = ("until_ms",)

    def __init__(self) -> None:
        self.until_ms = 0
        """The monotonic time of its end in ms; 0 if there never was one."""

    def note(self, key: int, answer: Any, now_ms: Callable[[], int]) -> None:
        """Note the throttle time in an answer to a request of that API, if there is one."""
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms and key not in PACED_BY_THEMSELVES:
            self.until_ms = max(self.until_ms, now_ms() + throttle_ms)
