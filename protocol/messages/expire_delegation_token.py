"""ExpireDelegationToken: let a token expire at another time, or immediately (KIP-48)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Set the time at which a token expires; the token's secret names it."""

    hmac: Bytes
    expiry_time_period_ms: Int64
    """The ms from now until the token expires; a negative number removes the token immediately."""


@response(ApiKey.EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenResponse:
    """The time at which the token now expires, in milliseconds since the epoch.

    If the token was removed, it is the negative number of the request.
    """

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
