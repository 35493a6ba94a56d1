"""EndTxn: commit or abort a transaction; from version 5 on it raises the epoch (KIP-890)."""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, request, response


@request(ApiKey.END_TXN, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit or abort the open transaction."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool
    """True to commit the transaction, false to abort it."""


@response(ApiKey.END_TXN)
class EndTxnResponse:
    """The outcome is decided if there is no error; the coordinator will carry it out."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    producer_id: Int64 = field("5+", default=-1)
    """The producer id of the next transaction. It differs from the id in the request if the epochs
    of that id are used up."""
    producer_epoch: Int16 = field("5+", default=-1)
