"""What one follower has proved to its leader, fetch by fetch. Pure.

Owned by `LeaderReplica`, one per follower and leader epoch. Never compares with anything but what
it is told; what a proof is worth is the leader's to say.
"""

from dataclasses import dataclass
from typing import Self

from ...protocol.types import NO_EPOCH, NO_OFFSET


@dataclass(slots=True)
class FollowerProgress:
    """What one follower's fetches in this leader epoch have proved."""

    log_end_offset: int = NO_OFFSET
    """Everything below has been fetched."""
    held_offset: int = NO_OFFSET
    """Everything below counts as held: fetched, and under group flush on stable storage too."""
    caught_up_at_ms: int = 0
    fetched_at_ms: int = 0
    leader_end_at_fetch: int = NO_OFFSET
    """The leader's log end offset when it last fetched: reaching it now means that it was caught
    up then."""
    broker_epoch: int = NO_EPOCH

    @classmethod
    def of_outsider(cls, known: Self | None, caught_up_at_ms: int) -> Self:
        """Nothing is proved any more but which start of the broker it is."""
        epoch = NO_EPOCH if known is None else known.broker_epoch
        return cls(caught_up_at_ms=caught_up_at_ms, broker_epoch=epoch)

    def on_fetched(self, fetch_offset: int, leader_end: int, now_ms: int) -> None:
        """A valid fetch at `fetch_offset`, while the leader's log ended at `leader_end`."""
        if fetch_offset >= leader_end:
            self.caught_up_at_ms = now_ms
        elif fetch_offset >= self.leader_end_at_fetch >= 0:
            # Under constant small appends it never holds the newest record, but it holds all that
            # there was at its previous fetch: it was caught up then.
            self.caught_up_at_ms = max(self.caught_up_at_ms, self.fetched_at_ms)
        self.log_end_offset = self.held_offset = fetch_offset
        self.fetched_at_ms = now_ms
        self.leader_end_at_fetch = leader_end

    def on_fetched_and_flushed(
        self, fetch_offset: int, flushed_offset: int, leader_end: int, now_ms: int
    ) -> None:
        """The same where only what is on the follower's stable storage counts as held."""
        self.on_fetched(fetch_offset, leader_end, now_ms)
        self.held_offset = min(fetch_offset, flushed_offset)

    def forget_unflushed(self) -> None:
        """From now on what was fetched counts only as far as it is flushed: not known yet."""
        self.held_offset = NO_OFFSET

    def is_caught_up(self, leader_end: int, since_ms: int) -> bool:
        """Does it hold everything, or did it hold all that there was at `since_ms` or later?"""
        return self.held_offset >= leader_end or self.caught_up_at_ms >= since_ms

    def on_idle_fetches(self, last_ms: int) -> None:
        """Up to `last_ms` it went on fetching at the leader's end, and nobody looked."""
        if self.log_end_offset >= self.leader_end_at_fetch:
            self.fetched_at_ms = self.caught_up_at_ms = max(self.caught_up_at_ms, last_ms)
