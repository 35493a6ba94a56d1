"""An answer that one task computes; an unforeseen error in it closes only its connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...protocol.types import Buffer
from ...runtime.errors import InvariantViolation
from ..net.answer import Call, CallAnswer


class Worked(CallAnswer):
    """An answer that is ready when its task has ended."""

    __slots__ = ("_error", "_response", "_task")

    def __init__(
        self,
        call: Call,
        work: Coroutine[Any, Any, None],
        name: str,
        response: Callable[[], object],
    ) -> None:
        """`response` returns the message to send, when `work` has ended without an error."""
        super().__init__(call)
        self._response = response
        self._error: Exception | None = None
        self._task: asyncio.Task[None] = call.edge.runtime.spawn(self._run(work), name)

    def poll(self) -> list[Buffer] | None:
        """Return the encoded response, or None before the task has ended.

        Raise the task's error.
        """
        if self._error is not None:
            raise self._error
        return self.call.frame(self._response()) if self._task.done() else None

    def cancel(self) -> None:
        """Stop the task, because the client is gone."""
        self._task.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except InvariantViolation:
            raise
        except Exception as error:
            # A supervised task that fails ends the process; one request must not.
            self._error = error
        # The task is done when this turn ends; the connection polls in the next.
        self.call.connection.wake()
