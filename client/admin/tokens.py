"""Makes, renews, ends and lists delegation tokens (KIP-48)."""

from collections.abc import Iterable

from ...protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ...protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
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
from ..net.connection import KafkaConnection
from ..outcomes import raise_for
from .asking import Asking
from .token_types import DelegationToken


async def create_delegation_token(
    asking: Asking,
    *,
    owner: str | None = None,
    renewers: Iterable[str] = (),
    max_lifetime_ms: int = -1,
) -> DelegationToken:
    """Make a token for the principal that is logged in, or for `owner`; return it with its secret.

    Principals are texts such as `User:alice`. The token can be renewed up to `max_lifetime_ms` from
    now, but no longer than delegation.token.max.lifetime.ms; -1 means that bound. If a connection
    is lost on the way, another token is made, and the first one expires unused.

    Raise ValueError for a principal without a colon. Raise ApiError if the brokers have no tokens
    (DELEGATION_TOKEN_AUTH_DISABLED), or if this connection may not ask for any
    (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) or not for that owner.
    """
    owner_kind, owner_name = (None, None) if owner is None else _parsed(owner)
    may_renew = tuple(dict.fromkeys(renewers))
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_kind,
        owner_principal_name=owner_name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_parsed, may_renew)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    async def ask(connection: KafkaConnection) -> DelegationToken:
        response: CreateDelegationTokenResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return DelegationToken(
            token_id=response.token_id,
            hmac=response.hmac,
            owner=f"{response.principal_type}:{response.principal_name}",
            requester=_principal(
                response.token_requester_principal_type, response.token_requester_principal_name
            ),
            renewers=may_renew,
            issued_ms=response.issue_timestamp_ms,
            expires_ms=response.expiry_timestamp_ms,
            latest_ms=response.max_timestamp_ms,
        )

    return await asking.one_broker(ask)


async def renew_delegation_token(asking: Asking, hmac: bytes, *, period_ms: int = -1) -> int:
    """Let a token expire `period_ms` from now; return the time of expiry in ms since the epoch.

    A period that is not positive, or longer than delegation.token.expiry.time.ms, means that
    setting. The token's `latest_ms` bounds the time. Raise ApiError if the token does not exist,
    has expired, or may not be renewed by this client.
    """
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

    async def ask(connection: KafkaConnection) -> int:
        response: RenewDelegationTokenResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return response.expiry_timestamp_ms

    return await asking.one_broker(ask)


async def expire_delegation_token(asking: Asking, hmac: bytes, *, period_ms: int = -1) -> int:
    """Let a token expire `period_ms` from now; return the time of expiry in ms since the epoch.

    A negative `period_ms` removes the token immediately, and is returned instead of a time. Raise
    ApiError as `renew_delegation_token` does.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

    async def ask(connection: KafkaConnection) -> int:
        response: ExpireDelegationTokenResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return response.expiry_timestamp_ms

    return await asking.one_broker(ask)


async def describe_delegation_tokens(
    asking: Asking, owners: Iterable[str] | None = None
) -> list[DelegationToken]:
    """Return the tokens of which one of `owners` is owner, requester or renewer; if None, all.

    Only tokens that this client may see are returned, with their secrets. The broker that is asked
    may not have replayed the newest changes yet. Raise ApiError as `create_delegation_token` does.
    """
    named = None if owners is None else [_parsed(owner) for owner in owners]
    request = DescribeDelegationTokenRequest(
        owners=None
        if named is None
        else [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in named
        ]
    )

    async def ask(connection: KafkaConnection) -> list[DelegationToken]:
        response: DescribeDelegationTokenResponse = await asking.request(connection, request)
        raise_for(response.error_code)
        return [_described(token) for token in response.tokens]

    return await asking.one_broker(ask)


def _described(token: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token_id=token.token_id,
        hmac=token.hmac,
        owner=f"{token.principal_type}:{token.principal_name}",
        requester=_principal(
            token.token_requester_principal_type, token.token_requester_principal_name
        ),
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        issued_ms=token.issue_timestamp,
        expires_ms=token.expiry_timestamp,
        latest_ms=token.max_timestamp,
    )


def _principal(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind else ""


def _parsed(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"a principal is TYPE:NAME, as User:alice, and not {principal!r}")
    return kind, name
