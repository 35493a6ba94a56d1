"""ListTransactions: list transactional ids that this broker coordinates (KIP-664, 994, 1152)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response


@request(ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Ask for the transactional ids that pass every filter; an empty filter passes all."""

    state_filters: list[String] = field(default=[])
    producer_id_filters: list[Int64] = field(default=[])
    duration_filter: Int64 = field("1+", default=-1)
    """The ms for which a transaction must have been open to pass; a negative value passes all."""
    transactional_id_pattern: String | None = field("2+", default=None)
    """A regular expression that the whole transactional id must match; None passes all."""


@nested
class TransactionState:
    """A transactional id, its producer id and its state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@response(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsResponse:
    """The ids found, and the state filters that are not names of states."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    unknown_state_filters: list[String] = field(default=[])
    transaction_states: list[TransactionState] = field(default=[])
