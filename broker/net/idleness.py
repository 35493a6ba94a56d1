"""Closes connections whose client has sent no request for connections.max.idle.ms."""

from typing import Protocol

from ..deadlines import Deadline
from ..edge import Edge


class Client(Protocol):
    """A connection that is closed if it is idle for too long."""

    started: int
    """The number of requests handled so far."""

    @property
    def awaits_answers(self) -> bool:
        """True if a request of the peer is not answered yet."""

    def shed(self) -> None:
        """Free the receive buffer if it is empty; it is only kept for speed."""

    def close_after_answers(self, why: str) -> None:
        """End the connection."""


class Idleness:
    """Closes a connection whose client has sent no request for one to two idle times.

    It checks once per idle time, not at each request. A partly received request does not count.
    """

    __slots__ = ("_client", "_edge", "_started_before", "_timer")

    def __init__(self, edge: Edge, client: Client) -> None:
        self._edge = edge
        self._client = client
        self._started_before = 0
        self._timer: Deadline | None = None

    @property
    def is_silent(self) -> bool:
        """True if the client has sent no request since the last check."""
        return self._client.started == self._started_before

    def watch(self) -> None:
        """Schedule the first check, unless idle connections are never closed."""
        idle_ms = self._edge.limits.connections_max_idle_ms
        if idle_ms < 0:
            return
        self._started_before = self._client.started
        now_ms = self._edge.runtime.monotonic_ms()
        self._timer = self._edge.deadlines.at(now_ms + idle_ms, self.look)

    def look(self) -> None:
        """Close the client if it has sent no request and awaits no answer; else check later."""
        self._timer = None
        if self.is_silent and not self._client.awaits_answers:
            self._client.close_after_answers("idle")
        else:
            self._client.shed()
            self.watch()

    def end(self) -> None:
        """Stop checking, because the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._client  # This ends a cycle, so that the client is freed at once.
