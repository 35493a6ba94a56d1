"""CommitGroup, our own API: one decision commits the transactions of many producers as a batch.

The batch id makes the request idempotent: a batch that is already recorded is not decided again.
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
    """Commit the named transactions, abort all others open in the group, and record the batch."""

    group: String
    generation: Int64
    """The generation that InitCommitGroup returned."""
    batch_id: Int64
    """The id of the batch, greater than the ids of all earlier batches."""
    transactions: list[GroupTransaction]


@response(ApiKey.COMMIT_GROUP)
class CommitGroupResponse:
    """If there is no error, the batch is recorded durably and its transactions are committed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    is_replay: Bool = field(default=False)
    """True if the batch was recorded already, for example by an earlier attempt of this request."""
