"""ListGroups: the groups that this broker coordinates."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@request(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Ask for the groups that match the filters; empty filters match all."""

    states_filter: list[String] = field("4+", default=[])
    types_filter: list[String] = field("5+", default=[])


@nested
class ListedGroup:
    """A group in brief."""

    group_id: String
    protocol_type: String
    group_state: String = field("4+", default="")
    group_type: String = field("5+", default="")
    """`classic` or `consumer`."""


@response(ApiKey.LIST_GROUPS)
class ListGroupsResponse:
    """Groups whose state is loaded, and an error where some is not."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field(default=0)
    groups: list[ListedGroup] = field(default=[])
