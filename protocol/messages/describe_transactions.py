"""DescribeTransactions: read the state of transactional ids from their coordinators (KIP-664)."""

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response


@request(ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Ask about some transactional ids; the request goes to their coordinator."""

    transactional_ids: list[String]


@nested
class TopicData:
    """Partitions of one topic that the transaction wrote to."""

    topic: String
    partitions: list[Int32]


@nested
class TransactionState:
    """The state of one transactional id."""

    error_code: Int16 = field(default=0)
    transactional_id: String
    transaction_state: String = field(default="")
    """`Empty`, `Ongoing`, `PrepareCommit`, ..., as Kafka names them."""
    transaction_timeout_ms: Int32 = field(default=0)
    transaction_start_time_ms: Int64 = field(default=-1)
    """The time when the open transaction began, in ms since the epoch; -1 if none is open."""
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16 = field(default=-1)
    topics: list[TopicData] = field(default=[])
    """The partitions in the transaction; while it ends, only those without a marker yet."""


@response(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsResponse:
    """One item for each id."""

    throttle_time_ms: Int32 = field(default=0)
    transaction_states: list[TransactionState]
