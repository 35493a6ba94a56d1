"""The listener of a controller whose peers show certificates: first TLS, then a session."""

import asyncio
import ssl
from typing import TYPE_CHECKING

from ...security.control_tls import ControlTls

if TYPE_CHECKING:
    from ..server import ControllerServer


class CertifiedDoor:
    """The controller's listener with TLS, as `Handshakes` uses it."""

    def __init__(self, server: "ControllerServer", tls: ControlTls) -> None:
        self._server = server
        self._tls = tls

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a handshake that begins now."""
        return self._tls.server_context

    def why_full(self, host: str) -> str | None:
        """Return None, because no host is refused here: `Sessions` bounds the connections."""
        return None

    def serve(self, transport: asyncio.Transport) -> asyncio.BufferedProtocol | str:
        """Return the stream of a new session, or why there is none."""
        name = self._tls.name_of(transport.get_extra_info("ssl_object"))
        if name is None:
            return "no rule of control.ssl.principal.mapping.rules matches its certificate"
        return self._server.open_session(name).stream

    def note_unproved(self) -> None:
        """Count a connection that proved nothing."""
        self._server.sessions.unproved_count += 1
