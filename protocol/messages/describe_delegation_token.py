"""DescribeDelegationToken: list tokens with their secrets (KIP-48, KIP-373)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, String, field, nested, request, response


@nested
class DescribeDelegationTokenOwner:
    """A principal whose tokens are asked for."""

    principal_type: String
    principal_name: String


@request(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Ask for the tokens of which these principals are owner, requester or renewer, or for all."""

    owners: list[DescribeDelegationTokenOwner] | None
    """The principals. None means all tokens that the client may see; an empty list, none."""


@nested
class DescribedDelegationTokenRenewer:
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


@nested
class DescribedDelegationToken:
    """One token. Times are in milliseconds since the epoch."""

    principal_type: String
    principal_name: String
    """The name of the owner, the principal that a client has when it logs in by the token."""
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


@response(ApiKey.DESCRIBE_DELEGATION_TOKEN)
class DescribeDelegationTokenResponse:
    """The tokens that the client may see."""

    error_code: Int16 = field(default=0)
    tokens: list[DescribedDelegationToken] = field(default=[])
    throttle_time_ms: Int32 = field(default=0)
