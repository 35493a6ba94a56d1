"""Replies of the server end of a mechanism to one token, and the contract of both ends."""

from typing import NamedTuple, Protocol


class Challenge(NamedTuple):
    """The login continues: the client gets this token and must answer it."""

    token: bytes


class Accepted(NamedTuple):
    """The client has proved to be the user of that name."""

    name: str
    token: bytes = b""
    """The last token for the client, by which a server may prove itself."""
    rest_ms: int | None = None
    """Milliseconds until the credential expires, at least 1; None if it has no end."""
    is_by_token: bool = False
    """True if the client has logged in by a delegation token of the user."""


class Refused(NamedTuple):
    """The login failed."""

    message: str
    """The text that the client is told. It never says whether the user exists."""
    why: str = ""
    """The reason for the log, if the client is not told it."""


Reply = Challenge | Accepted | Refused


class ServerEnd(Protocol):
    """The server end of one login by one mechanism."""

    def step(self, token: bytes) -> Reply:
        """Take the client's next token, and return the reply."""


class ClientEnd(Protocol):
    """The client end of one login by one mechanism."""

    def first(self) -> bytes:
        """Return the token that begins the login."""

    def step(self, token: bytes) -> bytes | None:
        """Take the server's next token; return the answer, or None if the login is over.

        Raise SaslError if the token is malformed or the server could not prove itself.
        """
