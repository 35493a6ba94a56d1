"""CreateDelegationToken, Renew-, Expire- and DescribeDelegationToken (KIP-48).

A client that logged in by a token, or that has not proved who it is, cannot get a token.
Descriptions are read from this broker's metadata. The controller makes changes.
"""

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ...protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ...protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ...protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ...protocol.tokens import DelegationToken
from ...security.listener import SecurityProtocol
from ...security.principal import ANONYMOUS, USER
from ...security.tokens import TokenKey
from ..net.answer import Answer, Call
from .forwarded import Forwarded


def create(
    call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | Answer:
    """Forward the request, if the connection may ask for tokens."""
    own = call.principal

    def refused(
        request: CreateDelegationTokenRequest, error: ErrorCode, why: str
    ) -> CreateDelegationTokenResponse:
        is_own = not request.owner_principal_name
        return CreateDelegationTokenResponse(
            error_code=error,
            principal_type=own.type if is_own else request.owner_principal_type or "",
            principal_name=own.name if is_own else request.owner_principal_name or "",
            token_requester_principal_type=own.type,
            token_requester_principal_name=own.name,
            issue_timestamp_ms=0,
            expiry_timestamp_ms=0,
            max_timestamp_ms=0,
            token_id="",
            hmac=b"",
        )

    error = _why_not(call)
    if not error and any(each.principal_type != USER for each in request.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error:
        return refused(request, error, "")
    return Forwarded(call, request, ApiKey.CREATE_DELEGATION_TOKEN, refused)


def renew(
    call: Call, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | Answer:
    """Forward the request, if the connection may ask for tokens."""

    def refused(
        request: RenewDelegationTokenRequest, error: ErrorCode, why: str
    ) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0)

    error = _why_not(call)
    if error:
        return refused(request, error, "")
    return Forwarded(call, request, ApiKey.RENEW_DELEGATION_TOKEN, refused)


def expire(
    call: Call, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | Answer:
    """Forward the request, if the connection may ask for tokens."""

    def refused(
        request: ExpireDelegationTokenRequest, error: ErrorCode, why: str
    ) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=0)

    error = _why_not(call)
    if error:
        return refused(request, error, "")
    return Forwarded(call, request, ApiKey.EXPIRE_DELEGATION_TOKEN, refused)


def describe(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """List the tokens that the named principals own, requested or may renew, or all tokens.

    The API's guard leaves out the tokens that the client may not see.
    """
    error, key = _why_not(call), call.edge.token_key
    if error or key is None:
        return DescribeDelegationTokenResponse(error_code=error)
    owners = request.owners
    # A request may name a hundred thousand principals, so each token looks up its own among them.
    named = (
        None
        if owners is None
        else dict.fromkeys(f"{each.principal_type}:{each.principal_name}" for each in owners)
    )
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(key, token_id, token)
            for token_id, token in call.edge.image.tokens.items()
            if named is None or any(each in named for each in token.concerned)
        ]
    )


def _why_not(call: Call) -> ErrorCode:
    """Return the error if the connection may not ask for tokens; NONE if it may."""
    protocol, session = call.connection.listener.security_protocol, call.connection.session
    is_proved = protocol.has_sasl or (
        protocol is SecurityProtocol.SSL and session.principal != ANONYMOUS
    )
    if session.is_by_token or not is_proved:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if call.edge.token_key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return ErrorCode.NONE


def _described(key: TokenKey, token_id: str, token: DelegationToken) -> DescribedDelegationToken:
    owner, requester = token.owner.partition(":"), token.requester.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[2],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.latest_ms,
        token_id=token_id,
        hmac=key.secret_of(token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each[0], principal_name=each[2])
            for each in renewers
        ],
    )
