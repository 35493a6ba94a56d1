"""The progress that one follower has proved to its leader, fetch by fetch.

There are two offsets: the fetched offset, and the held offset, up to which the follower's copy
counts. They are the same unless `flush.policy=group`, under which a copy counts only up to its
flushed offset. The held offset decides whether a follower is caught up, because a follower whose
disk hangs is no better than an absent one.
"""

from dataclasses import dataclass
from typing import Final

from ...protocol.types import NO_EPOCH, NO_OFFSET

NEVER: Final = -1


@dataclass(slots=True)
class FollowerProgress:
    """The progress that one follower's fetches in this leader epoch have proved."""

    log_end_offset: int = NO_OFFSET
    """The follower has fetched everything below this offset."""
    held_offset: int = NO_OFFSET
    """The follower holds everything below this offset: fetched and, under group flush, flushed."""
    caught_up_at_ms: int = 0
    fetched_at_ms: int = NEVER
    fetch_gap_ms: int = NEVER
    """Milliseconds between the follower's last two fetches; NEVER before the second."""
    mark_offset: int = NO_OFFSET
    """The leader's log end at `marked_at_ms`. A follower that holds this offset now was caught up
    then."""
    marked_at_ms: int = 0
    broker_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    """The log start offset that the follower last reported; -1 before."""

    def on_fetched(self, fetch_offset: int, held_offset: int, leader_end: int, now_ms: int) -> None:
        """Note a valid fetch at `fetch_offset`, while the leader's log ended at `leader_end`."""
        if held_offset >= leader_end:
            self.caught_up_at_ms = now_ms
        elif held_offset >= self.mark_offset >= 0:
            # Under constant small appends it never holds the newest record, but it holds all
            # records that the log had when the mark was set, at its previous fetch.
            self.caught_up_at_ms = max(self.caught_up_at_ms, self.marked_at_ms)
        if held_offset == fetch_offset or held_offset >= self.mark_offset:
            # A flush takes longer than a fetch. While one is under way the mark does not move,
            # because a follower under load would never reach it.
            self.mark_offset, self.marked_at_ms = leader_end, now_ms
        self.log_end_offset, self.held_offset = fetch_offset, held_offset
        if self.fetched_at_ms != NEVER:
            self.fetch_gap_ms = now_ms - self.fetched_at_ms
        self.fetched_at_ms = now_ms

    def forget_unflushed(self) -> None:
        """Forget the held offset, because from now on it is the flushed offset, not known yet."""
        self.held_offset = NO_OFFSET

    def is_caught_up(self, leader_end: int, since_ms: int) -> bool:
        """True if the follower holds the whole log, or held it at `since_ms` or later."""
        return self.held_offset >= leader_end or self.caught_up_at_ms >= since_ms

    def behind_ms(self, leader_end: int, now_ms: int) -> int:
        """Return the milliseconds since the follower last held the leader's whole log.

        0 means that the follower holds the whole log now. Before its first fetch the time counts
        from the moment at which it could have begun to fetch.
        """
        return 0 if self.held_offset >= leader_end else max(now_ms - self.caught_up_at_ms, 0)

    def is_kept(self, leader_end: int, since_ms: int, *, is_silent: bool) -> bool:
        """True if the follower may stay in the ISR.

        A follower that has stopped fetching (`is_silent`) may stay only while it holds the whole
        log. One that has not fetched in this leader epoch yet has the whole lag time to begin.
        """
        if is_silent and self.log_end_offset != NO_OFFSET:
            return self.held_offset >= leader_end
        return self.is_caught_up(leader_end, since_ms)

    def held_if_caught_up(self, held: int, leader_end: int, since_ms: int) -> int:
        """Return the lower of `held` and the held offset of a follower that is caught up."""
        if 0 <= self.held_offset < held and self.is_caught_up(leader_end, since_ms):
            return self.held_offset
        return held

    def is_slow(self, within_ms: int) -> bool:
        """True if more than `within_ms` passed between the follower's last two fetches."""
        return self.fetch_gap_ms > within_ms

    def on_idle_fetches(self, last_ms: int) -> None:
        """Note fetches at the leader's log end that `on_fetched` missed, the last at `last_ms`."""
        if self.held_offset >= self.mark_offset >= 0:
            self.fetched_at_ms = self.caught_up_at_ms = max(self.caught_up_at_ms, last_ms)


def carried_over(
    known: FollowerProgress | None, is_member: bool, was_member: bool, now_ms: int, lag_max_ms: int
) -> FollowerProgress:
    """Return the part of a follower's progress that stays valid when the metadata changes."""
    if is_member:
        # A new member gets the full lag time to prove itself.
        progress = known or FollowerProgress()
        if known is None or not was_member:
            progress.caught_up_at_ms = now_ms
        return progress
    if known is not None and not was_member:
        return known
    # It left the ISR, perhaps because it is silent, and only a new fetch brings it back. Its
    # broker epoch is kept, so that fetches of an earlier start of that broker are refused.
    outsider = FollowerProgress(caught_up_at_ms=now_ms - lag_max_ms - 1)
    if known is not None:
        outsider.broker_epoch = known.broker_epoch
        outsider.fetched_at_ms, outsider.fetch_gap_ms = known.fetched_at_ms, known.fetch_gap_ms
    return outsider
