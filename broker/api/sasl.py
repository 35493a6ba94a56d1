"""SaslHandshake and SaslAuthenticate of a client that has no login to do, or has done it.

Logins themselves are handled before the dispatch table, by `net/authentication.py`.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..net.answer import Call

NO_LOGIN = "there is no login to do: the listener asks for none, or the client is logged in"


def handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse the request; the connection can be used as before."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse the request; the connection can be used as before."""
    code = ErrorCode.ILLEGAL_SASL_STATE
    return SaslAuthenticateResponse(error_code=code, error_message=NO_LOGIN)
