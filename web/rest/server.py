"""Serves the proxy until a signal, then ends its streams and closes its clients."""

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from ...runtime.errors import ConfigError
from ...runtime.runtime import Runtime, SystemRuntime
from .. import serving
from ..hosts import LOOPBACK, host_name
from .app import application
from .call import Desk
from .clients import Clients
from .instances import Instances
from .peers import Peers
from .settings import Settings, divided

LIMITS: Final = serving.Limits(connections=256, header_bytes=64 * 1024)


class Listening(NamedTuple):
    """The address to listen on, this proxy's URL as others reach it, and the others' URLs."""

    host: str
    port: int
    advertised: str | None = None
    peers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Host names that clients use for this proxy, where it listens on the loopback only."""


async def serve(
    settings: Mapping[str, str], where: Listening, *, until_input_ends: bool = False
) -> int:
    """Serve until a signal; print one `ready` line.

    Raise MinikafkaError if the address is taken, ConfigError if a setting is wrong. With
    `until_input_ends` also stop when standard input ends, as it does if the parent is killed.
    """
    found = divided(settings)
    for given in (*where.peers, *([where.advertised] if where.advertised else [])):
        if not given.startswith(("http://", "https://")) or host_name(given) is None:
            raise ConfigError("--peers, --advertised", given, "must be http://HOST:PORT")
    listener = serving.listen(where.host, where.port)
    url = serving.url_of(listener)
    runtime = SystemRuntime("rest")
    desk = desk_for(runtime, found, where.advertised or url, where.peers)
    app = application(desk, _names(where))
    server = serving.make_server(app, desk.closing, LIMITS)
    print(f"ready {url}", flush=True)
    shown = found.admin.get("bootstrap.servers", "localhost:9092")
    print(f"serves {shown}; Ctrl-C stops", file=sys.stderr, flush=True)
    return await serving.serve(server, listener, runtime, until_input_ends=until_input_ends)


def desk_for(
    runtime: Runtime, settings: Settings, advertised: str, peers: tuple[str, ...] = ()
) -> Desk:
    """Make what all requests of a proxy share."""
    rest = settings.rest
    return Desk(
        runtime,
        settings,
        Clients(runtime, settings),
        Instances(runtime, rest.max_instances, rest.instance_timeout_ms),
        Peers(advertised, peers, runtime),
    )


def _names(where: Listening) -> tuple[str, ...]:
    """Return the names to answer to; none if the proxy listens beyond the loopback: any will do."""
    if where.host not in LOOPBACK and not where.host.startswith("127."):
        return ()
    advertised = host_name(where.advertised or "")
    more = (*where.names, *([advertised] if advertised else []), where.host)
    return (*LOOPBACK, *(name.lower() for name in more))
