"""RenewDelegationToken: let a token expire later (KIP-48)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Ask for more time for a token, which its secret names."""

    hmac: Bytes
    renew_period_ms: Int64
    """The milliseconds from now until the token expires; the brokers' own period if it is not
    positive or is longer."""


@response(ApiKey.RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenResponse:
    """The time at which the token expires now, in milliseconds since the epoch."""

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
