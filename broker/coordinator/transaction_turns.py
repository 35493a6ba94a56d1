"""Requests that wait until a pending change of their transactional id has ended.

Such a wait mostly takes some milliseconds, until the markers of the previous transaction are
written or another leader has added a partition. The wait saves the client a retry. This module owns
the waiting requests and their deadlines. At its deadline a request is decided from the state at
that time.
"""

import asyncio
from collections.abc import Callable

from ...runtime.runtime import Runtime
from ..deadlines import Deadline, Deadlines

Again = Callable[[], None]
"""Decides a request again, after a change or at its deadline."""


class Turns:
    """The waiting requests by transactional id or commit group, in the order they came."""

    def __init__(self, runtime: Runtime, deadlines: Deadlines) -> None:
        self._runtime = runtime
        self._deadlines = deadlines
        self._waiting: dict[str, dict[Deadline, Again]] = {}

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    def is_over(self, until_ms: int) -> bool:
        """True if the deadline `until_ms` has passed."""
        return self._runtime.monotonic_ms() >= until_ms

    def wait(self, transactional_id: str, again: Again, until_ms: int) -> None:
        """Call `again` once: at the next change of the id, or soon after `until_ms`."""

        def expire() -> None:
            self._forget(transactional_id, deadline)
            again()

        deadline = self._deadlines.at(until_ms, expire)
        self._waiting.setdefault(transactional_id, {})[deadline] = again

    def on_changed(self, transactional_id: str) -> None:
        """Schedule the requests that wait for this id to be decided again.

        Called when a change of the id is committed, or never will be.
        """
        for deadline, again in self._waiting.pop(transactional_id, {}).items():
            deadline.cancel()
            # Not at once, because this is called in the middle of a commit of the log to append to.
            asyncio.get_running_loop().call_soon(again)

    def _forget(self, transactional_id: str, deadline: Deadline) -> None:
        waiting = self._waiting.get(transactional_id)
        if waiting is not None:
            waiting.pop(deadline, None)
            if not waiting:
                del self._waiting[transactional_id]
