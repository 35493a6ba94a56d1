"""RenewDelegationToken: let a token expire later (KIP-48)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.RENEW_DELEGATION_TOKEN, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Let a token expire later; the token's secret names it."""

    hmac: Bytes
    renew_period_ms: Int64
    """The ms from now until the token expires. A value that is not positive, or longer than the
    brokers' own period, means that period."""


@response(ApiKey.RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenResponse:
    """The time at which the token now expires, in milliseconds since the epoch."""

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
