"""The first requests on a new connection: ApiVersions, and the steps of a login by SASL.

The mechanism's client end makes the tokens of a login; this module sends them in SaslHandshake and
SaslAuthenticate requests (KIP-152). Nothing is retried.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.schema import shape_of
from ...runtime.runtime import Runtime
from ...runtime.version import VERSION
from ...security.client_security import ClientSecurity
from ...security.sasl.errors import SaslError
from ...security.sasl.oauthbearer import OAUTHBEARER
from ...security.sasl.replies import ClientEnd
from .renewal import Renewal

if TYPE_CHECKING:
    from .connection import ConnectionOptions, KafkaConnection


SOFTWARE_NAME: Final = "minikafka-python"
SOFTWARE_VERSION: Final = VERSION


async def negotiate(connection: "KafkaConnection", timeout_ms: int) -> None:
    """Ask for the broker's API versions, in lower and lower versions until it answers.

    `timeout_ms` bounds each request.
    """
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    version: int | None = shape_of(ApiVersionsRequest).versions.last
    while version is not None:
        answer: ApiVersionsResponse = await connection.send(
            request, version=version, timeout_ms=timeout_ms
        )
        version = connection.versions.on_answer(answer, version)


async def begin_session(
    connection: "KafkaConnection", runtime: Runtime, options: "ConnectionOptions"
) -> Renewal | None:
    """Log in with the credentials or tokens in the options, if there are any.

    Return a Renewal, which logs in again, if the session has an end, else None. Raise the errors of
    `log_in`.
    """
    security = options.security
    if security is None or (security.credentials is None and security.tokens is None):
        return None
    login = partial(log_in, connection, security, runtime.rng.randbytes)
    session_ms = await login(options.connect_timeout_ms)
    if not session_ms:
        return None
    renewal = Renewal(runtime, connection, partial(login, options.request_timeout_ms))
    renewal.begin(session_ms)
    return renewal


async def log_in(
    connection: "KafkaConnection",
    security: ClientSecurity,
    random_bytes: Callable[[int], bytes],
    timeout_ms: int,
) -> int:
    """Log in; return the milliseconds until the broker wants another login, 0 for never (KIP-368).

    `timeout_ms` bounds each request. Raise SaslError if the broker refuses the mechanism, the
    password or the token, or does not prove that it knows the password; NoToken if there is no
    token now.
    """
    mechanism, end = await _client_end(security, random_bytes)
    handshake: SaslHandshakeResponse = await connection.send(
        SaslHandshakeRequest(mechanism=mechanism), version=1, timeout_ms=timeout_ms
    )
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(handshake.mechanisms))
        raise SaslError(f"the broker does not offer {mechanism}, but {offered}")
    _check(handshake.error_code, None)
    token: bytes | None = end.first()
    session_ms = 0
    while token is not None:
        answer: SaslAuthenticateResponse = await connection.send(
            SaslAuthenticateRequest(auth_bytes=token), timeout_ms=timeout_ms
        )
        _check(answer.error_code, answer.error_message)
        session_ms = answer.session_lifetime_ms
        token = end.step(answer.auth_bytes)
    return session_ms


async def _client_end(
    security: ClientSecurity, random_bytes: Callable[[int], bytes]
) -> tuple[str, ClientEnd]:
    """Return the mechanism and its client end; a token is there before the broker is asked."""
    if security.tokens is not None:
        return OAUTHBEARER, await security.tokens.begin()
    assert security.credentials is not None
    return security.credentials.mechanism, security.credentials.begin(random_bytes)


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslError("the broker's listener has no SASL: is security.protocol right?")
    if code:
        raise SaslError(message or ErrorCode(code).doc)
