"""CreateDelegationToken: get a token with which processes log in as a user (KIP-48, KIP-373)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, String, field, nested, request, response


@nested
class CreatableRenewers:
    """A principal that may renew the token."""

    principal_type: String
    principal_name: String


@request(ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Ask for a token of the client itself or, from version 3 on, of another user."""

    owner_principal_type: String | None = field("3+", default=None)
    owner_principal_name: String | None = field("3+", default=None)
    """The user that clients become by the token; None or empty means the requesting client."""
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64
    """The ms after which the token cannot be renewed any more. If the value is not positive, the
    brokers' own bound applies."""


@response(ApiKey.CREATE_DELEGATION_TOKEN)
class CreateDelegationTokenResponse:
    """The token. Times are in milliseconds since the epoch."""

    error_code: Int16 = field(default=0)
    principal_type: String
    principal_name: String
    """The name of the owner, the principal that a client has when it logs in by the token."""
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    """The user name with which a client logs in by the token."""
    hmac: Bytes
    """The token's secret; in Base64 it is the password with which a client logs in."""
    throttle_time_ms: Int32 = field(default=0)
