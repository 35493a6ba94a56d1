"""DeleteGroups: delete groups that have no members, together with their committed offsets."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, nested, request, response


@request(ApiKey.DELETE_GROUPS, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete groups; each group succeeds or fails on its own."""

    groups_names: list[String]


@nested
class DeletableGroupResult:
    """The result for one group."""

    group_id: String
    error_code: Int16 = field(default=0)


@response(ApiKey.DELETE_GROUPS)
class DeleteGroupsResponse:
    """One result for each group."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DeletableGroupResult]
