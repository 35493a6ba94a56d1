"""ListTransactions: the transactional ids coordinated here that pass every filter (KIP-664)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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


class _Filters(NamedTuple):
    """The filters of a request; an empty one lets everything through."""

    producer_ids: Mapping[int, None]
    states: Mapping[str, None]
    duration_ms: int
    """Only what has run for longer, in ms; negative for no filter."""
    pattern: Any
    """A compiled pattern of the whole id, or None."""

    def pass_on(self, one: Transaction, wall_ms: int) -> bool:
        """True if the transaction passes all filters."""
        if self.producer_ids and one.producer_id not in self.producer_ids:
            return False
        if self.states and one.state.title not in self.states:
            return False
        if self.duration_ms >= 0 and (
            one.state.is_idle or wall_ms - one.started_ms <= self.duration_ms
        ):
            return False
        return self.pattern is None or bool(self.pattern.fullmatch(one.transactional_id))


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
    # A request may name a hundred thousand producers, so each transaction is looked up among them.
    filters = _Filters(
        dict.fromkeys(request.producer_id_filters),
        dict.fromkeys(request.state_filters),
        request.duration_filter,
        pattern,
    )
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
            if filters.pass_on(each, wall_ms)
        ],
    )
