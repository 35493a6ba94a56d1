"""EndTxn: commit or abort; answered once that is decided, before all markers are written.

From version 5 on the answer carries the producer's next epoch, so that a late request can end
nothing of a later transaction (KIP-890).
"""

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..coordinator.transaction.decisions import Decision, EndTransaction
from ..coordinator.transaction.transaction import BUMPING_VERSION
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

BUMPING_FROM = 5
FENCED_FROM = 2
"""Older clients know a fenced producer by INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: EndTxnRequest) -> Answer:
    """Decide the outcome; by the request's version its sender expects an epoch or none."""
    answer = Parked(call, rests_on_lease=True)

    def done(decision: Decision) -> None:
        answer.finish(
            EndTxnResponse(
                error_code=known_to_client(decision.error, call.version, FENCED_FROM),
                producer_id=decision.producer_id,
                producer_epoch=decision.epoch,
            )
        )

    asked = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        is_commit=request.committed,
        client_version=BUMPING_VERSION if call.version >= BUMPING_FROM else 0,
    )
    call.edge.transactions.end(asked, done)
    return answer
