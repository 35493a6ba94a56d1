"""The TLS handshakes of new connections; a connection is served once its handshake is complete.

Handshakes are few and have little time: one too many replaces the one that came first.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, cast

from ...security.listener import Listener
from ...security.principal import ANONYMOUS, Principal
from ...security.tls import ListenerTls, reason_of
from ..edge import Edge
from .arrival import feed
from .connection import Connection

HANDSHAKE_MS: Final = 10_000
"""Milliseconds that a client has for its handshake."""
CLOSE_MS: Final = 1_000
"""Milliseconds that a client may take to answer the end of TLS."""
STRANGERS_MAX: Final = 256
"""The most connections whose handshake is not complete."""


class Greetings:
    """The handshakes that are under way on all listeners of a broker."""

    def __init__(self, edge: Edge, listeners: Mapping[str, ListenerTls]) -> None:
        """`listeners` has the TLS of listeners by name."""
        self.edge = edge
        self.listeners = listeners
        self._open: dict[Greeting, None] = {}

    def greet(self, listener: Listener, make: Callable[[], Connection]) -> "Greeting":
        """Return the protocol that makes the handshake; then `make` gives the one that serves."""
        return Greeting(self, listener, make)

    def enter(self, greeting: "Greeting") -> None:
        """Keep a handshake; the oldest of too many is cut off."""
        if len(self._open) >= STRANGERS_MAX:
            oldest = next(iter(self._open))
            self.leave(oldest)
            oldest.cut(f"{STRANGERS_MAX} others are in their TLS handshake, and it came first")
        self._open[greeting] = None
        self.edge.runtime.spawn(greeting.carry_out(), f"TLS with {greeting.peer}")

    def leave(self, greeting: "Greeting") -> None:
        """Forget a handshake that is over."""
        self._open.pop(greeting, None)

    def close(self) -> None:
        """Cut off every handshake, because the broker stops."""
        for greeting in self._open:
            greeting.abort()


class Greeting(asyncio.Protocol):
    """The handshake of one connection."""

    def __init__(
        self, greetings: Greetings, listener: Listener, make: Callable[[], Connection]
    ) -> None:
        self._greetings = greetings
        self._listener = listener
        self._make = make
        self._raw: asyncio.Transport = cast("asyncio.Transport", None)
        self._early = bytearray()
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._raw = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = f"{peer[0]}:{peer[1]}"
            crowd = self._greetings.edge.doors.crowd_from(peer[0])
            if crowd is not None:
                self._greetings.edge.doors.refused += 1
                self.cut(crowd)
                return
        self._greetings.enter(self)

    def data_received(self, data: bytes) -> None:
        """Keep bytes that come before TLS has taken over, or after it before the connection has."""
        self._early += data

    async def carry_out(self) -> None:
        """Shake hands, then let the connection take over; a failed handshake closes it."""
        try:
            transport = await self._secured()
        except OSError as error:
            self._on_failed(error)
            return
        finally:
            self._greetings.leave(self)
        if transport is None or transport.is_closing():
            return
        principal = self._principal(transport)
        if principal is None:
            self._refuse("no rule of ssl.principal.mapping.rules matches its certificate")
            return
        if not self._listener.security_protocol.has_sasl:
            self._greetings.edge.doors.note_proved(self._listener.name)
        connection = self._make()
        connection.session.principal = principal
        transport.set_protocol(connection)
        connection.connection_made(transport)
        self._hand_on(connection)

    async def _secured(self) -> asyncio.Transport | None:
        """Return the transport of a connection with TLS; None if the peer has left."""
        if self._raw.is_closing():
            return None
        loop = asyncio.get_running_loop()
        # uvloop may have read the first bytes already. When this call runs, TLS is in place.
        loop.call_soon(lambda: self._hand_on(self._raw.get_protocol()))
        return await loop.start_tls(
            self._raw,
            self,
            self._greetings.listeners[self._listener.name].context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_MS / 1000,
            ssl_shutdown_timeout=CLOSE_MS / 1000,
        )

    def _hand_on(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the bytes that came early to the protocol that they are for, as the loop would."""
        early, self._early = self._early, bytearray()
        feed(protocol, early)

    def _principal(self, transport: asyncio.Transport) -> Principal | None:
        if self._listener.security_protocol.has_sasl:
            return ANONYMOUS  # until the login
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return self._greetings.listeners[self._listener.name].principal_of(certificate)

    def _on_failed(self, error: OSError) -> None:
        """Log why a handshake failed, unless the peer only closed the connection (a port scan)."""
        if isinstance(error, ConnectionAbortedError):
            self._refuse(f"no TLS handshake within {HANDSHAKE_MS} ms")
        elif not isinstance(error, ConnectionError):
            self._refuse(f"TLS handshake failed, {reason_of(error)}")

    def _refuse(self, why: str) -> None:
        """Close the connection, because the client did not prove itself."""
        self._greetings.edge.doors.note_unproved(self._listener.name)
        self.cut(why)

    def cut(self, why: str) -> None:
        """Close the connection at once, and log the reason."""
        edge = self._greetings.edge
        edge.refusals.close(self.peer, why, edge.runtime.monotonic_ms())
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._raw.abort()
