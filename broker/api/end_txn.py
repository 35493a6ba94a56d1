"""EndTxn: commit or abort; answered when that is decided for good, before every marker is written.

From version 5 on the producer's next epoch comes with the answer, so that a request which is late
can end nothing of a later transaction (KIP-890).
"""

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.types import NO_EPOCH, NO_PRODUCER_ID
from ..coordinator.transaction.decisions import Decision, EndTransaction
from ..coordinator.transaction.transaction import BUMPING_VERSION
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

BUMPING_FROM = 5
FENCED_FROM = 2
"""Older clients know a fenced producer by INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: EndTxnRequest) -> Answer:
    """Decide the outcome; the request's version says whether its sender expects an epoch."""
    answer = Parked(call, rests_on_lease=True)

    def done(decision: Decision) -> None:
        error = known_to_client(decision.error, call.version, FENCED_FROM)
        answer.finish(
            EndTxnResponse(
                error_code=error,
                producer_id=NO_PRODUCER_ID if error else decision.producer_id,
                producer_epoch=NO_EPOCH if error else decision.epoch,
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
