"""InitProducerId: a producer gets its id and epoch, from its coordinator if it is transactional."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.types import NO_EPOCH, NO_PRODUCER_ID
from ..coordinator.transaction.decisions import Decision, InitProducerId
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

FENCED_FROM = 4
"""The first version whose clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Answer:
    """Answer with a producer id and epoch.

    A producer without a transactional id gets a new id, never the next epoch of its old id
    (KIP-360).
    """
    if request.transactional_id is not None:
        return _transactional(call, request, request.transactional_id)
    answer = Parked(call)
    call.edge.producer_ids.wait(lambda error, new_id: answer.finish(_response(error, new_id)))
    return answer


def _transactional(
    call: Call, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse | Answer:
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id is not has_epoch:
        return _response(ErrorCode.INVALID_REQUEST, NO_PRODUCER_ID)
    answer = Parked(call, rests_on_lease=True)

    def done(decision: Decision) -> None:
        answer.finish(
            InitProducerIdResponse(
                error_code=known_to_client(decision.error, call.version, FENCED_FROM),
                producer_id=decision.producer_id,
                producer_epoch=decision.epoch,
            )
        )

    asked = InitProducerId(
        transactional_id=transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
    )
    call.edge.transactions.init_producer_id(asked, done)
    return answer


def _response(error: ErrorCode, producer_id: int) -> InitProducerIdResponse:
    epoch = -1 if error else 0
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)
