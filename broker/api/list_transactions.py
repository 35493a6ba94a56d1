"""ListTransactions: the transactional ids coordinated here that pass every filter (KIP-664)."""

from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ...protocol.patterns import compiled
from ..coordinator.transaction.transaction import TITLES, Transaction
from ..net.answer import Call

ONLY_EVER_IN_MEMORY = ("Dead", "PrepareEpochFence")
"""Kafka's names of states that no transaction has here; as filters they are valid."""


def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List the ids; answer COORDINATOR_LOAD_IN_PROGRESS while some are read from the log."""
    transactions = call.edge.transactions
    if transactions.shards.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        named = request.transactional_id_pattern
        pattern = compiled(named) if named else None
    except ValueError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    call.rest_on_lease()
    known_states = (*TITLES.values(), *ONLY_EVER_IN_MEMORY)
    wall_ms = call.edge.runtime.wall_ms()
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in known_states],
        transaction_states=[
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.title,
            )
            for each in transactions.every()
            if _is_wanted(request, pattern, each, wall_ms)
        ],
    )


def _is_wanted(
    request: ListTransactionsRequest, pattern: Any, one: Transaction, wall_ms: int
) -> bool:
    """True if the transaction passes all filters."""
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and one.state.title not in request.state_filters:
        return False
    if request.duration_filter >= 0 and (
        one.state.is_idle or wall_ms - one.started_ms <= request.duration_filter
    ):
        return False
    return pattern is None or bool(pattern.fullmatch(one.transactional_id))
