"""LeaveGroup: remove members without waiting for a timeout; admins remove static members by it."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@nested
class MemberIdentity:
    """A member to remove, by its member id or by its group instance id."""

    member_id: String = field(default="")
    group_instance_id: String | None = field(default=None)
    reason: String | None = field("5+", default=None)
    """Why the member leaves, for the broker's log (KIP-800)."""


@request(ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Remove one member up to version 2; from version 3 on, any number."""

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
    """The error of the request, and from version 3 on one item for each member."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
    members: list[MemberResponse] = field("3+", default=[])
