"""AddOffsetsToTxn: announce that a transaction will commit offsets of a consumer group."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Add the partition of __consumer_offsets that keeps this group's offsets."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@response(ApiKey.ADD_OFFSETS_TO_TXN)
class AddOffsetsToTxnResponse:
    """The result: the partition was added to the transaction, or there is an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
