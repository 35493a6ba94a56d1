"""DescribeTransactions: the state of transactional ids at this coordinator (KIP-664)."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ..coordinator.transaction.records import by_topic
from ..coordinator.transactions import Transactions
from ..net.answer import Call


def handle(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Describe each transactional id, or report its own error."""
    call.rest_on_lease()
    transactions = call.edge.transactions
    return DescribeTransactionsResponse(
        transaction_states=[_describe(transactions, each) for each in request.transactional_ids]
    )


def _describe(transactions: Transactions, transactional_id: str) -> TransactionState:
    known = transactions.describe(transactional_id)
    if isinstance(known, ErrorCode):
        return TransactionState(error_code=known, transactional_id=transactional_id)
    missing = transactions.missing_markers(transactional_id)
    partitions = sorted(known.partitions if missing is None else missing)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
    )
