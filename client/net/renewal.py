"""Logs in again on an open connection when the session of its login is about to end (KIP-368).

The first request after 85 % of the session's time starts the login. That request and later ones are
held until the login is complete, because a broker accepts no other request during a login. Requests
sent before the login are answered as always. An idle connection needs no timer, because a broker
accepts the login also after the end of the session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from ...protocol.api import ApiKey
from ...protocol.errors import RemoteProtocolError
from ...protocol.types import Buffer
from ...runtime.runtime import Runtime
from ...security.sasl.errors import NoToken, SaslError
from .errors import ClientError

LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""The APIs whose requests make up a login."""
RENEWS_AT: Final = 85
"""The percentage of a session's time after which the next login is due, as in Java's clients."""
BETWEEN_LOGINS_MS: Final = 1_100
"""The least milliseconds between two logins; brokers refuse one within a second of another."""


class Waiting(Protocol):
    """A request whose answer has not arrived."""

    key: int


W = TypeVar("W", bound=Waiting)


class Connected(Protocol):
    """The part of a connection that a renewal needs."""

    def transmit(self, parts: list[Buffer]) -> None:
        """Write a request."""

    def abort(self, why: str) -> None:
        """Close the connection."""


class Renewal:
    """The end time of one connection's session, and the login that begins the next session."""

    __slots__ = ("_awaited", "_connection", "_due_ms", "_held", "_log_in", "_runtime", "_task")

    def __init__(
        self, runtime: Runtime, connection: Connected, log_in: Callable[[], Awaitable[int]]
    ) -> None:
        """`log_in` logs in and returns the milliseconds of the session, 0 for no end."""
        self._runtime = runtime
        self._connection = connection
        self._log_in = log_in
        self._due_ms: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._held: list[list[Buffer]] = []
        self._awaited = 0

    def begin(self, session_ms: int) -> None:
        """Note that a session of `session_ms` has begun; 0 means that the session has no end."""
        self._due_ms = None
        if session_ms:
            rest_ms = max(session_ms * RENEWS_AT // 100, BETWEEN_LOGINS_MS)
            self._due_ms = self._runtime.monotonic_ms() + rest_ms

    def holds(self, key: int, parts: list[Buffer]) -> bool:
        """Return True if a request of API `key` must wait; it is kept, and sent after the login."""
        if key in LOGIN:
            return False
        if self._task is None:
            if self._due_ms is None or self._runtime.monotonic_ms() < self._due_ms:
                return False
            self._task = asyncio.get_running_loop().create_task(self._run(), name="log in again")
        self._held.append(parts)
        return True

    def place(self, waiting: deque[W], request: W) -> None:
        """Queue a request in the order of the answers: those of a login go before all held ones."""
        if request.key in LOGIN:
            waiting.insert(len(waiting) - self._awaited, request)
            return
        waiting.append(request)
        if self._task is not None:
            self._awaited += 1

    async def _run(self) -> None:
        try:
            session_ms = await self._log_in()
        except (SaslError, NoToken) as error:
            self._connection.abort(f"the login for another session failed: {error}")
            return
        except (ClientError, RemoteProtocolError):
            return  # The connection has ended, and with it all that was held.
        self.begin(session_ms)
        self._task, self._awaited = None, 0
        held, self._held = self._held, []
        for parts in held:
            self._connection.transmit(parts)
