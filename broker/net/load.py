"""How many bytes of requests and responses the edge holds, in all connections together.

Owns two counters, their caps, and who stopped reading because of them. It never looks inside a
request; what one connection alone may hold is that connection's own business.
"""

from typing import Protocol


class Reader(Protocol):
    """Somebody who stops reading while the edge holds too much."""

    def on_relief(self) -> None:
        """There is room again: read on."""


class Load:
    """The bytes held in all. Readers that found it over are called back, oldest first."""

    def __init__(self, *, max_request_bytes: int, max_response_bytes: int) -> None:
        self._max_request_bytes = max_request_bytes
        self._max_response_bytes = max_response_bytes
        self._waiting: dict[Reader, None] = {}
        self.request_bytes = 0
        self.response_bytes = 0

    @property
    def is_over(self) -> bool:
        """Is either cap exceeded?"""
        return (
            self.request_bytes > self._max_request_bytes
            or self.response_bytes > self._max_response_bytes
        )

    def add(self, *, request_bytes: int = 0, response_bytes: int = 0) -> None:
        """Count bytes taken up, or given back when negative."""
        was_over = self.is_over
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        if was_over and not self.is_over:
            waiting, self._waiting = self._waiting, {}
            for reader in waiting:
                reader.on_relief()

    def wait(self, reader: Reader) -> None:
        """Call `reader.on_relief` once there is room again."""
        self._waiting[reader] = None

    def forget(self, reader: Reader) -> None:
        """The reader is gone."""
        self._waiting.pop(reader, None)
