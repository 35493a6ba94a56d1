"""The steps that a client takes on each new connection before its first request."""

from dataclasses import dataclass

from .sasl.client import Credentials
from .tls import ClientTls


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of all connections of one client."""

    credentials: Credentials | None = None
    """The credentials to log in with; None if the listener has no SASL."""
    tls: ClientTls | None = None
    """The client's end of TLS; None if the listener has no TLS."""
