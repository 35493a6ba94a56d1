"""The TLS of a broker's listeners: who a new client is, and which connection serves it."""

import asyncio
import ssl
from collections.abc import Callable, Mapping

from ...client.net.handshakes import Handshake, Handshakes
from ...security.listener import Listener
from ...security.principal import ANONYMOUS, Principal
from ...security.tls import ListenerTls
from ..edge import Edge
from .connection import Connection


class Greetings:
    """The running handshakes on all listeners of a broker."""

    def __init__(self, edge: Edge, listeners: Mapping[str, ListenerTls]) -> None:
        """`listeners` has the TLS of listeners by name."""
        self.edge = edge
        self.listeners = listeners
        self._handshakes = Handshakes(edge.runtime, edge.refusals)

    def greet(self, listener: Listener, make: Callable[[], Connection]) -> Handshake:
        """Return a handshake for a new connection, after which what `make` returns serves it."""
        return self._handshakes.begin(_Door(self, listener, make))

    def close(self) -> None:
        """Abort every handshake, because the broker stops."""
        self._handshakes.close()


class _Door:
    """The listener of one new connection, as its handshake uses it."""

    def __init__(
        self, greetings: Greetings, listener: Listener, make: Callable[[], Connection]
    ) -> None:
        self._edge = greetings.edge
        self._listener = listener
        self._tls = greetings.listeners[listener.name]
        self._make = make

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a handshake that begins now."""
        return self._tls.context

    def why_full(self, host: str) -> str | None:
        """Return why this address may open no more connections; None if it may."""
        doors = self._edge.doors
        crowd = doors.crowd_from(host)
        doors.refused += crowd is not None
        return crowd

    def serve(self, transport: asyncio.Transport) -> asyncio.BufferedProtocol | str:
        """Return the connection that serves the client, or why the certificate is refused."""
        principal = self._principal(transport)
        if principal is None:
            return "no rule of ssl.principal.mapping.rules matches its certificate"
        if not self._listener.security_protocol.has_sasl:
            self._edge.doors.note_proved(self._listener.name)
        connection = self._make()
        connection.session.principal = principal
        return connection

    def note_unproved(self) -> None:
        """Count a failed handshake or a refused certificate."""
        self._edge.doors.note_unproved(self._listener.name)

    def _principal(self, transport: asyncio.Transport) -> Principal | None:
        if self._listener.security_protocol.has_sasl:
            return ANONYMOUS  # until the login
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return self._tls.principal_of(certificate)
