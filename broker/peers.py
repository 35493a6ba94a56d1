"""Requests from this broker to the others, over the inter-broker listener.

Owns one connection per broker and lane, opened on demand. A request is sent once: who asked decides
what a failure means. This broker may ask itself the same way.
"""

from collections.abc import Callable
from typing import Any

from ..client.net.address import Address
from ..client.net.backoff import Backoff
from ..client.net.connection import ConnectionOptions
from ..client.net.errors import ClientError
from ..client.net.pool import Pool
from ..protocol.control.messages import Endpoint
from ..protocol.errors import RemoteProtocolError
from ..runtime.errors import MinikafkaError
from ..runtime.runtime import Runtime

RECONNECT = Backoff(first_ms=50, most_ms=1000, steady_count=5)


class PeerFailed(MinikafkaError):
    """No answer was had: the request may or may not have been carried out."""


class Peers:
    """The other brokers, as somebody to ask."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        endpoint_of: Callable[[int], Endpoint | None],
        request_timeout_ms: int,
    ) -> None:
        """`endpoint_of` says where this broker dials another, None if it is not registered."""
        self._endpoint_of = endpoint_of
        options = ConnectionOptions(
            client_id=f"broker-{broker_id}",
            connect_timeout_ms=request_timeout_ms,
            request_timeout_ms=request_timeout_ms,
        )
        self._pool = Pool(runtime, options, RECONNECT)

    async def ask(self, broker_id: int, message: object, *, lane: str) -> Any:
        """Give the response; PeerFailed if there is none within the request timeout.

        Requests of one lane are answered in order: what may wait long needs a lane of its own.
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
        """Close connections to where no broker of these is any more."""
        endpoints = [self._endpoint_of(broker_id) for broker_id in broker_ids]
        self._pool.retain([Address(each.host, each.port) for each in endpoints if each is not None])

    async def close(self) -> None:
        """Close every connection; who waits for an answer gets PeerFailed."""
        await self._pool.close()
