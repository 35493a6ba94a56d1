"""ExpireDelegationToken: let a token expire at another time, or at once (KIP-48)."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Set when a token expires, which its secret names."""

    hmac: Bytes
    expiry_time_period_ms: Int64
    """The milliseconds from now until the token expires; it is removed at once if negative."""


@response(ApiKey.EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenResponse:
    """The time at which the token expires now, in milliseconds since the epoch.

    It is the negative number of the request if the token was removed.
    """

    error_code: Int16 = field(default=0)
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
