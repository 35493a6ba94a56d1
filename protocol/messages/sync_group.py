"""SyncGroup: the leader of a group sends all assignments, and each member receives its own."""

from ..api import ApiKey
from ..schema import Bytes, Int16, Int32, String, field, nested, request, response


@nested
class SyncGroupRequestAssignment:
    """The leader's assignment for one member."""

    member_id: String
    assignment: Bytes


@request(ApiKey.SYNC_GROUP, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Ask for the member's own assignment; the leader's request has those of all members."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None)
    protocol_type: String | None = field("5+", default=None)
    """The protocol type that the group must have; None skips the check."""
    protocol_name: String | None = field("5+", default=None)
    """The protocol that the group must have chosen; None skips the check."""
    assignments: list[SyncGroupRequestAssignment] = field(default=[])


@response(ApiKey.SYNC_GROUP)
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
    protocol_type: String | None = field("5+", default=None)
    protocol_name: String | None = field("5+", default=None)
    assignment: Bytes = field(default=b"")
