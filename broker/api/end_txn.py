"""EndTxn: commit or abort a transaction; answered once this is decided, before its markers.

From version 5 on the response carries the producer's next epoch, so that a late request cannot end
a later transaction (KIP-890).
"""

from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..coordinator.transaction.decisions import Decision, EndTransaction
from ..coordinator.transaction.transaction import BUMPING_VERSION
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

BUMPING_FROM = 5
FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: EndTxnRequest) -> Answer:
    """Have the coordinator commit or abort; from version 5 on, with a new producer epoch."""
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
