"""Gives out producer ids, each once, from blocks that the controller reserved for this broker.

A spare block is kept besides the present one, so that producers can begin while no controller is
available. One request fetches a block for all waiting callers; each caller is answered in time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from ...protocol.errors import ApiError, ErrorCode
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..control.controller_channel import ActiveController

Taken = Callable[[ErrorCode, int], None]
"""Called with NONE and a producer id, or with an error and -1."""

WAITING_MAX: Final = 10_000
ANSWER_WITHIN_MS: Final = 2_500
"""Milliseconds after which waiting callers get an error; the request for a block continues."""


class ProducerIds:
    """This broker's stock of producer ids."""

    def __init__(self, runtime: Runtime, controller: ActiveController) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        """The first id and the end (exclusive) of the next block; None if there is none."""
        self._waiting: deque[Taken] = deque()
        self._asking = OwnedTask(runtime, "producer-ids")

    def take(self) -> int | None:
        """Take an unused id; return None if the stock is empty, so that the caller must `wait`."""
        if self._next == self._end and self._spare is not None:
            (self._next, self._end), self._spare = self._spare, None
        if self._spare is None:
            self.stock_up()
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    def stock_up(self) -> None:
        """Request a block from the controller, unless a request is under way."""
        self._asking.start(self._refill)

    def wait(self, taken: Taken) -> None:
        """Call `taken` once, with an unused id or an error; do so now if the stock has an id."""
        producer_id = self.take()
        if producer_id is not None:
            taken(ErrorCode.NONE, producer_id)
        elif len(self._waiting) >= WAITING_MAX:
            taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        else:
            self._waiting.append(taken)

    async def close(self) -> None:
        """Cancel the request for a block, because the broker stops."""
        await self._asking.stop()

    async def _refill(self) -> None:
        """Fetch at least one block from the controller, and more until no caller waits."""
        while True:
            try:
                first, count = await self._block()
            except ApiError:
                # Retriable for every client, unlike most codes the controller may give.
                self._fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return
            self._store(first, first + count)
            if not self._waiting:
                return

    async def _block(self) -> tuple[int, int]:
        """Fetch a block of ids from the controller; if it is slow, waiting callers get an error."""
        asking = asyncio.ensure_future(self._controller.allocate_producer_ids())
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=ANSWER_WITHIN_MS / 1000)
                if not asking.done():
                    self._fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return asking.result()
        finally:
            asking.cancel()

    def _store(self, first: int, end: int) -> None:
        if self._next < self._end:
            self._spare = (first, end)
            return
        self._next, self._end = first, end
        while self._waiting and self._next < self._end:
            self._next += 1
            self._waiting.popleft()(ErrorCode.NONE, self._next - 1)

    def _fail(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for taken in waiting:
            taken(error, -1)
