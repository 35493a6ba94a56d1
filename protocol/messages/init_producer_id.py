"""InitProducerId: get a producer id, by which brokers recognise repeated batches."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, request, response


@request(ApiKey.INIT_PRODUCER_ID, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """Ask for a producer id, or for the next epoch of a producer id in use."""

    transactional_id: String | None = field(default=None)
    """The transactional id; None for an idempotent producer, whose request any broker can answer.
    """
    transaction_timeout_ms: Int32
    """Milliseconds that a transaction may stay open; ignored if there is no transactional id."""
    producer_id: Int64 = field("3+", default=-1)
    """The producer id in use, if its next epoch is wanted (KIP-360); else -1."""
    producer_epoch: Int16 = field("3+", default=-1)


@response(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdResponse:
    """The id and epoch to write into batches."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16 = field(default=0)
