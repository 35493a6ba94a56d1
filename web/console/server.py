"""Serves the console until a signal, and closes its link to the cluster early."""

import secrets
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from ...client.config import AdminConfig, configured
from ...runtime.runtime import SystemRuntime
from .. import serving
from .app import application
from .desk import Desk, desk_for

LIMITS: Final = serving.Limits(connections=256, header_bytes=1024 * 1024)
"""A plan that moves ten thousand partitions is part of its URL."""


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
    listener = serving.listen(where.host, where.port)
    runtime = SystemRuntime("console")
    desk = desk_for(runtime, settings, secrets.token_urlsafe(32), allow_changes=allow_changes)
    server = serving.make_server(
        application(desk, (where.host, *where.names)), desk.closing, LIMITS
    )
    print(f"ready {serving.url_of(listener)}/", flush=True)
    what = "changes are allowed" if allow_changes else "read-only"
    print(f"shows {desk.link.bootstrap}, {what}; Ctrl-C stops", file=sys.stderr, flush=True)
    runtime.spawn(_close_early(desk), "close")
    return await serving.serve(server, listener, runtime, until_input_ends=until_input_ends)


async def _close_early(desk: Desk) -> None:
    """Close the link once the console stops: pages that wait for the cluster then end at once."""
    await desk.closing.wait()
    await desk.link.close()
