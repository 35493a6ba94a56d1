"""The requests that one connection has received and not yet handled, and the buffer they fill.

Owns both and counts what they hold. When a request is handled is the connection's business.
"""

from collections import deque

from ...protocol.framing import FrameReader
from ..admission.load import FREE_BYTES, Peer
from ..edge import Edge

QUEUED_BYTES_MAX = 1 << 20
"""Bytes of requests of one connection that wait as copies; one more of any size is let in."""


class Inbox:
    """The receive buffer, and whole requests that wait for the answers to earlier ones."""

    __slots__ = ("_edge", "_is_counted", "_peer", "held_bytes", "queue", "reader")

    def __init__(self, edge: Edge, peer: Peer) -> None:
        self._edge = edge
        self._peer = peer
        self.held_bytes = 0
        """Bytes of requests that wait."""
        self._is_counted = False
        self.reader = FrameReader(edge.config.socket_request_max_bytes, self._count)
        self.queue: deque[bytearray] = deque()

    def put(self, frame: memoryview) -> None:
        """Queue a request as a copy: the reader's buffer is about to be filled again."""
        self.queue.append(bytearray(frame))
        self.hold(len(frame))

    def take(self) -> memoryview:
        """Give the first request in line."""
        frame = self.queue.popleft()
        self.hold(-len(frame))
        return memoryview(frame)

    def hold(self, size: int) -> None:
        """Count bytes of requests that are kept until they can go on; negative: released."""
        self.held_bytes += size
        self._count()

    def close(self) -> None:
        """Free the buffers of a connection that is gone, at once: the collector may come late."""
        self.queue.clear()
        self.reader = FrameReader(0)
        self._is_counted = False
        del self._peer

    def _count(self) -> None:
        size = self.reader.capacity + self.held_bytes
        if size > FREE_BYTES or self._is_counted:
            self._is_counted = size > FREE_BYTES
            self._edge.load.hold_requests(self._peer, size)
