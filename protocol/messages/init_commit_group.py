"""InitCommitGroup, ours: a run of work that commits transactions together takes its group over."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.INIT_COMMIT_GROUP, versions="0", flexible="0+")
class InitCommitGroupRequest:
    """Asked of the coordinator of the transactional id that is called as the group."""

    group: String
    run: String
    """Who asks. A run not seen before takes over, and fences those before; asking again is free."""


@response(ApiKey.INIT_COMMIT_GROUP)
class InitCommitGroupResponse:
    """What the run says at each commit, and where it goes on."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    generation: Int64 = field(default=-1)
    batch_id: Int64 = field(default=-1)
    """The newest that was recorded; -1: none."""
