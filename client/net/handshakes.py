"""The server's end of TLS handshakes: a connection is served once its handshake is complete.

At most STRANGERS_MAX handshakes are under way, each for HANDSHAKE_MS at most; a further one
replaces the oldest. Brokers and controllers use this module. Each of their listeners with TLS is a
`Door`, which decides who is served.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, cast

from ...runtime.runtime import Runtime
from ...security.tls import reason_of
from .refusals import Refusals

HANDSHAKE_MS: Final = 10_000
"""Milliseconds that a client has for its handshake."""
CLOSE_MS: Final = 1_000
"""Milliseconds that a client may take to answer the close_notify that ends TLS."""
STRANGERS_MAX: Final = 256
"""The most connections whose handshake is not complete."""
TLS_BEGINS: Final = 0x16
"""The first byte of a TLS handshake (RFC 8446, 5.1); the first byte of a frame's size is less."""

Plain: TypeAlias = Callable[[], asyncio.BufferedProtocol]


def feed(protocol: asyncio.BaseProtocol, data: bytes | bytearray) -> None:
    """Deliver bytes that were read already to `protocol`, as the event loop would."""
    if isinstance(protocol, asyncio.Protocol):
        if data:
            protocol.data_received(bytes(data))
        return
    taker, early = cast("asyncio.BufferedProtocol", protocol), memoryview(data)
    while early:
        room = memoryview(taker.get_buffer(len(early)))
        size = min(len(room), len(early))
        room[:size] = early[:size]
        early = early[size:]
        taker.buffer_updated(size)


class Door(Protocol):
    """A listener with TLS: it has the certificate, and decides which clients are served."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for a handshake that begins now."""

    def why_full(self, host: str) -> str | None:
        """Return why this address gets no more connections; None if it does get them."""

    def serve(self, transport: asyncio.Transport) -> asyncio.BufferedProtocol | str:
        """Return the protocol that serves the client, or the reason why it is not served."""

    def note_unproved(self) -> None:
        """Count a connection that is closed because its client did not prove itself."""


class Handshakes:
    """The handshakes that are under way in a process."""

    def __init__(self, runtime: Runtime, refusals: Refusals) -> None:
        self.runtime = runtime
        self.refusals = refusals
        self._open: dict[Handshake, None] = {}

    def begin(self, door: Door, plain: Plain | None = None) -> "Handshake":
        """Return the protocol that makes the handshake of a new connection.

        `plain` makes the protocol that serves a peer without TLS; if it is None, there is none.
        """
        return Handshake(self, door, plain)

    def enter(self, handshake: "Handshake") -> None:
        """Add a handshake; if there are too many, cut off the oldest."""
        if len(self._open) >= STRANGERS_MAX:
            oldest = next(iter(self._open))
            self.leave(oldest)
            oldest.cut(f"{STRANGERS_MAX} others are in their TLS handshake, and it came first")
        self._open[handshake] = None
        self.runtime.spawn(handshake.carry_out(), f"TLS with {handshake.peer}")

    def leave(self, handshake: "Handshake") -> None:
        """Forget a handshake that is over."""
        self._open.pop(handshake, None)

    def close(self) -> None:
        """Cut off every handshake, because the process stops."""
        for handshake in self._open:
            handshake.abort()


class Handshake(asyncio.Protocol):
    """The handshake of one connection."""

    def __init__(self, handshakes: Handshakes, door: Door, plain: Plain | None) -> None:
        self._handshakes = handshakes
        self._door = door
        self._plain = plain
        self._has_come = asyncio.Event()
        self._raw: asyncio.Transport = cast("asyncio.Transport", None)
        self._early = bytearray()
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._raw = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = f"{peer[0]}:{peer[1]}"
            why = self._door.why_full(peer[0])
            if why is not None:
                self.cut(why)
                return
        self._handshakes.enter(self)

    def data_received(self, data: bytes) -> None:
        """Keep bytes that arrive before TLS, or later the serving protocol, has taken over."""
        self._early += data
        self._has_come.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for bytes, because the peer has left."""
        self._has_come.set()

    async def carry_out(self) -> None:
        """Make the handshake, then hand over to the serving protocol, or close the connection."""
        try:
            if self._plain is not None and not await self._begins_tls():
                if not self._raw.is_closing():
                    self._serve(self._raw, self._plain())
                return
            transport = await self._secured()
        except OSError as error:
            self._on_failed(error)
            return
        finally:
            self._handshakes.leave(self)
        if transport is None or transport.is_closing():
            return
        serving = self._door.serve(transport)
        if isinstance(serving, str):
            self._refuse(serving)
            return
        self._serve(transport, serving)

    async def _begins_tls(self) -> bool:
        """Wait for the first bytes, and return True if they are not those of a frame.

        Raise ConnectionAbortedError if none come in time.
        """
        try:
            async with asyncio.timeout(HANDSHAKE_MS / 1000):
                await self._has_come.wait()
        except TimeoutError:
            raise ConnectionAbortedError from None
        return not self._early or self._early[0] == TLS_BEGINS

    def _serve(self, transport: asyncio.Transport, protocol: asyncio.BufferedProtocol) -> None:
        """Hand the transport over to the protocol that serves the client."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self._hand_on(protocol)

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
            self._door.context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_MS / 1000,
            ssl_shutdown_timeout=CLOSE_MS / 1000,
        )

    def _hand_on(self, protocol: asyncio.BaseProtocol) -> None:
        """Deliver the bytes that came early to `protocol`, as the event loop would."""
        early, self._early = self._early, bytearray()
        feed(protocol, early)

    def _on_failed(self, error: OSError) -> None:
        """Log why a handshake failed, unless the peer only closed the connection (a port scan)."""
        if isinstance(error, ConnectionAbortedError):
            self._refuse(f"no TLS handshake within {HANDSHAKE_MS} ms")
        elif not isinstance(error, ConnectionError):
            self._refuse(f"TLS handshake failed, {reason_of(error)}")

    def _refuse(self, why: str) -> None:
        """Close the connection, because the client did not prove itself."""
        self._door.note_unproved()
        self.cut(why)

    def cut(self, why: str) -> None:
        """Close the connection immediately, and log the reason."""
        handshakes = self._handshakes
        handshakes.refusals.close(self.peer, why, handshakes.runtime.monotonic_ms())
        self.abort()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._raw.abort()
