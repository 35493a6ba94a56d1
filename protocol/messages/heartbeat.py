"""Heartbeat: a group member reports that it is alive, and learns when a rebalance has begun."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, request, response


@request(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Report that the member is alive."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)


@response(ApiKey.HEARTBEAT)
class HeartbeatResponse:
    """No error, or an error that tells the member to join again."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
