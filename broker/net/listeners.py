"""The sockets on which a broker listens, one or more per listener, and its advertised addresses.

`Listeners` opens and closes the sockets; `Doors` closes the connections. A port that is in use is a
configuration error that names the listener.
"""

import asyncio
from collections.abc import Callable, Mapping

from ...protocol.control.messages import Endpoint
from ...runtime.errors import ConfigError
from ...runtime.runtime import Runtime
from ...security.listener import Listener, SecurityProtocol
from ...security.tls import ListenerTls
from ..config import advertised_listeners, bound_listeners, inter_broker_listener, tls_listeners
from ..settings import Settings

Connect = Callable[[Listener], asyncio.BaseProtocol]
"""Makes the protocol for a client that has connected to a listener."""

LOCAL_HOST = "localhost"


class Listeners:
    """The listeners of one broker."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        """Read keys and certificates. Raise ConfigError, which names the wrong setting."""
        self._config = settings.config
        self.tls = {
            name: ListenerTls(runtime, settings.properties, name)
            for name in tls_listeners(settings.config)
        }
        """The TLS of each listener that has it, by name."""
        self._servers: dict[str, asyncio.Server] = {}
        self._host_name = LOCAL_HOST
        self.ports: dict[str, int] = {}
        """The port to which each listener is bound, even if the configured port is 0."""

    async def open(self, connect: Connect) -> None:
        """Bind every listener; `connect` makes the protocol that serves a new connection.

        No connection is accepted before `start`. Raise ConfigError if an address is not available.
        """
        for listener in bound_listeners(self._config):
            try:
                server = await self._bind(listener, connect)
            except (OSError, OverflowError) as error:
                await self.close()
                where = f"{listener.name}://{listener.host}:{listener.port}"
                why = getattr(error, "strerror", None) or str(error)
                raise ConfigError("listeners", where, why) from None
            self._servers[listener.name] = server
            self.ports[listener.name] = server.sockets[0].getsockname()[1]

    async def _bind(self, endpoint: Endpoint, connect: Connect) -> asyncio.Server:
        listener = Listener(endpoint.name, SecurityProtocol(endpoint.security_protocol))
        return await asyncio.get_running_loop().create_server(
            lambda: connect(listener),
            endpoint.host or None,
            endpoint.port,
            backlog=self._config.socket_listen_backlog_size,
            reuse_address=True,
            start_serving=False,
        )

    async def start(self) -> None:
        """Begin to accept connections; raise ConfigError if an address was taken since `open`."""
        for name, server in self._servers.items():
            try:
                await server.start_serving()
            except OSError as error:
                # Another process bound the same address and was faster to listen.
                await self.close()
                raise ConfigError("listeners", name, error.strerror or str(error)) from None

    async def close(self) -> None:
        """Accept no more connections; the open ones stay, and `Doors.close` closes them."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def resolve_host(self) -> None:
        """Find the host to advertise for listeners without one.

        It is the name of this machine if that resolves, else localhost.
        """
        if all(listener.host for listener in advertised_listeners(self._config)):
            return
        import platform  # rarely needed

        name = platform.node()
        try:
            await asyncio.get_running_loop().getaddrinfo(name, 0)
        except OSError:
            return
        self._host_name = name or LOCAL_HOST

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the advertised addresses, the brokers' own listener first."""
        inter = inter_broker_listener(self._config)
        told = [
            Endpoint(
                listener.name,
                listener.host or self._host_name,
                listener.port or self.ports[listener.name],
                listener.security_protocol,
            )
            for listener in advertised_listeners(self._config)
        ]
        return tuple(sorted(told, key=lambda endpoint: endpoint.name != inter))

    def bound(self) -> Mapping[str, tuple[str, int]]:
        """Return the bound host and port of each listener, for the process that started it."""
        return {
            listener.name: (listener.host or LOCAL_HOST, self.ports[listener.name])
            for listener in bound_listeners(self._config)
        }
