"""Closes connections that ask nothing for long."""

from typing import Protocol

from ..deadlines import Deadline
from ..edge import Edge


class Client(Protocol):
    """A connection, as far as its silence is concerned."""

    started: int
    """Requests handled so far."""

    @property
    def awaits_answers(self) -> bool:
        """True if a request of the peer is not answered yet."""

    def shed(self) -> None:
        """Give back what is held for speed only."""

    def close_after_answers(self, why: str) -> None:
        """End the connection."""


class Idleness:
    """Closes a client silent for one to two idle times.

    It looks once per idle time, not per request; half a frame does not count as a sign of life.
    """

    __slots__ = ("_client", "_edge", "_started_before", "_timer")

    def __init__(self, edge: Edge, client: Client) -> None:
        self._edge = edge
        self._client = client
        self._started_before = 0
        self._timer: Deadline | None = None

    @property
    def is_silent(self) -> bool:
        """True if the peer asked nothing since the last look."""
        return self._client.started == self._started_before

    def watch(self) -> None:
        """Look again after the idle time, if there is one."""
        idle_ms = self._edge.limits.connections_max_idle_ms
        if idle_ms < 0:
            return
        self._started_before = self._client.started
        now_ms = self._edge.runtime.monotonic_ms()
        self._timer = self._edge.deadlines.at(now_ms + idle_ms, self.look)

    def look(self) -> None:
        """Close the client if it asked nothing and waits for nothing."""
        self._timer = None
        if self.is_silent and not self._client.awaits_answers:
            self._client.close_after_answers("idle")
        else:
            self._client.shed()
            self.watch()

    def end(self) -> None:
        """Look no more: the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._client  # It holds us: so it is freed at once, not when the collector comes by.
