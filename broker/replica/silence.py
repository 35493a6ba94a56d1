"""Finds followers that have stopped fetching, even if the controller thinks them alive.

A follower that lives fetches at least every replica.fetch.wait.max.ms, whether there is data or
not. A follower that is cut off from its leader alone, perhaps one way, still has its session with
the controller, so it is not fenced; and until replica.lag.time.max.ms is over every acks=all write
would wait for it. Kept per broker, not per partition: a fetch of a thousand partitions is one note.
"""

from typing import Final

SILENT_MS: Final = 3_000
"""Longer than a session: a broker that died is fenced before. Six fetches at defaults."""
LOOK_MS: Final = 1_000
OWN_STALL_MS: Final = 1_000
"""A look this late means that we stood still: what followers sent meanwhile is unread."""


class FollowersHeard:
    """The time at which each follower last fetched anything from this broker."""

    def __init__(self) -> None:
        self._heard_ms: dict[int, int] = {}
        self._looked_ms = -1

    def on_fetched(self, follower: int, now_ms: int) -> None:
        """A valid fetch of any partitions."""
        self._heard_ms[follower] = now_ms

    def silent(self, now_ms: int) -> list[int]:
        """Return the followers that have fallen silent; asked every LOOK_MS."""
        looked_ms, self._looked_ms = self._looked_ms, now_ms
        if now_ms - looked_ms > LOOK_MS + OWN_STALL_MS:
            self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)
        since_ms = now_ms - SILENT_MS
        return [follower for follower, heard_ms in self._heard_ms.items() if heard_ms < since_ms]

    def forget(self, follower: int) -> None:
        """Name the follower no more before it fetches again: nobody waits for it."""
        self._heard_ms.pop(follower, None)
