"""Delegation tokens: which are made, renewed, ended and removed (KIP-48, KIP-373).

The broker has checked the client's connection, and its right to a token of somebody else. Who may
renew a token or end it is checked here: its owner and its renewers.
"""

from typing import Final

from ...protocol.control.records import (
    DelegationTokenRecord,
    MetadataRecord,
    RemoveDelegationTokenRecord,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
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
from ...protocol.types import uuid_to_text
from ...security.principal import USER
from ...security.tokens import TokenPolicy
from .decision import DECISION_RECORDS_MAX, Cluster, Decision, Occasion

TOKENS_MAX: Final = 1000
"""The most tokens that one principal may have asked for at a time."""
RENEWERS_MAX: Final = 100
NAME_MAX: Final = 1024
"""The most characters of a principal's name."""


def create_token(
    cluster: Cluster, request: CreateDelegationTokenRequest, occasion: Occasion
) -> Decision[CreateDelegationTokenResponse]:
    """Make a token; a repeated request is answered with the token that it made before.

    Raise ApiError if tokens are off, if the owner or a renewer is not a user, or if the request has
    too many renewers or its client too many tokens.
    """
    policy = _policy(cluster)
    token_id = uuid_to_text(occasion.id_of("token"))
    made = cluster.image.tokens.get(token_id)
    if made is not None:
        return Decision(_created(policy, token_id, made))
    owner = occasion.principal
    if request.owner_principal_name:
        owner = _user(request.owner_principal_type or "", request.owner_principal_name)
    if len(request.renewers) > RENEWERS_MAX:
        why = f"A token may have at most {RENEWERS_MAX} renewers"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    renewers = [_user(each.principal_type, each.principal_name) for each in request.renewers]
    _check_number(cluster, occasion.principal)
    lifetime_ms = policy.lifetime_max_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    token = DelegationToken(
        owner=owner,
        requester=occasion.principal,
        renewers=tuple(dict.fromkeys(renewers)),
        issued_ms=occasion.now_ms,
        expires_ms=occasion.now_ms + min(lifetime_ms, policy.expiry_ms),
        latest_ms=occasion.now_ms + lifetime_ms,
    )
    record = DelegationTokenRecord(token_id, *token)
    return Decision(_created(policy, token_id, token), [record])


def renew_token(
    cluster: Cluster, request: RenewDelegationTokenRequest, occasion: Occasion
) -> Decision[RenewDelegationTokenResponse]:
    """Let a token expire one renewal period from now, but not after its latest time.

    Raise ApiError if there is no such token, if it has expired, or if the client may not renew it.
    """
    policy = _policy(cluster)
    token_id, token = _found(cluster, policy, request.hmac, occasion)
    period_ms = policy.expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expires_ms = min(token.latest_ms, occasion.now_ms + period_ms)
    answer = RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
    return Decision(answer, [_expiring(token_id, token, expires_ms)])


def expire_token(
    cluster: Cluster, request: ExpireDelegationTokenRequest, occasion: Occasion
) -> Decision[ExpireDelegationTokenResponse]:
    """Let a token expire after the requested period; a negative period removes it at once.

    Raise ApiError if there is no such token, if it has expired, or if the client may not end it.
    """
    token_id, token = _found(cluster, _policy(cluster), request.hmac, occasion)
    period_ms = request.expiry_time_period_ms
    if period_ms < 0:
        answer = ExpireDelegationTokenResponse(expiry_timestamp_ms=period_ms)
        return Decision(answer, [RemoveDelegationTokenRecord(token_id)])
    expires_ms = min(token.latest_ms, occasion.now_ms + period_ms)
    answer = ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
    return Decision(answer, [_expiring(token_id, token, expires_ms)])


def remove_expired(cluster: Cluster, now_ms: int) -> Decision[int]:
    """Remove at most `DECISION_RECORDS_MAX` expired tokens; the answer is their number."""
    gone: list[MetadataRecord] = [
        RemoveDelegationTokenRecord(token_id)
        for token_id, token in cluster.image.tokens.items()
        if token.has_expired(now_ms)
    ]
    del gone[DECISION_RECORDS_MAX:]
    return Decision(len(gone), gone)


def _policy(cluster: Cluster) -> TokenPolicy:
    if cluster.tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return cluster.tokens


def _user(kind: str, name: str) -> str:
    """Return the principal as a text; raise ApiError unless it is a user."""
    if kind != USER:
        # A login by a token makes a User of its owner's name, whatever type the owner has.
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if not 0 < len(name) <= NAME_MAX or "\0" in name:
        why = f"The name of a principal has 1 to {NAME_MAX} characters and no NUL"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    return f"{kind}:{name}"


def _check_number(cluster: Cluster, principal: str) -> None:
    known = cluster.image.tokens.values()
    if sum(token.requester == principal for token in known) >= TOKENS_MAX:
        why = f"{TOKENS_MAX} tokens of this principal are there already"
        raise ApiError(ErrorCode.POLICY_VIOLATION, why)


def _found(
    cluster: Cluster, policy: TokenPolicy, secret: bytes, occasion: Occasion
) -> tuple[str, DelegationToken]:
    """Return id and token of a secret; raise ApiError unless the client may renew the token."""
    token_id = policy.key.find(cluster.image.tokens, secret)
    if token_id is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    token = cluster.image.tokens[token_id]
    if token.has_expired(occasion.now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.may_renew(occasion.principal):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token_id, token


def _expiring(token_id: str, token: DelegationToken, expires_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(token_id, *token._replace(expires_ms=expires_ms))


def _created(
    policy: TokenPolicy, token_id: str, token: DelegationToken
) -> CreateDelegationTokenResponse:
    owner, requester = (each.partition(":") for each in (token.owner, token.requester))
    return CreateDelegationTokenResponse(
        principal_type=owner[0],
        principal_name=owner[2],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.latest_ms,
        token_id=token_id,
        hmac=policy.key.secret_of(token_id),
    )
