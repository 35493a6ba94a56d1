"""Serves the console with uvicorn, on the event loop that its Kafka clients use as well."""

import asyncio
import gc
import secrets
import signal
import socket
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Final, NamedTuple

import uvicorn

from ...client.cli.lines import read_lines
from ...client.config import AdminConfig, configured
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import SystemRuntime
from .app import application
from .desk import Desk, desk_for

MOST_CONNECTIONS: Final = 256
"""The most connections at a time; one more is refused with 503."""
MOST_HEADER_BYTES: Final = 1024 * 1024
"""The largest head of a request; a plan that moves ten thousand partitions is part of its URL."""
GRACE_S: Final = 1
"""Seconds after which live pages are disconnected once the console has been told to stop."""

GARBAGE: Final = (100_000, 20, 100)
"""The thresholds of the garbage collector, as for `gc.set_threshold`."""


class Listening(NamedTuple):
    """The address that the console listens on, and host names it has beside localhost."""

    host: str
    port: int
    names: tuple[str, ...] = ()


async def serve(
    settings: Mapping[str, str],
    where: Listening,
    *,
    allow_changes: bool,
    until_input_ends: bool = False,
) -> int:
    """Serve until a signal; print one `ready` line. Raise MinikafkaError if the address is taken.

    With `until_input_ends` also stop when standard input ends, as it does if the parent is killed.
    """
    configured(AdminConfig, None, dict(settings))  # a wrong setting is said here, not on a page
    listener = _listen(where)
    host, port, *_ = listener.getsockname()
    desk = desk_for(
        SystemRuntime("console"), settings, secrets.token_urlsafe(32), allow_changes=allow_changes
    )
    config = uvicorn.Config(
        application(desk, (where.host, *where.names)),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    collect_rarely()
    shown = f"[{host}]" if ":" in host else host
    print(f"ready http://{shown}:{port}/", flush=True)
    what = "changes are allowed" if allow_changes else "read-only"
    print(f"shows {desk.link.bootstrap}, {what}; Ctrl-C stops", file=sys.stderr, flush=True)
    server = _Server(config, desk.closing)
    desk.link.runtime.spawn(_close_early(desk), "close")
    if until_input_ends:
        desk.link.runtime.spawn(_end_with_input(server), "input")
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


async def _close_early(desk: Desk) -> None:
    """Close the link once the console stops: pages that wait for the cluster then end at once."""
    await desk.closing.wait()
    await desk.link.close()


async def _end_with_input(server: "_Server") -> None:
    async for _ in read_lines(sys.stdin.fileno()):
        pass
    server.handle_exit(signal.SIGTERM, None)


class _Server(uvicorn.Server):
    """Ends live pages when the server stops; uvicorn alone would wait for them, and log errors."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: at the first signal after open requests are served, at a second signal at once."""
        self._loop.call_soon_threadsafe(self._closing.set)
        super().handle_exit(sig, frame)


def _listen(where: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family)
    except OSError as error:
        raise MinikafkaError(f"cannot listen on {where.host}:{where.port}: {error}") from error
