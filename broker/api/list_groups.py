"""ListGroups: the groups that this broker coordinates, by state and type."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ..net.answer import Call

CLASSIC = "classic"


def handle(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that pass the filters, which are compared without regard to case."""
    shards = call.edge.groups.shards
    states = {state.lower(): None for state in request.states_filter}
    types = {kind.lower(): None for kind in request.types_filter}
    groups: list[ListedGroup] = []
    if not types or CLASSIC in types:
        groups = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.roster.protocol_type or "",
                group_state=group.phase.value,
                group_type=CLASSIC,
            )
            for shard in shards
            for group in shard.state.groups.values()
            if not states or group.phase.value.lower() in states
        ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shards.is_loading else ErrorCode.NONE
    return ListGroupsResponse(error_code=error, groups=groups)
