"""Requests about a transactional id that must wait for the change of it that is on its way.

Such a wait mostly takes some milliseconds: for the markers of the transaction before, or for a
partition that another leader is adding. It costs no round trip and no retry. Owns the waiting
requests and their bounds; when its time is over a request is decided as things are.
"""

import asyncio
from collections.abc import Callable

from ...runtime.runtime import Runtime
from ..deadlines import Deadline, Deadlines

Again = Callable[[], None]
"""Decides again: something has changed, or time is over."""


class Turns:
    """The waiting requests by transactional id, in the order they came."""

    def __init__(self, runtime: Runtime, deadlines: Deadlines) -> None:
        self._runtime = runtime
        self._deadlines = deadlines
        self._waiting: dict[str, dict[Deadline, Again]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def is_over(self, until_ms: int) -> bool:
        """True if the request has waited long enough."""
        return self._runtime.monotonic_ms() >= until_ms

    def wait(self, transactional_id: str, again: Again, until_ms: int) -> None:
        """Call `again` once: at the next change of the id, or soon after `until_ms`."""

        def expire() -> None:
            self._forget(transactional_id, deadline)
            again()

        deadline = self._deadlines.at(until_ms, expire)
        self._waiting.setdefault(transactional_id, {})[deadline] = again

    def on_changed(self, transactional_id: str) -> None:
        """A change of the id holds, or never will."""
        for deadline, again in self._waiting.pop(transactional_id, {}).items():
            deadline.cancel()
            # Not at once: this is told from the middle of a commit of the very log to append to.
            asyncio.get_running_loop().call_soon(again)

    def _forget(self, transactional_id: str, deadline: Deadline) -> None:
        waiting = self._waiting.get(transactional_id)
        if waiting is not None:
            waiting.pop(deadline, None)
            if not waiting:
                del self._waiting[transactional_id]
