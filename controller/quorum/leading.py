"""The leader's part: how far each follower is, what is committed, and whether a majority follows.

    a fetch at offset N      acknowledges that everything before N is stable on the follower
    high watermark           the end of what a majority, this node included, holds on stable
                             storage. It moves only past a record of this epoch; older records
                             are committed together with that record (Raft, 5.4.2)
    check quorum             the leader resigns if no majority fetches for 1.5 x fetch timeout

Pure. A fetch for which there is nothing new waits here until there is, or until its time is over.
"""

from dataclasses import dataclass, field
from typing import Final

from ...protocol.control.quorum_messages import (
    BeginQuorumEpoch,
    FetchQuorumLog,
    QuorumLogFetched,
    VoterKey,
)
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import QuorumPartitionData, ReplicaState
from ...protocol.types import ZERO_UUID
from .effects import Answer, AnswerWithRecords, Committed, QuorumEffect, Send
from .log_facts import LogFacts, Match, compare
from .voters import QuorumSettings, Voters

FETCH_BYTES_MAX: Final = 8 << 20
OBSERVERS_MAX: Final = 100
PARKED_MAX: Final = 1000


@dataclass(slots=True)
class Progress:
    """The leader's knowledge of another copy of the log."""

    key: VoterKey
    heard_ms: int
    """The time of the follower's last fetch, or when we became leader; its silence counts from
    then."""
    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    end_at_fetch: int = 0
    """The stable end of our log at the follower's last fetch."""
    contact_ms: int = -1
    """The time when we sent the newest message that the follower has answered in this epoch."""
    tell_at_ms: int | None = None
    """The time to announce (again) that we lead. It is None if no announcement is due."""
    told_ms: int = -1


@dataclass(slots=True)
class _Parked:
    ticket: int
    request: FetchQuorumLog
    until_ms: int


