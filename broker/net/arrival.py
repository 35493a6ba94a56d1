"""A new connection before it is served: it waits if connections come faster than allowed.

Kafka's acceptor sleeps while connections come too fast. An asyncio server cannot pause accepting,
so connections are accepted and held. Their clients notice no difference, and each connection costs
a descriptor and at most EARLY_MAX bytes.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from ...client.net.handshakes import feed
from ...security.listener import Listener
from ..edge import Edge

EARLY_MAX: Final = 4096
"""The most bytes that are read from a connection that waits; then reading pauses."""


class Arriving(asyncio.BufferedProtocol):
    """One new connection that is not served yet. `make` returns the protocol that serves it."""

    def __init__(
        self, edge: Edge, listener: Listener, make: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self.host = self.peer = "?"
        self.listener = listener
        self._edge = edge
        self._make = make
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._buffer = bytearray(EARLY_MAX)
        self._early = b""
        self._is_read = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection to `Entrance`, which decides when it is served."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        self._edge.entrance.arrive(self)
        self._is_read = True  # The loop begins to read after this call, whatever it has done.

    def get_buffer(self, sizehint: int) -> Any:
        """Return the buffer for the first bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Keep the first bytes, and read no more until the connection is served."""
        self._early = bytes(self._buffer[:nbytes])
        self._transport.pause_reading()
        self._is_read = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from `Entrance`."""
        self._edge.entrance.forget(self)

    def serve(self) -> None:
        """Hand the connection to the protocol that serves it, with the bytes that came early."""
        transport = self._transport
        if transport.is_closing():
            return
        protocol = self._make()
        is_under_way = self._is_read or bool(self._early)
        if self._is_read:
            transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if is_under_way and not transport.is_closing():
            transport.resume_reading()
            feed(protocol, self._early)

    def turn_away(self, why: str) -> None:
        """Close the connection at once, and log the reason."""
        edge = self._edge
        edge.doors.refused += 1
        edge.refusals.close(self.peer, why, edge.runtime.monotonic_ms())
        self._transport.abort()
