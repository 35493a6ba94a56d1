"""The throttle of a connection: the time for which its broker reads nothing from it (KIP-219).

Pure. The pool hands out a throttled connection only after that time.
"""

from collections.abc import Callable
from typing import Any, Final

from ...protocol.api import ApiKey

PACED_BY_THEMSELVES: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""The requests whose throttle time delays only the next request of the same kind."""


class Throttle:
    """The throttle of one connection."""

    __slots__ = ("until_ms",)

    def __init__(self) -> None:
        self.until_ms = 0
        """The monotonic time in ms at which the throttle ends; 0 if there never was one."""

    def note(self, key: int, answer: Any, now_ms: Callable[[], int]) -> None:
        """Store the throttle time in an answer to a request of API `key`, if it has one."""
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms and key not in PACED_BY_THEMSELVES:
            self.until_ms = max(self.until_ms, now_ms() + throttle_ms)
