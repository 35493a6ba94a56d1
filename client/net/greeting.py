"""The first requests on a new connection: ApiVersions, and the steps of a login by SASL.

The tokens of a login are those of the mechanism's client end; here they travel as SaslHandshake
and SaslAuthenticate (KIP-152). Nothing is retried.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.schema import shape_of
from ...runtime.version import VERSION
from ...security.sasl.errors import SaslError

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


async def log_in(
    connection: "KafkaConnection",
    options: "ConnectionOptions",
    random_bytes: Callable[[int], bytes],
) -> int:
    """Log in with the credentials in the options, if there are any.

    Return the milliseconds until the broker wants another login, 0 for never (KIP-368).
    Raise SaslError if the broker refuses the mechanism or the password, or if it could not prove
    itself. The time to connect bounds each request.
    """
    credentials = None if options.security is None else options.security.credentials
    if credentials is None:
        return 0
    mechanism, timeout_ms = credentials.mechanism, options.connect_timeout_ms
    handshake: SaslHandshakeResponse = await connection.request(
        SaslHandshakeRequest(mechanism=mechanism), version=1, timeout_ms=timeout_ms
    )
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(sorted(handshake.mechanisms))
        raise SaslError(f"the broker does not offer {mechanism}, but {offered}")
    _check(handshake.error_code, None)
    end = credentials.begin(random_bytes)
    token: bytes | None = end.first()
    session_ms = 0
    while token is not None:
        answer: SaslAuthenticateResponse = await connection.request(
            SaslAuthenticateRequest(auth_bytes=token), timeout_ms=timeout_ms
        )
        _check(answer.error_code, answer.error_message)
        session_ms = answer.session_lifetime_ms
        token = end.step(answer.auth_bytes)
    return session_ms


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslError("the broker's listener has no SASL: is security.protocol right?")
    if code:
        raise SaslError(message or ErrorCode(code).doc)
