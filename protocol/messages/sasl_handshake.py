"""SaslHandshake: choose the mechanism of a login (KIP-43)."""

from ..api import ApiKey
from ..schema import Int16, String, field, request, response


@request(ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    """Name the mechanism. After version 0, tokens follow in frames without headers (KIP-152)."""

    mechanism: String


@response(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeResponse:
    """The mechanisms that the listener offers."""

    error_code: Int16 = field(default=0)
    mechanisms: list[String] = field(default=[])
