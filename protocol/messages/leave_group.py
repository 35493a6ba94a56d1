"""LeaveGroup: remove members at once, not by timeout; an admin may remove static members."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@nested
class MemberIdentity:
    """A member that leaves, by its id or by its lasting name."""

    member_id: String = field(default="")
    group_instance_id: String | None = field(default=None)
    reason: String | None = field("5+", default=None)
    """A reason for the broker's log (KIP-800)."""


@request(ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """One member up to version 2, then any number."""

    group_id: String
    member_id: String = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", default=[])


@nested
class MemberResponse:
    """The result for one member."""

    member_id: String
    group_instance_id: String | None = field(default=None)
    error_code: Int16 = field(default=0)


@response(ApiKey.LEAVE_GROUP)
class LeaveGroupResponse:
    """The request's error, and from version 3 on one item for each member."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
    members: list[MemberResponse] = field("3+", default=[])
