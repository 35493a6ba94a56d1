"""Serves the REST API with uvicorn, on the worker's own event loop, on each of its listeners.

It owns sockets and TLS of the API, and never handles signals: the daemon does.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from ..runtime.config import from_mapping
from ..runtime.errors import MinikafkaError
from ..runtime.runtime import Runtime
from ..security.tls import ClientTls, ListenerTls
from ..security.tls_config import TlsConfig
from .forwarding import Forward, forward
from .herding import Herder
from .rest import make_app
from .rest_config import Listener, RestConfig

HTTPS: Final = "listeners.https."
"""The prefix of the settings of TLS; without any the worker's own count, as in Kafka."""
MOST_CONNECTIONS: Final = 128
"""The most connections of a listener at a time; one more is answered 503."""
MOST_HEADER_BYTES: Final = 64 * 1024
IDLE_S: Final = 30
GRACE_S: Final = 3
"""Seconds that open requests get when the worker stops."""


class RestServer:
    """The listeners of one worker."""

    def __init__(self, runtime: Runtime, config: RestConfig, properties: Mapping[str, str]) -> None:
        """Bind the listeners, so that the worker's id has its port.

        `properties` has the settings of TLS. Raise MinikafkaError if an address is taken.
        """
        self._runtime = runtime
        self._config = config
        self._ssl = ssl_properties(properties)
        self._bound: dict[Listener, socket.socket] = {}
        self._servers: list[tuple[_Server, asyncio.Task[None]]] = []
        try:
            for listener in dict.fromkeys((*config.listeners, *(config.admin_listeners or ()))):
                self._bound[listener] = _bind(listener)
        except MinikafkaError:
            self._close()
            raise

    @property
    def addresses(self) -> list[str]:
        """The URL of each listener, with the port that it has got."""
        return [_url(listener, self._port(listener)) for listener in self._bound]

    @property
    def worker_id(self) -> str:
        """The host:port by which other workers and statuses name this worker."""
        return self.url.partition("://")[2].rstrip("/")

    @property
    def url(self) -> str:
        """The URL by which other workers reach this one."""
        advertised = self._config.advertised
        first = next(each for each in self._bound if each.scheme == advertised.scheme)
        return _url(advertised, advertised.port or self._port(first))

    @property
    def forward(self) -> Forward:
        """The function that sends requests to other workers; https trusts as the listener does."""
        if self._config.advertised.scheme != "https":
            return forward
        tls = ClientTls(self._runtime, from_mapping(TlsConfig, self._ssl))
        return partial(forward, tls=tls.context)

    def start(self, herder: Herder) -> None:
        """Begin to answer."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        config, admin = self._config, self._config.admin_listeners
        for listener in self._bound:
            app = make_app(
                herder,
                config,
                self.forward,
                main=listener in config.listeners,
                admin=admin is None or listener in admin,
            )
            server = self._server(listener, app)
            serving = server.serve(sockets=[self._bound[listener]])
            self._servers.append((server, self._runtime.spawn(serving, f"rest-{listener.port}")))

    async def stop(self) -> None:
        """Answer what is open, at most for GRACE_S, and close the listeners."""
        for server, _ in self._servers:
            server.should_exit = True
        if self._servers:
            await asyncio.wait([serving for _, serving in self._servers])
        self._close()

    def _close(self) -> None:
        for bound in self._bound.values():
            bound.close()

    def _port(self, listener: Listener) -> int:
        port: int = self._bound[listener].getsockname()[1]
        return port

    def _server(self, listener: Listener, app: ASGIApp) -> "_Server":
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        if listener.scheme == "https":
            config.ssl = ListenerTls(self._runtime, self._ssl, "rest").context
        return _Server(config)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


def ssl_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS of the API: those below `listeners.https.`, if there are any."""
    own = {k.removeprefix(HTTPS): v for k, v in properties.items() if k.startswith(HTTPS)}
    return own or {key: value for key, value in properties.items() if key.startswith("ssl.")}


def _url(listener: Listener, port: int) -> str:
    host = listener.host or socket.gethostname()
    return f"{listener.scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _bind(listener: Listener) -> socket.socket:
    try:
        if listener.host:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            return socket.create_server((listener.host, listener.port), family=family)
        if socket.has_dualstack_ipv6():
            where = ("", listener.port)
            return socket.create_server(where, family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", listener.port))
    except OSError as error:
        why = error.strerror or str(error)
        raise MinikafkaError(f"listeners={_url(listener, listener.port)}: {why}") from error
