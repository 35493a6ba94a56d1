"""ListGroups: list the groups that this broker coordinates."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@request(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Ask for the groups that match the filters; an empty filter matches all."""

    states_filter: list[String] = field("4+", default=[])
    types_filter: list[String] = field("5+", default=[])


@nested
class ListedGroup:
    """The name, the type and the state of a group."""

    group_id: String
    protocol_type: String
    group_state: String = field("4+", default="")
    group_type: String = field("5+", default="")
    """The group's type: `classic` or `consumer`."""


@response(ApiKey.LIST_GROUPS)
class ListGroupsResponse:
    """The loaded groups, and an error if the state of some groups is still being loaded."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
    groups: list[ListedGroup] = field(default=[])
