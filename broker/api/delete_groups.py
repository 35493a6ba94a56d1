"""DeleteGroups: delete empty groups and their committed offsets."""

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ..audit.happenings import Change
from ..coordinator.shard import Done
from ..net.answer import Answer, Call
from .acted import tell
from .parked import Parked, Several


def handle(call: Call, request: DeleteGroupsRequest) -> Answer:
    """Delete each group separately; answer once every deletion is committed or refused."""
    answer = Parked(call)
    names = list(dict.fromkeys(request.groups_names))
    results = [DeletableGroupResult(group_id=name) for name in names]

    def made() -> DeleteGroupsResponse:
        gone = [each.group_id for each in results if not each.error_code]
        changes = [Change(f"group/{name}", "group", "empty", None) for name in gone]
        tell(call, ApiKey.DELETE_GROUPS, changes)
        return DeleteGroupsResponse(results=results)

    several = Several(answer, len(names), made)

    def done_with(result: DeletableGroupResult) -> Done:
        def done(error: ErrorCode) -> None:
            result.error_code = error
            several.one_is_there()

        return done

    for result in results:
        call.edge.groups.delete(result.group_id, done_with(result))
    return answer
