"""JoinGroup: a member names its protocols and waits for the next generation to begin."""

from ..api import ApiKey
from ..schema import Bool, Bytes, Int16, Int32, String, field, nested, request, response

NO_GENERATION = -1
UNKNOWN_MEMBER = ""
"""The member id of a member that is new."""


@nested
class JoinGroupRequestProtocol:
    """A protocol that the member supports, such as an assignor, and its metadata for it."""

    name: String
    metadata: Bytes


@request(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Become or stay a member. From version 4 on a new member is first sent away with its id."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    """Milliseconds that a rebalance waits for this member; -1 for the session timeout."""
    member_id: String
    """Empty for a new member."""
    group_instance_id: String | None = field("5+", default=None)
    """A static member's lasting name (KIP-345)."""
    protocol_type: String
    """`consumer`, `connect`, `sr`, ...: the same for all members of a group."""
    protocols: list[JoinGroupRequestProtocol]
    """The preferred protocol first."""
    reason: String | None = field("8+", default=None)
    """A reason for the broker's log (KIP-800)."""


@nested
class JoinGroupResponseMember:
    """A member, as the group's leader sees it."""

    member_id: String
    group_instance_id: String | None = field("5+", default=None)
    metadata: Bytes
    """The member's own metadata for the protocol chosen."""


@response(ApiKey.JOIN_GROUP)
class JoinGroupResponse:
    """The generation that began."""

    throttle_time_ms: Int32 = field("2+", default=0)
    error_code: Int16 = field(default=0)
    generation_id: Int32 = field(default=NO_GENERATION)
    protocol_type: String | None = field("7+", default=None)
    protocol_name: String | None = field(nullable="7+", default="")
    """None only with an error; before version 7 the empty string stands for None."""
    leader: String = field(default="")
    skip_assignment: Bool = field("9+", default=False)
    """True if the leader must keep the present assignment (KIP-814)."""
    member_id: String = field(default="")
    members: list[JoinGroupResponseMember] = field(default=[])
    """Empty for all but the leader."""
