"""One client's connection: reads requests, and sends responses in request order.

A request is handled synchronously as its bytes arrive, and most requests need no task, no timer
and no copy. A few are finished by a task (`api/worked.py`, `api/produce_opening.py`). Several
Produce requests may be under way at once. Any other request waits in the queue, as a copy, until
all earlier ones are answered. The modules of `api/` handle the requests.

    read event:  every whole frame -> start or queue it
                 -> write_staged() once -> answers that are ready, in order -> one write
    wake:        answers that became ready -> one write -> start what was queued behind them
    reading:     paused over a cap of queued bytes, waiting requests or unsent response bytes,
                 while half a frame waits for memory that others hold (`load.py`), and while
                 the client is over its quota (`charging.py`)
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from ...protocol.codec import BAD_BYTES, decode_request_header, decoder_of, frame_response
from ...protocol.errors import ProtocolError, RemoteProtocolError
from ...protocol.types import Buffer
from ...runtime.errors import InvariantViolation
from ...security.listener import Listener
from ..edge import Edge
from .answer import Answer, Api, Call, Repeats
from .authentication import Authentication, guard_of
from .charging import Charging
from .idleness import Idleness
from .inbox import WAITING_MAX, Inbox
from .outbox import Outbox
from .session import Session
from .timing import Meter, RequestTimes, Stopwatch

Apis = Mapping[int, Api]
Times = RequestTimes | None

log = logging.getLogger(__name__)

LINGER_MS = 10_000
"""Milliseconds that a peer may take to read the last responses after we have closed our side."""


class Connection(asyncio.BufferedProtocol):
    """Reads requests, has them answered, and writes the answers."""

    def __init__(self, edge: Edge, listener: Listener, apis: Apis, times: Times = None) -> None:
        """`times` counts and times the requests; None if no metrics are served."""
        self.edge = edge
        self.times = times
        self.listener = listener
        self.peer = self.host = "?"
        self.session = Session()
        self.is_replica = False
        """True if a follower fetches over the connection. The memory limit of all connections does
        not apply to it, because requests that hold memory may wait for followers."""
        self.guard: Authentication | None = None
        self.charging: Charging | None = None
        """Charges the requests to quotas. It is None if there was no quota so far."""
        self.wall_ms = self.started = 0
        """The wall time in ms when requests last came or were started, and the number of requests
        started so far, answered or not."""
        self._apis = apis
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.outbox: Outbox = cast("Outbox", None)
        self.inbox = Inbox(edge, self)
        self._reader = self.inbox.reader
        self._pending: deque[Answer] = deque()
        self._fresh: list[Answer] = []
        self._is_woken = self._is_closing = False
        self._repeats: Repeats | None = None
        self._idleness = Idleness(edge, self)
        self.meter = None if times is None else Meter(times)
        self.stopwatch: Stopwatch | None = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit a new client, or close its connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.outbox = Outbox(self._transport, self.edge, self)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
        refused = self.edge.doors.admit(self)
        if refused is None:
            self._idleness.watch()
            self.guard = guard_of(self)
        else:
            self.close_after_answers(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the client's waiting requests, and release all its memory."""
        self._is_closing = True
        self.edge.doors.release(self)
        self._idleness.end()
        if self.meter is not None:
            self.meter.close(self)
        if self.charging is not None:
            self.charging.close()
        self.session.close()
        pending, self._pending = self._pending, deque()
        self._fresh = []
        for answer in pending:
            answer.cancel()
        self.outbox.release()
        self.inbox.close()
        self._reader = self.inbox.reader
        self.edge.load.forget(self)

    def get_buffer(self, sizehint: int) -> Any:
        """Return the buffer into which the event loop reads."""
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle every whole frame that has arrived, then send the answers that are ready."""
        self._guarded(self._on_bytes, nbytes)

    def eof_received(self) -> bool:
        """Let the transport close the connection; the peer has closed its sending side."""
        self._is_closing = True
        return False

    def pause_writing(self) -> None:
        """Start no more requests, because the peer reads more slowly than we answer."""
        self.outbox.pause()

    def resume_writing(self) -> None:
        """Start requests again, because the peer has read all responses."""
        self.outbox.resume()
        self.wake()

    # Called by answers and by other parts of the edge.

    def wake(self) -> None:
        """Poll the answers soon, because one may be ready or a request may have room now."""
        if not self._is_woken and not self._is_closing:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._on_wake)

    def rest_on_lease(self) -> None:
        """Write the next bytes only while the leader's lease is held."""
        self.outbox.rests_on_lease = True

    @property
    def waiting(self) -> Collection[Answer]:
        """The unsent answers: not ready, or behind an answer that is not ready."""
        return self._pending

    # The interface for limits of memory (`load.Peer`) and of connections (`doors.Guest`).

    @property
    def half_received(self) -> int:
        """Bytes of a frame whose rest has not arrived; 0 if there is none or reading is paused."""
        return 0 if self.inbox.is_paused else self._reader.buffered

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not taken yet; 0 if they are too few to be counted."""
        return self._transport.get_write_buffer_size() if self.outbox.is_paused else 0

    @property
    def is_silent(self) -> bool:
        """True if the peer has sent no request since the last idle check, and awaits no answer."""
        return self._idleness.is_silent and not (self.awaits_answers or self.is_replica)

    @property
    def awaits_answers(self) -> bool:
        """True if a request of the peer is being answered, or soon will be: none is while muted."""
        is_muted = self.charging is not None and self.charging.is_muted
        return bool(self._pending or (self.inbox.queue and not is_muted))

    def shed(self) -> None:
        """Free the receive buffer if nothing is in it."""
        self._reader.release()

    def cut(self, why: str) -> None:
        """Close immediately, and drop all unsent bytes; `why` is logged."""
        if not self._is_closing:
            self._is_closing = True
            self.edge.refusals.close(self.peer, why, self.edge.runtime.monotonic_ms())
            self._transport.abort()

    def close(self) -> None:
        """Send the answers that are ready and close, because the broker stops."""
        if not self._is_closing:
            self.outbox.flush()
            self._is_closing = True
            self._transport.close()

    def close_after_answers(self, why: str) -> None:
        """Send the answers that are ready, then close, and log the reason."""
        if self._is_closing:
            return
        self.outbox.flush()
        self._is_closing = True
        now_ms = self.edge.runtime.monotonic_ms()
        self.edge.refusals.close(self.peer, why, now_ms)
        self._transport.close()
        self.edge.deadlines.at(now_ms + LINGER_MS, self._transport.abort)

    # The flow of requests and answers.

    def _guarded(self, step: Callable[..., None], *args: Any) -> None:
        """Run `step`. An error closes this connection only; InvariantViolation ends the process."""
        try:
            step(*args)
        except ProtocolError as error:
            self.close_after_answers(str(error))
        except InvariantViolation:
            raise  # The loop's handler ends the process: only the state on disk can be trusted.
        except Exception:
            log.exception("connection from %s closed: a request could not be handled", self.peer)
            self._is_closing = True
            self._transport.abort()

    def _on_bytes(self, nbytes: int) -> None:
        self.wall_ms = wall_ms = self.edge.runtime.wall_ms()
        if self.charging is not None:
            self.charging.begin()
        elif self.edge.quotas.entities is not None:
            self.charging = Charging(self)
        if (meter := self.meter) is not None:
            meter.received += nbytes
            if wall_ms >= meter.times.due_ms:
                meter.times.begin(self)
        for frame in self._reader.feed(nbytes):
            if self._is_closing:
                return
            if self.inbox.queue or not self._may_start(frame):
                self.inbox.put(frame)
                if self._pending:
                    self._pending[0].hurry()
            else:
                self._start(frame)
        self._run()

    def _on_wake(self) -> None:
        self._is_woken = False
        if not self._is_closing:
            if self.charging is not None:
                self.charging.begin()
            self._guarded(self._run)

    def _run(self) -> None:
        """Send ready answers and start queued requests, until neither is possible any more.

        Then pause or resume reading, so that requests stay within caps and quotas.
        """
        while True:
            self._settle()
            self.outbox.flush()
            if self._is_closing or not self._start_queued():
                break
        if self.stopwatch is not None and self.stopwatch.end(self.started, len(self._pending)):
            self.stopwatch = None
        if self._is_closing or self._transport.is_closing():
            self._is_closing = True  # A transport may close before it calls `connection_lost`.
            return
        is_muted = self.charging is not None and self.charging.end()
        is_held = is_muted or self.outbox.is_paused
        self.inbox.pace(self._transport, len(self._pending), is_held=is_held)

    def _may_start(self, frame: Buffer) -> bool:
        if self.outbox.is_paused or (self.charging is not None and self.charging.is_muted):
            return False
        if not self._pending:
            return True
        if self._pending[-1].overlaps and len(frame) > 1 and not (frame[0] or frame[1]):
            # API key 0: another Produce.
            return len(self._pending) < WAITING_MAX
        if self._fresh:
            # A request other than Produce must find the earlier appends written.
            self._settle()
        return not self._pending

    def _start_queued(self) -> bool:
        queue, before = self.inbox.queue, self.started
        if queue:
            self.wall_ms = self.edge.runtime.wall_ms()
        while queue and not self._is_closing and self._may_start(queue[0]):
            self._start(self.inbox.take())
        return self.started > before

    def _start(self, frame: memoryview) -> None:
        self.started += 1
        if self.guard is not None and not self.guard.passes(frame):
            return
        if self._repeats is not None:
            repeated = self._repeats.answer(self, frame)
            if repeated is not None:
                self._pending.append(repeated)
                self._fresh.append(repeated)
                return
        header, position = decode_request_header(frame)
        api = self._apis.get(header.api_key)
        if api is None or not api.first_version <= header.api_version <= api.last_version:
            # Only ApiVersions answers an unsupported version (KIP-511).
            if self.meter is not None:
                self.meter.note_unspoken(self, len(frame))
            if api is None or api.refuse_version is None:
                spoken = f"version {header.api_version} of API {header.api_key}"
                raise RemoteProtocolError(f"{spoken} is not spoken here")
            self.outbox.add(frame_response(api.refuse_version(), 0, header.correlation_id))
            return
        if self.charging is not None:
            self.charging.on_request(header.api_key, header.client_id, len(frame))
        request = _decode(api.request, header.api_version, frame, position)
        call = Call(self.edge, self, header.api_version, header.correlation_id, header.client_id)
        answer = api.handle(call, request)
        if (meter := self.meter) is not None:
            counted = meter.latest
            if counted.api is not api or counted.version != call.version:
                counted = meter.turn_to(api, header.api_key, call.version)
            counted.count += 1
            counted.byte_count += len(frame)
            if self.stopwatch is not None:
                self.stopwatch.note(self, header.api_key, waits=isinstance(answer, Answer))
        if isinstance(answer, Answer):
            self._pending.append(answer)
            self._fresh.append(answer)
            if api.repeats is not None:
                if self._repeats is None:
                    self._repeats = api.repeats()
                self._repeats.learn(frame, header.api_version, request)
        else:
            self.outbox.add(answer if isinstance(answer, list) else call.frame(answer))

    def _settle(self) -> None:
        """Write staged appends, then take every answer that is ready, in order."""
        if self._fresh:
            self.edge.partitions.write_staged()
            fresh, self._fresh = self._fresh, []
            for answer in fresh:
                answer.begin()
        pending = self._pending
        while pending:
            parts = pending[0].poll()
            if parts is None or self._is_closing:
                return
            pending.popleft()
            if parts:
                self.outbox.add(parts)


def _decode(cls: type, version: int, frame: memoryview, position: int) -> Any:
    """Decode a request; raise RemoteProtocolError if it is malformed.

    Bytes after it in the frame are ignored, as in Kafka. librdkafka 2.16 sends three stray bytes
    after Metadata v13 for all topics.
    """
    try:
        return decoder_of(cls, version)(frame, position, len(frame))[0]
    except BAD_BYTES as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {error}") from error
