"""JoinGroup: a member offers its protocols and waits for the next generation of the group."""

from ..api import ApiKey
from ..schema import Bool, Bytes, Int16, Int32, String, field, nested, request, response

NO_GENERATION = -1
UNKNOWN_MEMBER = ""
"""The member id that a new member sends."""


@nested
class JoinGroupRequestProtocol:
    """A protocol that the member supports, such as an assignor, and its metadata for it."""

    name: String
    metadata: Bytes


@request(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Join a group, or join it again. From version 4 on a new member gets an id and asks again."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    """Milliseconds that a rebalance waits for this member; -1 means the session timeout."""
    member_id: String
    """The member's id; empty for a new member."""
    group_instance_id: String | None = field("5+", default=None)
    """The name of a static member, which stays the same when the member restarts (KIP-345)."""
    protocol_type: String
    """`consumer`, `connect`, `sr`, ...: the same for all members of a group."""
    protocols: list[JoinGroupRequestProtocol]
    """The protocols that the member supports, the preferred one first."""
    reason: String | None = field("8+", default=None)
    """Why the member joins, for the broker's log (KIP-800)."""


@nested
class JoinGroupResponseMember:
    """A member, as the group's leader sees it."""

    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    metadata: Bytes
    """The metadata that the member gave for the chosen protocol."""


@response(ApiKey.JOIN_GROUP)
class JoinGroupResponse:
    """The generation that has begun."""

    throttle_time_ms: Int32 = field("2+", default=0)
    error_code: Int16 = field(default=0)
    generation_id: Int32 = field(default=NO_GENERATION)
    protocol_type: String | None = field("7+", default=None)
    protocol_name: String | None = field(nullable="7+", default="")
    """The chosen protocol. With an error it is None, or before version 7 empty."""
    leader: String = field(default="")
    skip_assignment: Bool = field("9+", default=False)
    """True if the leader must not compute a new assignment (KIP-814)."""
    member_id: String = field(default="")
    members: list[JoinGroupResponseMember] = field(default=[])
    """All members of the group, if the receiving member leads it; empty for other members."""
