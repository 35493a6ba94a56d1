"""The steps that a client takes on each new connection before its first request."""

from dataclasses import dataclass
from typing import Protocol

from .sasl.client import Credentials
from .sasl.replies import ClientEnd
from .tls import ClientTls


class Tokens(Protocol):
    """The tokens with which a client logs in by OAUTHBEARER."""

    async def begin(self) -> ClientEnd:
        """Return the client end of a new login, with a token that is good now.

        Raise NoToken if there is none at the moment, SaslError if the client will get none.
        """


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of all connections of one client."""

    credentials: Credentials | None = None
    """The credentials to log in with; None if the listener has no SASL, or takes tokens."""
    tls: ClientTls | None = None
    """The client's end of TLS; None if the listener has no TLS."""
    tokens: Tokens | None = None
    """The tokens to log in with; None unless the mechanism is OAUTHBEARER."""
