"""The load generator: one prebuilt request, replayed with a window of requests in flight.

It spends next to nothing per request, so that the server under test is what saturates.
"""

import select
import socket
import ssl
import time
from typing import NamedTuple

RECEIVE_BYTES = 1 << 20
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Replayed(NamedTuple):
    """What one replay did, and its last response without the size."""

    requests: int
    seconds: float
    last_response: bytes


class _Stream:
    """One connection with a window of copies of one request in flight."""

    def __init__(self, connected: socket.socket, request: bytes, window: int) -> None:
        self.socket = connected
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
        except WOULD_BLOCK:
            return True
        return self.sent_bytes < min(self.done + self.window, limit) * self.request_size

    def receive(self, buffer: bytearray) -> None:
        count = self.socket.recv_into(buffer)
        if count == 0:
            raise ConnectionError("the server closed the connection under load")
        self.received_bytes += count
        if self.received_bytes % len(self.response) == 0 and count >= len(self.response):
            self.response = bytes(buffer[count - len(self.response) : count])


class _TlsStream(_Stream):
    """A stream with TLS, of which a call moves one record, and what is buffered wakes no poll."""

    def send(self, limit: int) -> bool:
        before = -1
        while self.sent_bytes > before:
            before = self.sent_bytes
            if not super().send(limit):
                return False
        return True

    def receive(self, buffer: bytearray) -> None:
        try:
            while True:
                super().receive(buffer)
        except WOULD_BLOCK:
            return


def _connect(
    address: tuple[str, int], request: bytes, window: int, context: ssl.SSLContext | None
) -> _Stream:
    connected = socket.create_connection(address)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is None:
        return _Stream(connected, request, window)
    return _TlsStream(context.wrap_socket(connected, server_hostname=address[0]), request, window)


def replay(
    address: tuple[str, int],
    request: bytes,
    *,
    window: int,
    requests: int,
    seconds: float,
    context: ssl.SSLContext | None = None,
) -> Replayed:
    """Replay `request` until `requests` were answered or `seconds` have passed.

    `context` has the authority of a server with TLS; None for plain text.
    """
    stream = _connect(address, request, window, context)
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
            # Not less than was allowed before: a record of TLS that waits is sent as it is.
            limit = min(limit, stream.done + window)
        more = stream.send(limit)
        if more != wants_write:
            wants_write = more
            poll.modify(stream.socket, select.POLLIN | (select.POLLOUT if more else 0))
    elapsed = time.perf_counter() - start
    stream.socket.close()
    return Replayed(stream.done, elapsed, stream.response[4:])
