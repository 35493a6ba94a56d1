"""The requests that a connection has received and not yet handled, and its receive buffer.

The inbox owns both, counts their bytes, and pauses reading. The connection decides when a request
is handled.
"""

import asyncio
from collections import deque

from ...protocol.framing import FrameReader
from ..admission.load import FREE_BYTES, Peer
from ..edge import Edge

WAITING_MAX = 1024
"""The most unanswered requests of one connection; at this number reading pauses."""
QUEUED_BYTES_MAX = 1 << 20
"""The bytes of waiting requests above which a connection stops reading. The last request may exceed
them."""


class Inbox:
    """The receive buffer, and whole requests that wait for the answers to earlier ones."""

    __slots__ = ("_edge", "_is_counted", "_peer", "held_bytes", "is_paused", "queue", "reader")

    def __init__(self, edge: Edge, peer: Peer) -> None:
        self._edge = edge
        self._peer = peer
        self.held_bytes = 0
        """Bytes of the requests that wait, and of batches that are kept for waiting answers."""
        self._is_counted = False
        self.is_paused = False
        """True while the connection is not read."""
        self.reader = FrameReader(edge.config.socket_request_max_bytes, self._count)
        self.queue: deque[bytearray] = deque()

    def put(self, frame: memoryview) -> None:
        """Queue a copy of a request, because the reader's buffer will be filled again."""
        self.queue.append(bytearray(frame))
        self.hold(len(frame))

    def take(self) -> memoryview:
        """Remove the first request of the queue and return it."""
        frame = self.queue.popleft()
        self.hold(-len(frame))
        return memoryview(frame)

    def hold(self, size: int) -> None:
        """Count `size` bytes of requests that must be kept; a negative size releases bytes."""
        self.held_bytes += size
        self._count()

    def pace(self, transport: asyncio.Transport, unanswered: int, *, is_held: bool) -> None:
        """Pause reading while too much waits or `is_held` is True, and resume it afterwards.

        `unanswered` is the number of requests that are handled and not answered.
        """
        reader = self.reader
        is_full = (
            is_held
            or self.held_bytes > QUEUED_BYTES_MAX
            or len(self.queue) + unanswered >= WAITING_MAX
            or (reader.is_filled and not self._edge.load.may_grow(self._peer, reader.capacity))
        )
        if is_full == self.is_paused or transport.is_closing():
            return
        self.is_paused = is_full
        if is_full:
            transport.pause_reading()
            # Queued requests are copies, so the buffer can be freed if it is empty.
            reader.release()
        else:
            transport.resume_reading()

    def close(self) -> None:
        """Free the buffers of a lost connection now, before garbage collection would."""
        self.queue.clear()
        self.reader = FrameReader(0)
        self._is_counted = False
        del self._peer

    def _count(self) -> None:
        size = self.reader.capacity + self.held_bytes
        if size > FREE_BYTES or self._is_counted:
            self._is_counted = size > FREE_BYTES
            self._edge.load.hold_requests(self._peer, size)
