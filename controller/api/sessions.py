"""The connections at a controller's port: bounds of their number and of their receive buffers.

If there are too many connections, the oldest that has not yet sent a Hello is closed. The buffers
of registered brokers are not bounded here. If the buffers of all other connections are too large
together, the connection that has held bytes the longest is closed.
"""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .session import Session

HELD_BYTES_MAX: Final = 128 << 20
"""The most bytes in receive buffers of connections that are no broker's: room for two requests of
the largest size.
"""
FREE_BYTES: Final = 64 << 10
"""Bytes that each connection may hold uncounted; requests of other controllers are smaller."""
DESCRIPTORS_KEPT: Final = 128
"""Descriptors kept free for the log, its snapshots, the other controllers, and scrapes."""


class Sessions:
    """The open connections, oldest first. `add` and `note` close some if a bound is exceeded."""

    def __init__(self, descriptor_limit: int) -> None:
        self.all: dict[Session, None] = {}
        self._most = max(descriptor_limit - DESCRIPTORS_KEPT, descriptor_limit // 2)
        self._held: dict[Session, int] = {}
        self._held_bytes = 0
        self.unproved_count = 0
        """The connections that were refused because they did not prove to be of the cluster."""

    @property
    def unsealed_count(self) -> int:
        """The connections that have said Hello and are not sealed."""
        return sum(each.greeting is not None and not each.is_sealed for each in self.all)

    def __len__(self) -> int:
        return len(self.all)

    def add(self, session: "Session") -> None:
        """Add a connection.

        If there are too many, close the oldest that has not yet sent a Hello, which may be the new
        one.
        """
        self.all[session] = None
        if len(self.all) > self._most:
            nameless = next(each for each in self.all if each.greeting is None)
            self._cut(nameless, "its place is needed: as many are connected as can be")

    def note(self, session: "Session", held_bytes: int) -> None:
        """Record the new size of a connection's receive buffer; a broker's is not counted."""
        if session.broker is not None or session not in self.all or held_bytes <= FREE_BYTES:
            held_bytes = 0
        self._held_bytes += held_bytes - self._held.get(session, 0)
        if held_bytes:
            self._held[session] = held_bytes
        else:
            self._held.pop(session, None)
        while self._held_bytes > HELD_BYTES_MAX:
            oldest = next(iter(self._held))
            if oldest.broker is not None:  # It has been bound to a broker since.
                self._held_bytes -= self._held.pop(oldest)
            else:
                self._cut(oldest, "requests half received fill the memory for them")

    def remove(self, session: "Session") -> None:
        """Remove a connection that is closed."""
        self.all.pop(session, None)
        self._held_bytes -= self._held.pop(session, 0)

    def _cut(self, session: "Session", why: str) -> None:
        self.remove(session)
        # Later, because the loop may be asking this very connection for a buffer to read into.
        asyncio.get_running_loop().call_soon(session.stream.abort, why)
