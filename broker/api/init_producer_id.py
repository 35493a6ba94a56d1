"""InitProducerId: a number for an idempotent producer, from this broker's reserved block."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.types import Buffer
from ..net.answer import Answer, Call


def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | Answer:
    """Give out an id nobody had; an id that the producer already has is never bumped (KIP-360)."""
    if request.transactional_id is not None:
        return _response(ErrorCode.INVALID_REQUEST, -1)
    producer_id = call.edge.producer_ids.take()
    if producer_id is not None:
        return _response(ErrorCode.NONE, producer_id)
    return ParkedProducerId(call)


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
        """The client is gone."""
        self.call.edge.producer_ids.cancel(self._ticket)

    def _on_taken(self, error: ErrorCode, producer_id: int) -> None:
        self._response = _response(error, producer_id)
        self.call.connection.wake()


def _response(error: ErrorCode, producer_id: int) -> InitProducerIdResponse:
    epoch = -1 if error else 0
    return InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch)
