"""Finds followers that have stopped fetching, even if the controller considers them alive.

A live follower fetches at least every replica.fetch.wait.max.ms, whether there is data or not. A
follower that is cut off only from its leader, perhaps in one direction, keeps its session with the
controller, so the controller does not fence it. Every acks=all write would wait for it until
replica.lag.time.max.ms is over. The times are kept for each broker, not for each partition.
"""

from typing import Final

SILENT_MS: Final = 3_000
"""Milliseconds without a fetch after which a follower is silent; longer than a broker session."""
LOOK_MS: Final = 1_000
OWN_STALL_MS: Final = 1_000
"""A check that is late by more than these milliseconds shows that this process stood still, so that
fetches of followers may wait unread."""


class FollowersHeard:
    """The time at which each follower last fetched anything from this broker."""

    def __init__(self) -> None:
        self._heard_ms: dict[int, int] = {}
        self._looked_ms = -1

    def on_fetched(self, follower: int, now_ms: int) -> None:
        """Note a valid fetch of any partitions."""
        self._heard_ms[follower] = now_ms

    def silent(self, now_ms: int) -> list[int]:
        """Return the followers without a fetch for SILENT_MS; call this every LOOK_MS."""
        looked_ms, self._looked_ms = self._looked_ms, now_ms
        if now_ms - looked_ms > LOOK_MS + OWN_STALL_MS:
            self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)
        since_ms = now_ms - SILENT_MS
        return [follower for follower, heard_ms in self._heard_ms.items() if heard_ms < since_ms]

    def forget(self, follower: int) -> None:
        """Forget a follower until it fetches again, because no ISR has it as a member."""
        self._heard_ms.pop(follower, None)
