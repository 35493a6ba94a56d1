"""The responses that one connection has yet to send: joined by event, written once, counted.

Owns the transport's writing side. Whether the connection goes on is the connection's business.
"""

import asyncio
import logging

from ...protocol.types import Buffer
from ..admission.load import Peer
from ..edge import Edge

log = logging.getLogger(__name__)

WRITE_HIGH_WATER = 64 << 10
"""Unsent bytes above which nothing new is started for the client, and which are counted."""
FLUSH_BYTES = 1 << 20
JOIN_BYTES = 1 << 16
"""Up to here copying many parts into one is cheaper than a long writev."""


class Outbox:
    """The parts to be written at the end of the event, and what the peer has yet to take."""

    __slots__ = (
        "_bytes",
        "_edge",
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
        self._peer = peer
        self.rests_on_lease = False
        """True if something was added that only a leader with a lease may send."""
        self._parts: list[Buffer] = []
        self._bytes = 0
        self._unsent = 0
        self._parked = 0
        self.is_paused = False
        """The peer reads more slowly than we answer."""
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    def add(self, parts: list[Buffer]) -> None:
        """Queue parts behind earlier ones; they are sent at the next `flush` at the latest."""
        self._parts += parts
        for part in parts:
            self._bytes += len(part)
        if self._bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all parts that were added."""
        parts = self._parts
        if not parts or self._transport.is_closing():
            return
        size = self._bytes
        self._parts = []
        self._bytes = 0
        if self.rests_on_lease:
            self.rests_on_lease = False
            if not self._edge.lease.is_held(self._edge.runtime.monotonic_ms()):
                # The process may have stood still since it decided: others may lead by now.
                log.warning("the leader's lease ended before an answer was sent: connection closed")
                self._transport.abort()
                return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif size <= JOIN_BYTES:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)
        if self.is_paused:
            # Answers to what was started before go out all the same.
            self._count(self._transport.get_write_buffer_size(), self._parked)

    def pause(self) -> None:
        """Note that the transport is full."""
        self.is_paused = True
        self._count(self._transport.get_write_buffer_size(), self._parked)

    def resume(self) -> None:
        """The peer has caught up."""
        self.is_paused = False
        self._count(0, self._parked)

    def hold(self, size: int) -> None:
        """Count what a parked fetch has read and not yet given out."""
        if size != self._parked:
            self._count(self._unsent, size)

    def release(self) -> None:
        """The connection is gone, and everything unsent with it."""
        self._parts = []
        del self._peer  # It holds us: so it is freed at once, not when the collector comes by.

    def _count(self, unsent: int, parked: int) -> None:
        """Count unsent bytes while above the high-water mark; below it they are few.

        Bytes that the peer takes meanwhile count until it has taken all: the parts stay whole.
        """
        self._unsent, self._parked = unsent, parked
        self._edge.load.hold_responses(self._peer, unsent + parked)
