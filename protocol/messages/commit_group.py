"""CommitGroup, ours: one decision commits the transactions of many producers under a batch id.

The batch id makes the request idempotent: a batch that is recorded already is not decided again.
"""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response


@nested
class GroupTransaction:
    """An open transaction whose records are all acknowledged."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16


@request(ApiKey.COMMIT_GROUP, versions="0", flexible="0+")
class CommitGroupRequest:
    """Commit these, abort every other open transaction of the group, record the batch."""

    group: String
    generation: Int64
    """The generation that InitCommitGroup returned."""
    batch_id: Int64
    """Greater than that of every batch before."""
    transactions: list[GroupTransaction]


@response(ApiKey.COMMIT_GROUP)
class CommitGroupResponse:
    """Without an error the batch is recorded for good, and its transactions committed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    is_replay: Bool = field(default=False)
    """True if the batch was recorded before, by any request: perhaps by an earlier try of this
    one."""
