"""InitProducerId: a producer's id and epoch; from the transaction's coordinator if it has one."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.types import NO_EPOCH, NO_PRODUCER_ID, Buffer
from ..coordinator.transaction.decisions import Decision, InitProducerId
from ..net.answer import Answer, Call
from .common import known_to_client
from .parked import Parked

FENCED_FROM = 4
"""Older clients know a fenced producer by INVALID_PRODUCER_EPOCH."""


def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Answer:
    """Answer with a producer id.

    Without a transactional id it is a new one, never the next epoch of an old one (KIP-360).
    """
    if request.transactional_id is not None:
        return _transactional(call, request, request.transactional_id)
    producer_id = call.edge.producer_ids.take()
    if producer_id is not None:
        return _response(ErrorCode.NONE, producer_id)
    return ParkedProducerId(call)


def _transactional(
    call: Call, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse | Answer:
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id is not has_epoch:
        return _response(ErrorCode.INVALID_REQUEST, NO_PRODUCER_ID)
    answer = Parked(call, rests_on_lease=True)

    def done(decision: Decision) -> None:
        error = known_to_client(decision.error, call.version, FENCED_FROM)
        answer.finish(
            InitProducerIdResponse(
                error_code=error,
                producer_id=NO_PRODUCER_ID if error else decision.producer_id,
                producer_epoch=NO_EPOCH if error else decision.epoch,
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


class ParkedProducerId(Answer):
    """An answer that waits for the controller to reserve the next block."""

    __slots__ = ("_response", "_ticket")

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._response: InitProducerIdResponse | None = None
        self._ticket = call.edge.producer_ids.wait(self._on_taken)

    def poll(self) -> list[Buffer] | None:
        """Answer once there is an id or an error."""
        return None if self._response is None else self.call.frame(self._response)

    def cancel(self) -> None:
        """Stop waiting for an id: the client is gone."""
        self.call.edge.producer_ids.cancel(self._ticket)

    def _on_taken(self, error: ErrorCode, producer_id: int) -> None:
        self._response = _response(error, producer_id)
        self.call.connection.wake()


def _response(error: ErrorCode, producer_id: int) -> InitProducerIdResponse:
    epoch = -1 if error else 0
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)
