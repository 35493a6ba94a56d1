"""The errors of connections: none to be had, one that was lost, no answer in time.

Broker and controller use them as clients do. What only clients raise is in `client/errors.py`,
which has these names, too.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ...runtime.errors import MinikafkaError


class ClientError(MinikafkaError):
    """Anything that a client raises on purpose."""


class Attempt(NamedTuple):
    """One try to reach one address."""

    address: str
    """host:port as configured or as the cluster advertised it."""
    phase: str
    """The phase that failed: resolve, connect, negotiate or metadata."""
    cause: str


@dataclass(eq=False, repr=False)
class ConnectError(ClientError):
    """One connection could not be opened."""

    attempt: Attempt

    def __str__(self) -> str:
        return f"{self.attempt.address}: {self.attempt.phase}: {self.attempt.cause}"


class ConnectionLost(ClientError):
    """The connection ended before the answer came; whether the request was carried out is open."""


class RequestTimedOut(ClientError):
    """No answer within the request's time; the connection is closed with it."""


class UnsupportedVersion(ClientError):
    """The broker and this client have no version of an API in common."""


class ClientClosed(ClientError):
    """The client is closed, or was closed while the call waited."""
