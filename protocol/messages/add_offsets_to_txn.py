"""AddOffsetsToTxn: a transaction will commit a group's offsets, so it writes to its log."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Add the partition of the internal topic that keeps this group."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@response(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    """The outcome: the group's offsets log is in the transaction, or an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
