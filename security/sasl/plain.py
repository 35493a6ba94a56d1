"""PLAIN (RFC 4616): the client sends its user name and its password.

The password crosses the network as it is, so this mechanism belongs behind TLS.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from .errors import SaslError
from .replies import Accepted, Refused, Reply

PLAIN: Final = "PLAIN"
_FAILED: Final = "Authentication failed"
WRONG: Final = f"{_FAILED}: Invalid username or password"
"""One text for an unknown user and for a wrong password, so that names cannot be tried out."""
OTHER_NAME: Final = (
    f"{_FAILED}: Client requested an authorization id that is different from username"
)


class PlainServer:
    """Checks one user name and password."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` are the passwords by user name."""
        self._passwords = passwords

    def step(self, token: bytes) -> Reply:
        """Check the one token: authorization id, user name and password, parted by NUL bytes."""
        # Counted before it is cut: a client that logs in again may send a hundred million parts.
        count = token.count(b"\0") + 1
        if count != 3:
            return Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        try:
            authorization_id, name, password = (part.decode() for part in token.split(b"\0"))
        except UnicodeDecodeError:
            return Refused("Invalid SASL/PLAIN response: it is not UTF-8")
        if not name:
            return Refused(f"{_FAILED}: username not specified")
        if not password:
            return Refused(f"{_FAILED}: password not specified")
        expected = self._passwords.get(name)
        # An unknown user costs the same comparison as a known one.
        is_right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not is_right:
            return Refused(WRONG)
        if authorization_id not in ("", name):
            return Refused(OTHER_NAME)
        return Accepted(name)


class PlainClient:
    """Sends one user name and password."""

    def __init__(self, name: str, password: str) -> None:
        self._token = f"\0{name}\0{password}".encode()

    def first(self) -> bytes:
        """Return the only token."""
        return self._token

    def step(self, token: bytes) -> None:
        """Take the server's last token. Raise SaslError unless it is empty."""
        if token:
            raise SaslError("PLAIN: the server sent a challenge, and the mechanism has none")
