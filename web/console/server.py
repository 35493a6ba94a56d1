"""Serves the console with uvicorn, on one loop with the clients it asks with."""

import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

import uvicorn

from ...client.config import AdminConfig, configured
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import SystemRuntime
from .app import application
from .desk import desk_for

MOST_CONNECTIONS: Final = 256
"""Connections at a time; one more is answered with 503."""
GRACE_S: Final = 1
"""Moving pages are cut so long after the console was told to stop."""


class Listening(NamedTuple):
    """The address of the console, and its names beside localhost."""

    host: str
    port: int
    names: tuple[str, ...] = ()


async def serve(settings: Mapping[str, str], where: Listening, *, allow_changes: bool) -> int:
    """Serve until a signal; print one `ready` line. MinikafkaError if the address is taken."""
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
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    shown = f"[{host}]" if ":" in host else host
    print(f"ready http://{shown}:{port}/", flush=True)
    what = "changes are allowed" if allow_changes else "read-only"
    print(f"shows {desk.link.bootstrap}, {what}; Ctrl-C stops", file=sys.stderr, flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])
    return 0


def _listen(where: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server((where.host, where.port), family=family)
    except OSError as error:
        raise MinikafkaError(f"cannot listen on {where.host}:{where.port}: {error}") from error
