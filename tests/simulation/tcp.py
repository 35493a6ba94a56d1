"""One TCP connection: two endpoints and a flow of segments each way.

An endpoint belongs to a process. If that is killed, bytes that were passed to the kernel are still
delivered, and bytes in the program's own buffer are lost.
"""

import asyncio
import errno
import socket
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

from .loop import Process

if TYPE_CHECKING:
    from .network import Host, Network

SEGMENT_BYTES = 64 * 1024
READ_BYTES = 256 * 1024
READ_HINT = 64 * 1024
"""The size hint that libuv gives for each read."""
EPSILON = 2e-6


class _Mark:
    def __init__(self, name: str) -> None:
        self.name = name


FIN = _Mark("fin")
RST = _Mark("rst")
Segment = bytes | _Mark


class Flow:
    """Segments from one endpoint to the other, in order; a blocked path holds them back."""

    def __init__(self, network: "Network", source: "Endpoint", target: "Endpoint") -> None:
        self._network = network
        self._source = source
        self._target = target
        self._last_arrival = 0.0
        self._held: deque[Segment] = deque()
        self.is_broken = False
        """True if the connection is half-open: no segment arrives any more."""
        self._key = next(network.flow_ids)
        network.flows[self._key] = self

    def push(self, segment: Segment) -> None:
        network = self._network
        loop = network.loop
        arrival = loop.time() + network.latency(self._source.host, self._target.host)
        if isinstance(segment, bytes):
            if network.ear is not None:
                network.ear.on_segment(self._source, segment)
            arrival += len(segment) / network.bytes_per_second
        self._schedule(segment, arrival)

    def _schedule(self, segment: Segment, arrival: float) -> None:
        arrival = max(arrival, self._last_arrival + EPSILON)
        self._last_arrival = arrival
        loop = self._network.loop
        loop.call_at(arrival, self._arrive, segment, context=loop.kernel)

    def _arrive(self, segment: Segment) -> None:
        network, source, target = self._network, self._source, self._target
        if target.gone and target.host.up:
            self._held.clear()
            if segment is not RST and not source.gone:
                target.answer_with_reset()
            self.forget()
        elif (
            self._held
            or self.is_broken
            or not target.host.up
            or network.is_blocked(source.host, target.host)
        ):
            if segment is RST:
                self.forget()
            elif source.host.up:
                self._held.append(segment)
        else:
            target.receive(segment)

    def retransmit(self) -> None:
        if self._held and not self._source.powerless and not self.is_broken:
            loop = self._network.loop
            held, self._held = self._held, deque()
            start = loop.time() + 0.2 * self._network.rng.random() + 0.01
            for segment in held:
                self._schedule(segment, start)

    def joins(self, one: "Host", other: "Host") -> bool:
        """Return whether the flow is between these two hosts, in either direction."""
        ends = (self._source.host, self._target.host)
        return ends in ((one, other), (other, one))

    def forget(self) -> None:
        self._network.flows.pop(self._key, None)


