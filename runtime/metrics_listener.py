"""Serves a daemon's metrics and health over HTTP: GET /metrics, /health/live and /health/ready.

This module has the listener and its few connections, and measures the event loop's delay. Each
connection serves one request. Metrics are made in slices: at most one in each turn of the event
loop, for all connections together. A connection's next slice is made only when the last one has
been sent, so that a slow reader costs the memory of one slice. h11 parses and writes HTTP.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from http import HTTPStatus
from itertools import chain
from typing import Final

import h11

from .errors import ConfigError, InvariantViolation
from .metrics import Collector, Format, write
from .metrics_config import KEY
from .process_metrics import LoopDelay, ProcessMetrics
from .runtime import Runtime

CONNECTIONS_MAX: Final = 16
SCRAPES_MAX: Final = 12
"""The most scrapes at the same time. The remaining connections are for health checks."""
HEAD_BYTES_MAX: Final = 16 << 10
REQUEST_WITHIN_S: Final = 5.0
RESPONSE_WITHIN_S: Final = 10.0
"""The time limit of a response, in seconds; Prometheus gives up a scrape after the same time."""

_PLAIN: Final = "text/plain; charset=utf-8"
_BUSY: Final = f"{SCRAPES_MAX} scrapes are under way: scrape less often, and read faster"
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logging.getLogger(__name__)

WhyNotReady = Callable[[], str | None]
"""Returns a sentence that says why the daemon is not ready, or None if it is."""


class MetricsListener:
    """Serves the metrics and the health of one daemon, from `open` until `close`."""

    def __init__(
        self,
        runtime: Runtime,
        address: tuple[str, int],
        collectors: Sequence[Collector],
        why_not_ready: WhyNotReady,
    ) -> None:
        """`collectors` return the daemon's metrics; those of the process itself are added."""
        self._runtime = runtime
        self.address = address
        """The host and port; after `open` the port is the bound one."""
        self._delay = LoopDelay(runtime.monotonic_us)
        process = ProcessMetrics(self._delay, runtime.monotonic_ms)
        self._collectors: tuple[Collector, ...] = (process, *collectors)
        self._why_not_ready = why_not_ready
        self._server: asyncio.Server | None = None
        self._visits: dict[_Visit, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._scrapes = 0

    async def open(self) -> None:
        """Listen, and start measuring the event loop's delay.

        Raise ConfigError if the address is not available.
        """
        host, port = self.address
        try:
            self._server = await asyncio.start_server(
                self._on_connected, host, port, limit=HEAD_BYTES_MAX, backlog=CONNECTIONS_MAX
            )
        except OSError as error:
            why = f"cannot listen: {error.strerror or error}"
            raise ConfigError(KEY, f"{host}:{port}", why) from None
        self.address = host, self._server.sockets[0].getsockname()[1]
        self._delay.start()

    async def close(self) -> None:
        """Stop listening, and end all open connections."""
        self._delay.close()
        if self._server is not None:
            self._server.close()
        visits = dict(self._visits)
        for visit, task in visits.items():
            task.cancel()
            visit.end()
        await asyncio.gather(*visits.values(), return_exceptions=True)

    def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visits) >= CONNECTIONS_MAX and not self._end_an_idle_one():
            writer.write(_FULL)
            writer.close()
            return
        visit = _Visit(reader, writer, self._runtime.wall_ms)
        self._visits[visit] = self._runtime.spawn(self._serve(visit), "metrics request")

    def _end_an_idle_one(self) -> bool:
        """Close the oldest connection that is not being served; False if there is none."""
        idle = next((each for each in self._visits if not each.is_served), None)
        if idle is None:
            return False
        self._visits.pop(idle).cancel()
        idle.end()
        return True

    async def _serve(self, visit: "_Visit") -> None:
        try:
            async with asyncio.timeout(REQUEST_WITHIN_S):
                refusal = await visit.read()
            async with asyncio.timeout(RESPONSE_WITHIN_S):
                if refusal is not None:
                    await visit.tell(*refusal)
                    await visit.linger()
                elif visit.request is not None:
                    await self._answer(visit)
        except (TimeoutError, OSError):
            pass  # The peer is slow or gone.
        except InvariantViolation:
            raise
        except Exception:
            log.exception("a request for metrics could not be served")
        finally:
            # No written data is left in this process then, unless the connection is given up.
            visit.end()
            self._visits.pop(visit, None)

    async def _answer(self, visit: "_Visit") -> None:
        match visit.path:
            case b"/metrics" if self._scrapes >= SCRAPES_MAX:
                await visit.tell(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
            case b"/metrics":
                self._scrapes += 1
                try:
                    await self._send_metrics(visit)
                finally:
                    self._scrapes -= 1
            case b"/health/live":
                await visit.tell(HTTPStatus.OK, "alive")
            case b"/health/ready":
                why = self._why_not_ready()
                if why is None:
                    await visit.tell(HTTPStatus.OK, "ready")
                else:
                    await visit.tell(HTTPStatus.SERVICE_UNAVAILABLE, why)
            case _:
                paths = "ask for /metrics, /health/live or /health/ready"
                await visit.tell(HTTPStatus.NOT_FOUND, paths)

    async def _send_metrics(self, visit: "_Visit") -> None:
        is_open = b"application/openmetrics-text" in visit.header(b"accept")
        text_format = Format.OPEN_METRICS if is_open else Format.PROMETHEUS
        visit.begin(HTTPStatus.OK, [("Content-Type", text_format)])
        if not visit.wants_body:
            return await visit.finish()
        families = chain.from_iterable(collect() for collect in self._collectors)
        slices = write(families, text_format, self._runtime.monotonic_us)
        while (lines := await self._next(slices)) is not None:
            await visit.send(lines)
        await visit.finish()

    async def _next(self, slices: Iterator[bytes]) -> bytes | None:
        """Return the next slice, or None if there is none.

        Other tasks run between any two slices.
        """
        async with self._turn:
            lines = next(slices, None)
            await asyncio.sleep(0)
        return lines


class _Visit:
    """One connection: its request and the response to it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wall_ms: Callable[[], int],
    ) -> None:
        # A write is complete when the system has taken the data, so only one slice is kept in the
        # process.
        writer.transport.set_write_buffer_limits(high=0)
        self.request: h11.Request | None = None
        self.is_served = False
        """True from the end of the request to the end of its response."""
        self._reader = reader
        self._writer = writer
        self._wall_ms = wall_ms
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    @property
    def path(self) -> bytes:
        """The path of the request, without a query."""
        return b"" if self.request is None else self.request.target.partition(b"?")[0]

    @property
    def wants_body(self) -> bool:
        """False for a HEAD request, whose response has no body."""
        return self.request is None or self.request.method != b"HEAD"

    def header(self, name: bytes) -> bytes:
        """Return the values of a request header, joined by commas; `name` is in lower case."""
        assert self.request is not None
        return b",".join(value for key, value in self.request.headers if key == name)

    async def read(self) -> tuple[HTTPStatus, str] | None:
        """Read the head of the request.

        Return status and sentence if it must be refused, else None.
        """
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(HEAD_BYTES_MAX))
        except h11.RemoteProtocolError as error:
            return HTTPStatus(error.error_status_hint), str(error)
        if not isinstance(event, h11.Request):
            return None  # The peer has closed the connection without a request.
        self.request, self.is_served = event, True
        if event.method not in (b"GET", b"HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served"
        return None

    def begin(self, status: HTTPStatus, headers: list[tuple[str, str]]) -> None:
        """Write the head of the response, with the time of this host (RFC 9110, section 6.6.1)."""
        date = formatdate(self._wall_ms() // 1000, usegmt=True)
        closing = [("Date", date), *headers, ("Connection", "close")]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            closing.append(("Allow", "GET, HEAD"))
        self._write(h11.Response(status_code=status, reason=status.phrase, headers=closing))

    async def send(self, body: bytes) -> None:
        """Write a part of the body, and return when the system has taken it."""
        self._write(h11.Data(data=body))
        await self._writer.drain()

    async def finish(self) -> None:
        """End the response."""
        self._write(h11.EndOfMessage())
        await self._writer.drain()
        self.is_served = False

    async def tell(self, status: HTTPStatus, sentence: str) -> None:
        """Write a complete response of one line."""
        body = f"{sentence}\n".encode()
        self.begin(status, [("Content-Type", _PLAIN), ("Content-Length", str(len(body)))])
        if self.wants_body:
            await self.send(body)
        await self.finish()

    async def linger(self) -> None:
        """Read what the peer still sends, because closing now could lose the response."""
        self._writer.write_eof()
        while await self._reader.read(HEAD_BYTES_MAX):
            pass

    def end(self) -> None:
        """Close the connection; bytes that the system has not taken are dropped."""
        self._writer.transport.abort()

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
