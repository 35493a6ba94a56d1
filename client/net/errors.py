"""The errors of connections: not opened, lost, no answer in time.

Brokers and controllers use them, too. `client/errors.py` exports the same names, and the errors
that only clients raise.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ...runtime.errors import MinikafkaError


class ClientError(MinikafkaError):
    """The base class of the errors that clients raise, besides a broker's ApiError."""


LOG_IN: Final = "log in"
"""The phase that failed if the broker refused the login. Trying again will not help."""
GET_TOKEN: Final = "get a token"
"""The phase that failed if there was no token to log in with."""
HANDSHAKE: Final = "handshake"
"""The phase that failed if one end of TLS rejected the other. Trying again will not help."""


class Attempt(NamedTuple):
    """One try to reach one address."""

    address: str
    """host:port as configured or as the cluster advertised it; `broker <id>` if it has none."""
    phase: str
    """The phase that failed: resolve, connect, handshake, negotiate, get a token, log in or
    metadata.

    It is `open` if the time ran out in a phase before metadata.
    """
    cause: str


@dataclass(eq=False, repr=False)
class ConnectError(ClientError):
    """One connection could not be opened."""

    attempt: Attempt

    def __str__(self) -> str:
        return f"{self.attempt.address}: {self.attempt.phase}: {self.attempt.cause}"


class ConnectionLost(ClientError):
    """The connection ended before the answer came; the broker may have carried out the request."""


class RequestTimedOut(ClientError):
    """There was no answer, or no success, within the time allowed.

    If a single request timed out, its connection is closed too.
    """


class UnsupportedVersion(ClientError):
    """The broker and this client have no version of an API in common."""


class ClientClosed(ClientError):
    """The client is closed, or was closed while the call waited."""
