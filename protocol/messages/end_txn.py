"""EndTxn: commit or abort; the answer of version 5 gives the producer its next epoch (KIP-890)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, request, response


@request(ApiKey.END_TXN, versions="0-5", flexible="3+")
class EndTxnRequest:
    """End the open transaction."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool
    """False: abort."""


@response(ApiKey.END_TXN)
class EndTxnResponse:
    """The outcome is decided and will be carried out, unless there is an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    producer_id: Int64 = field("5+", default=-1)
    """The id for the next transaction; it differs from the request's if the epochs have run out."""
    producer_epoch: Int16 = field("5+", default=-1)
