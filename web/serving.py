"""Serves a web application with uvicorn, on the event loop that its Kafka clients use as well.

The address is opened before anything else, so that one that is taken is an error of one line.
"""

import asyncio
import gc
import signal
import socket
import sys
from types import FrameType
from typing import Final, NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..client.cli.lines import read_lines
from ..runtime.errors import MinikafkaError
from ..runtime.keepalive import end_when_silent
from ..runtime.runtime import Runtime
from .events import SEND_S

GRACE_S: Final = 1
"""Seconds after which open streams are disconnected once the server has been told to stop."""
HEAD_S: Final = 30
"""Seconds in which the head of a request has to arrive."""
GARBAGE: Final = (100_000, 20, 100)
"""The thresholds of the garbage collector, as for `gc.set_threshold`."""


class Limits(NamedTuple):
    """The bounds of a server."""

    connections: int
    """The most connections at a time; one more is refused with 503."""
    header_bytes: int
    """The largest head of a request."""


def listen(host: str, port: int) -> socket.socket:
    """Open the address; port 0 picks a free one. Raise MinikafkaError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise MinikafkaError(f"cannot listen on {host}:{port}: {error}") from error
    end_when_silent(listener, SEND_S)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of an open address, without a slash at its end."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: ASGIApp, closing: asyncio.Event, limits: Limits) -> "Server":
    """Make the server of an application; `closing` is set once the server shall stop."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=GRACE_S,
    )
    return Server(config, closing)


async def serve(
    server: "Server", listener: socket.socket, runtime: Runtime, *, until_input_ends: bool
) -> int:
    """Serve until a signal and return the exit code 0.

    With `until_input_ends` also stop when standard input ends, as it does if the parent is killed.
    """
    collect_rarely()
    if until_input_ends:
        runtime.spawn(_end_with_input(server), "input")
    if asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM):
        # The server handles signals itself, and raises them again at its end.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    await server.serve(sockets=[listener])
    return 0


def collect_rarely() -> None:
    """Make the garbage collector run rarely, and skip the objects that exist now.

    A response about ten thousand partitions is a hundred thousand objects, none of them garbage.
    Checking them again and again took as long as decoding them.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE)


async def _end_with_input(server: "Server") -> None:
    async for _ in read_lines(sys.stdin.fileno()):
        pass
    server.handle_exit(signal.SIGTERM, None)


class Protocol(H11Protocol):
    """Ends a connection whose next head is not there in HEAD_S; uvicorn alone waits for ever."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._patience = self.loop.call_later(HEAD_S, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Read on; the time runs while no request is being answered."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._be_patient()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._be_patient()
        super().connection_lost(exc)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Server(uvicorn.Server):
    """Ends streams when the server stops; uvicorn alone would wait for them, and log errors."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: at the first signal after open requests are served, at a second signal at once."""
        self._loop.call_soon_threadsafe(self._closing.set)
        super().handle_exit(sig, frame)
