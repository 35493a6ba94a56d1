"""Sends requests of this broker to other brokers, over the inter-broker listener.

`Peers` owns one connection per broker and lane, opened on demand. A request is sent only once, and
the caller decides what to do after a failure. The broker may also send requests to itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..client.net.address import Address
from ..client.net.backoff import Backoff
from ..client.net.connection import ConnectionOptions
from ..client.net.errors import ClientError
from ..client.net.pool import Pool
from ..protocol.control.messages import Endpoint
from ..protocol.errors import RemoteProtocolError
from ..runtime.errors import MinikafkaError
from ..runtime.runtime import Runtime
from ..security.client_security import ClientSecurity

RECONNECT = Backoff(first_ms=50, most_ms=1000, steady_count=5)


class Reach(NamedTuple):
    """The addresses of the other brokers, and the security of connections to them."""

    endpoint_of: Callable[[int], Endpoint | None]
    """Returns the address of a broker by id, or None if it is not registered."""
    security: ClientSecurity | None = None
    """The security of connections to brokers; None for plain text."""


class PeerFailed(MinikafkaError):
    """Raised if no response came. The other broker may have carried out the request."""


class Peers:
    """Sends requests to brokers, and keeps the connections to them."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        reach: Reach,
        request_timeout_ms: int,
    ) -> None:
        self._endpoint_of = reach.endpoint_of
        options = ConnectionOptions(
            client_id=f"broker-{broker_id}",
            connect_timeout_ms=request_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            security=reach.security,
        )
        self._pool = Pool(runtime, options, RECONNECT)

    async def ask(self, broker_id: int, message: object, *, lane: str) -> Any:
        """Send a request and return its response; raise PeerFailed after the request timeout.

        Requests of one lane share a connection and are answered in order, so requests that may take
        long need a lane of their own.
        """
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            raise PeerFailed(f"broker {broker_id} is not registered")
        try:
            address = Address(endpoint.host, endpoint.port)
            connection = await self._pool.get(address, lane)
            return await connection.request(message)
        except (ClientError, RemoteProtocolError) as error:
            raise PeerFailed(f"broker {broker_id}: {error}") from error

    def on_brokers_changed(self, broker_ids: list[int]) -> None:
        """Close connections to addresses at which none of these brokers is registered."""
        endpoints = [self._endpoint_of(broker_id) for broker_id in broker_ids]
        self._pool.retain([Address(each.host, each.port) for each in endpoints if each is not None])

    async def close(self) -> None:
        """Close every connection; callers of `ask` that still wait get PeerFailed."""
        await self._pool.close()
