"""SaslAuthenticate: one token of a login, and the server's next one (KIP-152)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int64, String, field, request, response


@request(ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """The client's next token of the chosen mechanism."""

    auth_bytes: Bytes


@response(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    """The server's next token, or the reason for which the login failed."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    auth_bytes: Bytes = field(default=b"")
    session_lifetime_ms: Int64 = field("1+", default=0)
    """Milliseconds until the client must log in again, 0 for never (KIP-368)."""