@dataclass(slots=True)
class Leading:
    """The role of a leader, in one epoch."""

    settings: QuorumSettings
    voters: Voters
    cluster_id: str | None
    epoch: int
    log: LogFacts
    high_watermark: int
    now_ms: int
    """The time when this node became the leader."""
    followers: dict[int, Progress] = field(default_factory=dict)
    observers: dict[VoterKey, Progress] = field(default_factory=dict)
    start_offset: int = field(init=False)
    """The offset of this epoch's first record. Nothing is committed before a majority has it."""
    _parked: dict[VoterKey, _Parked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_offset = self.log.end.offset
        me, now_ms = self.settings.me.voter_id, self.now_ms
        for each in self.voters.ids:
            if each != me:
                key = self.voters.key(each)
                self.followers[each] = Progress(key, now_ms, tell_at_ms=now_ms)

    # Fetches.

    def on_fetch(self, ticket: int, request: FetchQuorumLog, now_ms: int) -> list[QuorumEffect]:
        """Note how far the follower is, then answer the fetch or let it wait.

        The caller has checked that the request names the epoch of this leader.
        """
        effects: list[QuorumEffect] = []
        progress = self._progress(request.replica, now_ms)
        before_ms, progress.fetched_ms = progress.fetched_ms, now_ms
        progress.heard_ms, progress.tell_at_ms = now_ms, None
        if request.echoed_ms <= now_ms:
            progress.contact_ms = max(progress.contact_ms, request.echoed_ms)
        match, diverging = compare(self.log, request.offset, request.last_epoch)
        if match is Match.VALID and request.offset <= self.log.stable.offset:
            if request.offset >= progress.end_at_fetch:
                progress.caught_up_ms = max(progress.caught_up_ms, before_ms)
            if request.offset >= self.log.stable.offset:
                progress.caught_up_ms = now_ms
            progress.end_offset = request.offset
            progress.end_at_fetch = self.log.stable.offset
            effects += self.maybe_commit(now_ms)
        effects += self._drop_parked(request.replica, now_ms)
        if match is not Match.VALID:
            # Without records, because the follower must first cut its log or load the snapshot.
            snapshot = self.log.snapshot if match is Match.NEEDS_SNAPSHOT else None
            answer = self._answer(now_ms, diverging=diverging, snapshot=snapshot)
            effects.append(Answer(ticket, answer))
        elif self._has_news(request) or request.max_bytes <= 0 or len(self._parked) >= PARKED_MAX:
            effects.append(self._answer_now(ticket, request, now_ms))
        else:
            wait_ms = max(0, min(request.max_wait_ms, self.settings.fetch_timeout_ms // 2))
            self._parked[request.replica] = _Parked(ticket, request, now_ms + wait_ms)
        return effects

    def _progress(self, key: VoterKey, now_ms: int) -> Progress:
        if self.voters.counts(key) and key.voter_id in self.followers:
            return self.followers[key.voter_id]
        progress = self.observers.setdefault(key, Progress(key, now_ms))
        while len(self.observers) > OBSERVERS_MAX:
            del self.observers[next(iter(self.observers))]
        return progress

    def _has_news(self, request: FetchQuorumLog) -> bool:
        behind = request.offset < self.log.stable.offset
        return behind or request.high_watermark < min(self.high_watermark, request.offset)

    def _answer_now(self, ticket: int, request: FetchQuorumLog, now_ms: int) -> QuorumEffect:
        answer, up_to = self._answer(now_ms), self.log.stable.offset
        if request.max_bytes <= 0 or request.offset >= up_to:
            return Answer(ticket, answer)
        max_bytes = min(request.max_bytes, FETCH_BYTES_MAX)
        return AnswerWithRecords(ticket, answer, request.offset, max_bytes, up_to)

    def _answer(self, now_ms: int, **what: object) -> QuorumLogFetched:
        return QuorumLogFetched(
            ErrorCode.NONE,
            epoch=self.epoch,
            leader_id=self.settings.me.voter_id,
            high_watermark=self.high_watermark,
            sent_ms=now_ms,
            **what,  # type: ignore[arg-type]
        )

    def _drop_parked(self, replica: VoterKey, now_ms: int) -> list[QuorumEffect]:
        """Answer the replica's waiting fetch: a newer one of the same replica replaces it."""
        parked = self._parked.pop(replica, None)
        return [] if parked is None else [Answer(parked.ticket, self._answer(now_ms))]

    def _wake(self, now_ms: int) -> list[QuorumEffect]:
        effects: list[QuorumEffect] = []
        for replica, parked in list(self._parked.items()):
            if self._has_news(parked.request) or parked.until_ms <= now_ms:
                del self._parked[replica]
                effects.append(self._answer_now(parked.ticket, parked.request, now_ms))
        return effects

    def dismiss(self) -> list[int]:
        """Forget the waiting fetches and return their tickets: this node leads no more."""
        tickets = [parked.ticket for parked in self._parked.values()]
        self._parked.clear()
        return tickets

    # Commits.

    def on_stable(self, now_ms: int) -> list[QuorumEffect]:
        """Commit and answer waiting fetches, now that more of our own log is stable."""
        effects = self.maybe_commit(now_ms)
        return effects or self._wake(now_ms)

    def maybe_commit(self, now_ms: int) -> list[QuorumEffect]:
        """Advance the high watermark to what a majority holds, if that reaches into this epoch."""
        offsets = {each: progress.end_offset for each, progress in self.followers.items()}
        reached = self.voters.majority_least(self.log.stable.offset, offsets)
        if reached <= self.high_watermark or reached <= self.start_offset:
            return []
        self.high_watermark = reached
        return [Committed(reached), *self._wake(now_ms)]

    # Time.

    def quorum_heard_ms(self) -> int:
        """Return the latest time at or after which a majority, with this node, was heard from."""
        return self._majority({each: one.heard_ms for each, one in self.followers.items()})

    def majority_contact_ms(self, now_ms: int) -> int:
        """Return a time until which no newer leader was elected; -1 if no such time is known."""
        if not self.followers:
            return now_ms
        return self._majority({each: one.contact_ms for each, one in self.followers.items()})

    def _majority(self, times: dict[int, int]) -> int:
        return self.voters.majority_least(max(times.values(), default=0), times)

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next call of `on_deadline`; None if none is due."""
        found = [parked.until_ms for parked in self._parked.values()]
        for progress in self.followers.values():
            if progress.tell_at_ms is not None:
                found.append(progress.tell_at_ms)
        if self.voters.majority > 1:
            found.append(self.quorum_heard_ms() + self.settings.resign_ms)
        return min(found, default=None)

    def has_lost_quorum(self, now_ms: int) -> bool:
        """True if no majority has fetched for `resign_ms`."""
        return (
            self.voters.majority > 1 and now_ms >= self.quorum_heard_ms() + self.settings.resign_ms
        )

    def forgive(self, now_ms: int) -> None:
        """Count each follower's silence from now, because this process itself was stalled."""
        for progress in self.followers.values():
            progress.heard_ms = now_ms

    def on_deadline(self, now_ms: int) -> list[QuorumEffect]:
        """Announce that we lead, if that is due, to voters that may not know it.

        Answer fetches that have waited long enough.
        """
        effects: list[QuorumEffect] = []
        for voter_id, progress in self.followers.items():
            if progress.tell_at_ms is not None and progress.tell_at_ms <= now_ms:
                progress.tell_at_ms, progress.told_ms = None, now_ms
                effects.append(Send(voter_id, self._begin(voter_id)))
        return effects + self._wake(now_ms)

    def _begin(self, voter_id: int) -> BeginQuorumEpoch:
        return BeginQuorumEpoch(
            cluster_id=self.cluster_id,
            epoch=self.epoch,
            leader=self.settings.me,
            voter=self.voters.key(voter_id),
            voters=self.voters.keys(),
        )

    def on_begun(self, voter_id: int) -> None:
        """Note that a voter has acknowledged our announcement that we lead."""
        progress = self.followers[voter_id]
        progress.contact_ms = max(progress.contact_ms, progress.told_ms)

    def on_untold(self, voter_id: int, now_ms: int) -> None:
        """Plan to repeat our announcement to a voter that did not answer and has not fetched."""
        progress = self.followers[voter_id]
        if progress.fetched_ms < progress.told_ms:
            progress.tell_at_ms = now_ms + self.settings.stagger_ms

    def successors(self) -> tuple[int, ...]:
        """Return the other voters, the one with the longest log first."""
        followers = self.followers
        return tuple(sorted(followers, key=lambda each: (-followers[each].end_offset, each)))


def describe(role: Leading, wall_ms: int, ahead_ms: int) -> QuorumPartitionData:
    """Describe all copies of the log for DescribeQuorum.

    `ahead_ms` is the wall-clock time minus the monotonic time.
    """

    def copy(one: Progress) -> ReplicaState:
        return ReplicaState(
            replica_id=one.key.voter_id,
            replica_directory_id=one.key.directory_id or ZERO_UUID,
            log_end_offset=one.end_offset,
            last_fetch_timestamp=-1 if one.fetched_ms < 0 else one.fetched_ms + ahead_ms,
            last_caught_up_timestamp=-1 if one.caught_up_ms < 0 else one.caught_up_ms + ahead_ms,
        )

    me = role.settings.me
    own = ReplicaState(
        replica_id=me.voter_id,
        replica_directory_id=me.directory_id or ZERO_UUID,
        log_end_offset=role.log.stable.offset,
        last_caught_up_timestamp=wall_ms,
    )
    others = {voter_id: copy(one) for voter_id, one in role.followers.items()}
    return QuorumPartitionData(
        partition_index=0,
        error_message=None,
        leader_id=me.voter_id,
        leader_epoch=role.epoch,
        high_watermark=role.high_watermark,
        current_voters=[others.get(voter_id, own) for voter_id in role.voters.ids],
        observers=[copy(one) for one in role.observers.values()],
    )
