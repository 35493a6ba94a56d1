"""DescribeGroups: read the state and the members of groups that use the classic protocol."""

from ..api import ApiKey
from ..schema import Bool, Bytes, Int16, Int32, String, field, nested, request, response
from .metadata import OPERATIONS_NOT_ASKED


@request(ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Ask for descriptions of some groups; the request goes to their coordinator."""

    groups: list[String]
    include_authorized_operations: Bool = field("3+", default=False)


@nested
class DescribedGroupMember:
    """A member; the group's protocol defines the format of its metadata and assignment."""

    member_id: String
    group_instance_id: String | None = field("4+", default=None)
    client_id: String
    client_host: String
    """The client's address after a `/`, as Kafka writes it."""
    member_metadata: Bytes = field(default=b"")
    """The member's metadata; empty unless the group is stable."""
    member_assignment: Bytes = field(default=b"")


@nested
class DescribedGroup:
    """A group. An unknown group has the state `Dead`; from version 6 on it has an error too."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field("6+", default=None)
    group_id: String
    group_state: String = field(default="")
    protocol_type: String = field(default="")
    protocol_data: String = field(default="")
    """The protocol that the group chose; for consumers, the name of the assignor."""
    members: list[DescribedGroupMember] = field(default=[])
    authorized_operations: Int32 = field("3+", default=OPERATIONS_NOT_ASKED)


@response(ApiKey.DESCRIBE_GROUPS)
class DescribeGroupsResponse:
    """One description for each group."""

    throttle_time_ms: Int32 = field("1+", default=0)
    groups: list[DescribedGroup]
