"""The login of a request: what its Authorization header says, as settings of a client.

Pure. Brokers check the login, not the proxy; secrets are never shown.
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final

from ...security.sasl.oauthbearer import OAUTHBEARER
from .errors import NO_LOGIN, RestError

_MOST: Final = 16 * 1024
"""The longest header; a token with many claims has some thousands of characters."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user with a password, the bearer of a token, or, if both are empty, the proxy itself."""

    user: str = ""
    secret: str = field(default="", repr=False)

    def settings(self) -> dict[str, Any]:
        """Return the settings by which a client logs in as this user."""
        if self.user:
            return {"sasl.username": self.user, "sasl.password": self.secret}
        if self.secret:
            return {
                "sasl.mechanism": OAUTHBEARER,
                "sasl_oauth_token_provider": lambda: self.secret,
            }
        return {}


PROXY: Final = Login()


def login_of(authorization: str | None) -> Login:
    """Return the login in an Authorization header, RFC 7617 or RFC 6750; raise RestError (401)."""
    scheme, _, rest = (authorization or "").strip().partition(" ")
    rest = rest.strip()
    if not rest or len(rest) > _MOST:
        raise RestError(NO_LOGIN, "Log in: send Authorization: Basic or Bearer")
    match scheme.lower():
        case "basic":
            return _basic(rest)
        case "bearer":
            return Login(secret=rest)
        case _:
            raise RestError(NO_LOGIN, "Authorization: Basic and Bearer are known")


def _basic(text: str) -> Login:
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise RestError(NO_LOGIN, "Authorization: Basic must be base64 of USER:PASSWORD") from None
    if not (user and colon and password):
        raise RestError(NO_LOGIN, "Authorization: Basic must be base64 of USER:PASSWORD")
    return Login(user, password)
