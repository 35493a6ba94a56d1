"""InitCommitGroup, ours: a run of work that commits transactions together takes over a group."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.INIT_COMMIT_GROUP, versions="0", flexible="0+")
class InitCommitGroupRequest:
    """Begin a run of a group, at the coordinator of the group's name as a transactional id."""

    group: String
    run: String
    """The name of the run. A new name takes over and fences all earlier runs; a repeat changes
    nothing."""


@response(ApiKey.INIT_COMMIT_GROUP)
class InitCommitGroupResponse:
    """The generation that the run states at each commit, and the batch that it continues after."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    generation: Int64 = field(default=-1)
    batch_id: Int64 = field(default=-1)
    """The newest batch that was committed; -1 if none was."""
