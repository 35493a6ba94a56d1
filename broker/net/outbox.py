"""The responses that a connection has not yet sent; those of one event are written together.

The outbox owns the writing side of the transport and counts the unsent bytes.
"""

import asyncio
import logging

from ...protocol.types import Buffer
from ...security.tls_records import in_records
from ..admission.load import Peer
from ..edge import Edge

log = logging.getLogger(__name__)

WRITE_HIGH_WATER = 64 << 10
"""The unsent bytes above which no more requests of the client are started. Fewer unsent bytes are
not counted."""
FLUSH_BYTES = 1 << 20
JOIN_BYTES = 1 << 16
"""The bytes up to which joining several parts into one is cheaper than a long writev."""


class Outbox:
    """The parts to be written at the end of the event, and the bytes not yet taken by the peer."""

    __slots__ = (
        "_bytes",
        "_edge",
        "_is_tls",
        "_parked",
        "_parts",
        "_peer",
        "_transport",
        "_unsent",
        "is_paused",
        "rests_on_lease",
    )

    def __init__(self, transport: asyncio.Transport, edge: Edge, peer: Peer) -> None:
        self._transport = transport
        self._edge = edge
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._peer = peer
        self.rests_on_lease = False
        """True if an added response may be sent only while the leader's lease is held."""
        self._parts: list[Buffer] = []
        self._bytes = 0
        self._unsent = 0
        self._parked = 0
        self.is_paused = False
        """True while the peer reads more slowly than we answer."""
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    def add(self, parts: list[Buffer]) -> None:
        """Queue parts behind earlier ones; write all if there are more than FLUSH_BYTES."""
        self._parts += parts
        for part in parts:
            self._bytes += len(part)
        if self._bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all queued parts; if they need the leader's lease and it has ended, abort."""
        parts = self._parts
        if not parts or self._transport.is_closing():
            return
        size = self._bytes
        self._parts = []
        self._bytes = 0
        if self.rests_on_lease:
            self.rests_on_lease = False
            if not self._edge.lease.is_held(self._edge.runtime.monotonic_ms()):
                # The process may have been suspended meanwhile, so another broker may lead now.
                log.warning("the leader's lease ended before an answer was sent: connection closed")
                self._transport.abort()
                return
        if self._is_tls:
            for piece in in_records(parts):
                self._transport.write(piece)
        elif len(parts) == 1:
            self._transport.write(parts[0])
        elif size <= JOIN_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        if self.is_paused:
            # Requests that were started before the pause are still answered.
            self._count(self._transport.get_write_buffer_size(), self._parked)

    def pause(self) -> None:
        """Note that the transport is full."""
        self.is_paused = True
        self._count(self._transport.get_write_buffer_size(), self._parked)

    def resume(self) -> None:
        """Note that the peer has taken all bytes."""
        self.is_paused = False
        self._count(0, self._parked)

    def hold(self, size: int) -> None:
        """Count the bytes that a waiting fetch has read for its response."""
        if size != self._parked:
            self._count(self._unsent, size)

    def release(self) -> None:
        """Drop all unsent parts, because the connection is gone."""
        self._parts = []
        del self._peer  # This ends a cycle, so that the peer is freed at once.

    def _count(self, unsent: int, parked: int) -> None:
        """Report unsent bytes (0 if below the high-water mark) and those of a waiting fetch.

        Bytes that the peer has taken still count until it has taken all, because parts are released
        whole.
        """
        self._unsent, self._parked = unsent, parked
        self._edge.load.hold_responses(self._peer, unsent + parked)
