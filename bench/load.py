"""The load generator: one prebuilt request, replayed with a window of requests in flight.

It spends next to nothing per request, so that the server under test is what saturates.
"""

import select
import socket
import time
from typing import NamedTuple

RECEIVE_BYTES = 1 << 20


class Replayed(NamedTuple):
    """What one replay did, and its last response without the size."""

    requests: int
    seconds: float
    last_response: bytes


class _Stream:
    """One connection with a window of copies of one request in flight."""

    def __init__(self, address: tuple[str, int], request: bytes, window: int) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request_size = len(request)
        self.blob = memoryview(request * window)
        self.window = window
        self.response = self._first_response(request)
        self.socket.setblocking(False)
        self.sent_bytes = 0
        self.received_bytes = 0

    def _first_response(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        response = b""
        while len(response) < 4 or len(response) < 4 + int.from_bytes(response[:4], "big"):
            received = self.socket.recv(RECEIVE_BYTES)
            if not received:
                raise ConnectionError("the server closed the connection at the first request")
            response += received
        return response

    @property
    def done(self) -> int:
        return self.received_bytes // len(self.response)

    def send(self, limit: int) -> bool:
        """Send what the window allows; False when there is nothing to send."""
        allowed = min(self.done + self.window, limit) * self.request_size - self.sent_bytes
        if allowed <= 0:
            return False
        at = self.sent_bytes % self.request_size
        try:
            self.sent_bytes += self.socket.send(self.blob[at : at + allowed])
        except BlockingIOError:
            return True
        return self.sent_bytes < min(self.done + self.window, limit) * self.request_size

    def receive(self, buffer: bytearray) -> None:
        count = self.socket.recv_into(buffer)
        if count == 0:
            raise ConnectionError("the server closed the connection under load")
        self.received_bytes += count
        if self.received_bytes % len(self.response) == 0 and count >= len(self.response):
            self.response = bytes(buffer[count - len(self.response) : count])


def replay(
    address: tuple[str, int], request: bytes, *, window: int, requests: int, seconds: float
) -> Replayed:
    """Replay `request` until `requests` were answered or `seconds` have passed."""
    stream = _Stream(address, request, window)
    poll = select.poll()
    poll.register(stream.socket, select.POLLIN | select.POLLOUT)
    buffer = bytearray(RECEIVE_BYTES)
    start = time.perf_counter()
    limit = requests
    wants_write = True
    while stream.done < limit:
        for _, event in poll.poll(5_000) or [(-1, select.POLLERR)]:
            if event & select.POLLIN:
                stream.receive(buffer)
            elif event & ~select.POLLOUT:
                raise ConnectionError("the server answered nothing for 5 s under load")
        if time.perf_counter() - start > seconds:
            limit = min(limit, -(-stream.sent_bytes // stream.request_size))
        more = stream.send(limit)
        if more != wants_write:
            wants_write = more
            poll.modify(stream.socket, select.POLLIN | (select.POLLOUT if more else 0))
    elapsed = time.perf_counter() - start
    stream.socket.close()
    return Replayed(stream.done, elapsed, stream.response[4:])
