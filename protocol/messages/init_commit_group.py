"""InitCommitGroup, our own API: a job that commits transactions together begins a run of its group.

Each start of the job is a run. The group remembers the newest run, and the last batch it committed.
"""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.INIT_COMMIT_GROUP, versions="0", flexible="0+")
class InitCommitGroupRequest:
    """Begin a run of a group; the request goes to the coordinator of the group's name."""

    group: String
    run: String
    """A name that is unique to the run. A new name fences all earlier runs; a repeat changes
    nothing."""


@response(ApiKey.INIT_COMMIT_GROUP)
class InitCommitGroupResponse:
    """The run's generation, which its commits state, and the last batch committed before."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    generation: Int64 = field(default=-1)
    batch_id: Int64 = field(default=-1)
    """The id of the last committed batch; -1 if there is none."""