class Endpoint(asyncio.Transport):
    """The asyncio transport of one side, with the kernel's buffers of that side behind it."""

    def __init__(
        self,
        network: "Network",
        process: Process,
        name: tuple[str, int],
        peer: tuple[str, int],
    ) -> None:
        from .network import SimSocket

        super().__init__(
            {
                "sockname": name,
                "peername": peer,
                "socket": SimSocket(socket.SOCK_STREAM, name, peer),
            }
        )
        self._network = network
        self._loop = network.loop
        self._process = process
        self.host = process.host
        self._context = process.context.copy()
        self._resource = process.acquire(self._kernel_close)
        self._flow: Flow
        self._peer: Endpoint
        self._protocol: Any = None
        self._buffered = False
        # sending
        self._outgoing: deque[memoryview] = deque()
        self._outgoing_bytes = 0
        self._flush_scheduled = False
        self._window = network.rng.choice((16, 64, 256, 1024)) * 1024
        self._unread_by_peer = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._protocol_paused = False
        self._fin_wanted = False
        self._fin_sent = False
        # receiving
        self._incoming: deque[memoryview] = deque()
        self._incoming_eof = False
        self._reset: OSError | None = None
        self._eof_delivered = False
        self._reading_paused = False
        self._read_scheduled = False
        # ending
        self._closing = False
        self._lost = False
        self.gone = False
        """True if the kernel has closed the socket, so that it answers any segment with a reset."""
        self.powerless = False

    def join(self, other: "Endpoint") -> None:
        self._peer, other._peer = other, self
        self._flow = Flow(self._network, self, other)
        other._flow = Flow(self._network, other, self)

    def open(self, protocol: Any, opened: "asyncio.Future[None] | None" = None) -> None:
        if self._lost or self._closing:
            if opened is not None and not opened.done():
                opened.set_exception(ConnectionAbortedError(errno.ECONNABORTED, "aborted"))
            return
        self.set_protocol(protocol)
        self._loop.call_soon(self._connection_made, opened, context=self._context)

    def _connection_made(self, opened: "asyncio.Future[None] | None") -> None:
        self._protocol.connection_made(self)
        if opened is not None and not opened.done():
            opened.set_result(None)
        self._opened = True
        self._schedule_read()

    _opened = False

    # -- the kernel's side ------------------------------------------------------------------

    def receive(self, segment: Segment) -> None:
        if segment is FIN:
            self._incoming_eof = True
        elif segment is RST:
            self._incoming.clear()
            self._reset = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        else:
            assert isinstance(segment, bytes)
            self._network.trace.note(3, len(segment), zlib.crc32(segment))
            self._incoming.append(memoryview(segment))
        self._schedule_read()

    def answer_with_reset(self) -> None:
        self._flow.push(RST)

    def _kernel_close(self) -> None:
        """Deliver the bytes in the kernel, then the end, because the process has ended."""
        if self.gone:
            return
        self.gone = True
        if not self.host.up:
            self.powerless = True
        elif self._reset is None and not self._fin_sent:
            self._flow.push(RST if self._incoming else FIN)
        self._forget_flows()

    def _acknowledged(self, size: int) -> None:
        self._unread_by_peer -= size
        if self._outgoing and 2 * self._unread_by_peer <= self._window:
            self._schedule_flush()

    # -- reading ----------------------------------------------------------------------------

    def _schedule_read(self) -> None:
        if self._read_scheduled or self._reading_paused or not self._opened or self._lost:
            return
        if self._incoming or self._incoming_eof or self._reset is not None:
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._reading_paused or self._lost or self._closing:
            if self._reset is not None and not self._lost:
                self._lose(self._reset)
            return
        if self._incoming:
            self._deliver_bytes()
        elif self._reset is not None:
            self._lose(self._reset)
        elif self._incoming_eof and not self._eof_delivered:
            self._eof_delivered = True
            if not self._protocol.eof_received():
                self.close()
        if not self._eof_delivered:
            self._schedule_read()

    def _deliver_bytes(self) -> None:
        incoming = self._incoming
        available = len(incoming[0]) if len(incoming) == 1 else sum(map(len, incoming))
        size = min(available, READ_BYTES)
        rng = self._network.rng
        if rng.random() < 0.1:
            size = rng.randint(1, size)
        if self._buffered:
            buffer = self._protocol.get_buffer(READ_HINT)
            view = memoryview(buffer).cast("B")
            size = min(size, len(view))
            if not size:
                raise RuntimeError("get_buffer() returned an empty buffer")
            view[:size] = self._take(size)
            view.release()
            self._peer._acknowledged(size)
            self._protocol.buffer_updated(size)
        else:
            data = bytes(self._take(size))
            self._peer._acknowledged(size)
            self._protocol.data_received(data)

    def _take(self, size: int) -> bytearray | memoryview:
        if len(self._incoming[0]) == size:
            return self._incoming.popleft()
        taken = bytearray()
        while len(taken) < size:
            chunk = self._incoming.popleft()
            wanted = size - len(taken)
            if len(chunk) > wanted:
                self._incoming.appendleft(chunk[wanted:])
            taken += chunk[:wanted]
        return taken

    def pause_reading(self) -> None:
        if not self._closing:
            self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._schedule_read()

    def is_reading(self) -> bool:
        return not self._closing and not self._reading_paused

    # -- writing ----------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._closing or not self._process.alive:
            return
        if self._fin_wanted:
            raise RuntimeError("Cannot call write() after write_eof()")
        view = memoryview(data).cast("B")
        if not len(view):
            return
        # As uvloop does, bytes are taken when the kernel has room, not here: whoever changes a
        # buffer after writing it sends something else.
        self._outgoing.append(view)
        self._outgoing_bytes += len(view)
        self._schedule_flush()
        self._maybe_pause_protocol()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush, context=self._context)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._lost:
            return
        if self._reset is not None:
            self._lose(self._reset)
            return
        while self._outgoing and self._unread_by_peer < self._window:
            room = min(self._window - self._unread_by_peer, SEGMENT_BYTES)
            segment = self._next_segment(room)
            self._unread_by_peer += len(segment)
            self._flow.push(segment)
        self._maybe_resume_protocol()
        if not self._outgoing:
            self._finish_writing()

    def _next_segment(self, room: int) -> bytes:
        if len(self._outgoing) == 1 and len(self._outgoing[0]) <= room:
            self._outgoing_bytes = 0
            return bytes(self._outgoing.popleft())
        parts: list[memoryview] = []
        while self._outgoing and room:
            view = self._outgoing.popleft()
            if len(view) > room:
                self._outgoing.appendleft(view[room:])
                view = view[:room]
            room -= len(view)
            parts.append(view)
        segment = b"".join(parts)
        self._outgoing_bytes -= len(segment)
        return segment

    def _finish_writing(self) -> None:
        if self._fin_wanted and not self._fin_sent:
            self._fin_sent = True
            self._flow.push(FIN)
        if self._closing:
            self._lose(None)

    def _maybe_pause_protocol(self) -> None:
        if self._outgoing_bytes > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    def _maybe_resume_protocol(self) -> None:
        if self._protocol_paused and self._outgoing_bytes <= self._low:
            self._protocol_paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._maybe_pause_protocol()

    def get_write_buffer_size(self) -> int:
        return self._outgoing_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._fin_wanted and not self._closing and self._process.alive:
            self._fin_wanted = True
            self._schedule_flush()

    # -- ending -----------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing or not self._process.alive

    def close(self) -> None:
        """Write what is buffered, then end."""
        if self._closing or not self._process.alive:
            return
        self._closing = True
        self._fin_wanted = True
        self._schedule_flush()

    def abort(self) -> None:
        """Close at once: buffered bytes are dropped, and the peer gets a reset."""
        if self._lost or not self._process.alive:
            return
        self._closing = True
        self._outgoing.clear()
        self._outgoing_bytes = 0
        if not self.gone and self._reset is None:
            self._flow.push(RST)
            self._fin_sent = True
        self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._closing = True
        if error is None and not self._fin_sent:
            self._flow.push(FIN)
        self.gone = True
        self._process.release(self._resource)
        self._outgoing.clear()
        self._incoming.clear()
        self._forget_flows()
        self._loop.call_soon(self._connection_lost, error, context=self._context)

    def _forget_flows(self) -> None:
        if self._peer.gone:
            self._flow.forget()
            self._peer._flow.forget()

    def _connection_lost(self, error: OSError | None) -> None:
        if self._protocol is not None and self._opened:
            self._protocol.connection_lost(error)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> Any:
        return self._protocol
