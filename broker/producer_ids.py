"""Producer ids from blocks that the controller reserved for this broker: each given out once.

Asks for the next block when the present one is used up, once for all who wait.
"""

from collections.abc import Callable

from ..protocol.errors import ApiError, ErrorCode
from ..runtime.runtime import Runtime
from .forwarding import Controller

Taken = Callable[[ErrorCode, int], None]
"""Called with NONE and a producer id, or with an error and -1."""

WAITING_MAX = 10_000


class ProducerIds:
    """This broker's stock of producer ids."""

    def __init__(self, runtime: Runtime, controller: Controller) -> None:
        self._runtime = runtime
        self._controller = controller
        self._next = 0
        self._end = 0
        self._waiting: dict[int, Taken] = {}
        self._tickets = 0
        self._is_asking = False

    def take(self) -> int | None:
        """An id nobody had, None if the stock is empty: then `wait`."""
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    def wait(self, taken: Taken) -> int:
        """Call `taken` once there is an id for it, or none to be had; gives a ticket to cancel."""
        self._tickets += 1
        if len(self._waiting) >= WAITING_MAX:
            taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            return self._tickets
        self._waiting[self._tickets] = taken
        if not self._is_asking:
            self._is_asking = True
            self._runtime.spawn(self._refill(), "producer-ids")
        return self._tickets

    def cancel(self, ticket: int) -> None:
        """Nobody waits with this ticket any more."""
        self._waiting.pop(ticket, None)

    async def _refill(self) -> None:
        try:
            while self._waiting:
                await self._ask()
        finally:
            self._is_asking = False

    async def _ask(self) -> None:
        try:
            first, count = await self._controller.allocate_producer_ids()
        except ApiError:
            # Retriable for every client, unlike most codes the controller may give.
            self._fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._next, self._end = first, first + count
        while self._waiting and (producer_id := self.take()) is not None:
            self._waiting.pop(next(iter(self._waiting)))(ErrorCode.NONE, producer_id)

    def _fail(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, {}
        for taken in waiting.values():
            taken(error, -1)
