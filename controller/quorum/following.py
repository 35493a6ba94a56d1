"""A follower's part: the next fetch, and the effect of an answer on the log.

Pure. At most one fetch is in flight. A fetch names the stable end of our log, so the next one is
sent after the flush. While records are being flushed or a snapshot is being loaded, fetches ask for
no records. They show the leader that we are alive, and the answers show us that the leader is.
"""

from dataclasses import dataclass
from typing import Final

from ...protocol.control.quorum_messages import FetchQuorumLog, QuorumLogFetched
from .effects import (
    Append,
    Committed,
    Failed,
    LoadSnapshot,
    QuorumEffect,
    Send,
    Truncate,
)
from .log_facts import LogFacts, truncation_for
from .voters import QuorumSettings

FETCH_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Following:
    """The role of a follower: of one leader, in one epoch."""

    settings: QuorumSettings
    cluster_id: str | None
    epoch: int
    leader_id: int
    log: LogFacts
    high_watermark: int
    since_ms: int
    """The time when we began to follow, or last heard from the leader. `patience_ms` counts from
    this time."""
    patience_ms: int
    """Milliseconds that a leader may be silent."""
    may_count: bool = True
    """False if the leader must not count our copy as an acknowledgement."""
    is_suspect: bool = False
    """True if the connection to the leader was lost since its last message."""
    heard_ms: int | None = None
    """The time of the leader's own last message; None before the first."""
    is_busy: bool = False
    """True while records are written or a snapshot is loaded."""
    echo_ms: int = -1
    _asked: FetchQuorumLog | None = None
    _ask_at_ms: int | None = None

    def next_deadline_ms(self) -> int:
        """Return the time to fetch next or to give up the leader, whichever is earlier."""
        silent_ms = self.since_ms + self.patience_ms
        return silent_ms if self._ask_at_ms is None else min(silent_ms, self._ask_at_ms)

    def is_silent(self, now_ms: int) -> bool:
        """True if the leader has not been heard from for `patience_ms`."""
        return now_ms >= self.since_ms + self.patience_ms

    def is_alive(self, now_ms: int) -> bool:
        """True if the leader was heard from within `patience_ms` and its connection is not lost."""
        if self.heard_ms is None or self.is_suspect:
            return False
        return now_ms < self.heard_ms + self.patience_ms

    def on_heard(self, now_ms: int) -> None:
        """Note that the leader has sent something."""
        self.since_ms = self.heard_ms = now_ms
        self.is_suspect = False

    def on_deadline(self, now_ms: int) -> list[QuorumEffect]:
        """Fetch if a fetch is due."""
        if self._ask_at_ms is not None and self._ask_at_ms <= now_ms:
            return self.fetch()
        return []

    def fetch(self) -> list[QuorumEffect]:
        """Ask the leader for the records after our log's stable end."""
        stable = self.log.stable
        me = self.settings.me
        self._ask_at_ms = None
        self._asked = FetchQuorumLog(
            cluster_id=self.cluster_id,
            epoch=self.epoch,
            replica=me if self.may_count else type(me)(me.voter_id),
            offset=stable.offset,
            last_epoch=stable.epoch,
            high_watermark=self.high_watermark,
            max_wait_ms=self.settings.fetch_timeout_ms // 3,
            max_bytes=0 if self.is_busy else FETCH_BYTES,
            echoed_ms=self.echo_ms,
        )
        return [Send(self.leader_id, self._asked)]

    def on_fetched(
        self, request: FetchQuorumLog, answer: QuorumLogFetched, now_ms: int
    ) -> list[QuorumEffect]:
        """Return the effects of the leader's answer: to commit, cut, extend or replace the log."""
        if request is not self._asked:
            return []
        self._asked = None
        self.on_heard(now_ms)
        self.echo_ms = answer.sent_ms
        effects: list[QuorumEffect] = []
        if answer.diverging is None and answer.snapshot is None:
            # The leader has found everything before this offset to be in its own log. Our records
            # after it may be an older leader's, whatever the leader has committed there.
            reached = min(answer.high_watermark, request.offset)
            if reached > self.high_watermark:
                self.high_watermark = reached
                effects.append(Committed(reached))
        if self.is_busy:
            self._ask_at_ms = now_ms + self.settings.fetch_timeout_ms // 3
        elif answer.diverging is not None:
            offset = truncation_for(self.log, answer.diverging)
            if offset < self.high_watermark:
                why = f"the leader's log parts from ours at offset {offset}, but everything"
                why = f"{why} below {self.high_watermark} is committed: one of the two is damaged"
                return [Failed(why)]
            effects.append(Truncate(offset))
            self._ask_at_ms = now_ms
        elif answer.snapshot is not None:
            self.is_busy = True
            effects.append(LoadSnapshot(self.leader_id, answer.snapshot))
            self._ask_at_ms = now_ms + self.settings.fetch_timeout_ms // 3
        elif answer.records:
            self.is_busy = True
            effects.append(Append(answer.records))
            self._ask_at_ms = now_ms + self.settings.fetch_timeout_ms // 3
        else:
            self._ask_at_ms = now_ms
        return effects

    def on_unanswered(self, request: FetchQuorumLog, now_ms: int) -> None:
        """Plan the next fetch in `stagger_ms`, because this one got no answer."""
        if request is self._asked:
            self._asked = None
            self._ask_at_ms = now_ms + self.settings.stagger_ms

    def on_idle(self) -> list[QuorumEffect]:
        """Fetch again, now that the records are stable or the snapshot is loaded."""
        was_busy, self.is_busy = self.is_busy, False
        return self.fetch() if was_busy and self._asked is None else []

    def on_write_failed(self, again_at_ms: int) -> None:
        """Plan to fetch the received records again, because they could not be written."""
        self.is_busy = False
        if self._asked is None:
            self._ask_at_ms = again_at_ms
