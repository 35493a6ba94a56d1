"""The standing of one voter: its epoch, vote and role, and every change of them.

roles.py shows the roles and their transitions, leading.py and following.py have the rules of a
leader and of a follower. node.py and requests.py decide when a change is due.

A node that enters an epoch or gives a vote first stops leading, then saves, then acts on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...protocol.control import quorum_messages as m
from ...protocol.errors import ErrorCode
from . import checks
from .effects import (
    Answer,
    Committed,
    Deposed,
    Elected,
    Failed,
    LeaderChanged,
    QuorumEffect,
    SaveState,
    Send,
)
from .following import Following
from .leading import Leading
from .log_facts import LogEnd, LogFacts
from .quorum_state import QuorumState
from .roles import Ballot, Candidate, Prospective, Resigned, Unattached
from .voters import QuorumSettings, Voters

Role: TypeAlias = Unattached | Prospective | Candidate | Following | Leading | Resigned


class Standing:
    """Epoch, vote and role of one voter. Methods add to `effects`; `take_effects` returns them."""

    def __init__(
        self,
        settings: QuorumSettings,
        state: QuorumState,
        log: LogFacts,
        dice: Callable[[int], int],
        *,
        abstains: bool = False,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """Restore `state`. `dice(n)` draws one of 0..n-1. A node `abstains` if it lost its state.

        `wall_ms` returns the wall-clock time, which bounds the epochs that others may name.
        """
        self.settings = settings
        self.log = log
        self.me = settings.me.voter_id
        self.abstains = abstains and settings.me not in settings.readmitted
        """True if nobody may count on our vote, nor on our copy of the log."""
        self.recover_to = LogEnd(*state.recover_to) if state.recover_to is not None else None
        """The end of our lost log, on which others have counted. Until our log is as new again, we
        are not elected, and vote for nobody whose log is older."""
        self.cluster_id = state.cluster_id
        self.epoch = max(state.epoch, log.end.epoch, 0)
        """The present epoch. The log's epochs count too, because the file with the state may have
        been lost."""
        self.voted_id = state.voted_id if self.epoch == state.epoch else m.NO_NODE
        named = {key.voter_id: key.directory_id for key in settings.readmitted}
        self.voters = Voters(settings.voters, {**dict(state.directory_ids), **named})
        if not self.abstains:
            self.voters.learn([settings.me])
        snapshot = log.snapshot
        self.high_watermark = snapshot.end_offset if snapshot is not None else 0
        self.role: Role = Unattached(0)
        self.is_leaving = False
        self.effects: list[QuorumEffect] = []
        self._saved = state
        self._dice = dice
        self._wall_ms = wall_ms

    @property
    def leader_id(self) -> int:
        """The leader of this epoch; -1 while none is known."""
        match self.role:
            case Leading():
                return self.me
            case Following(leader_id=leader_id):
                return leader_id
        return m.NO_NODE

    @property
    def may_stand(self) -> bool:
        """True if this node may be elected."""
        known = not self.abstains and self.voters.counts(self.settings.me)
        is_whole = self.recover_to is None
        return known and is_whole and self.me in self.voters.ids and not self.is_leaving

    @property
    def least_end(self) -> LogEnd:
        """The end that a candidate's log must reach for our vote: our log's, or our lost log's."""
        end = self.log.end
        return end if self.recover_to is None else max(end, self.recover_to)

    def implausible(self, epoch: int) -> checks.Refusal | None:
        """Return the refusal of an epoch that no elections can have led to by now; else None."""
        if epoch <= self.epoch:
            return None
        return checks.implausible(epoch, checks.epoch_limit(self._wall_ms()))

    def has_leader(self, now_ms: int) -> bool:
        """True if this node leads, or follows a leader that is alive (`Following.is_alive`)."""
        match self.role:
            case Leading():
                return True
            case Following() as role:
                return role.is_alive(now_ms)
        return False

    def take_effects(self) -> list[QuorumEffect]:
        """Return the effects added since the last call, in order."""
        effects, self.effects = self.effects, []
        for effect in effects:
            if isinstance(effect, Committed):
                self.high_watermark = max(self.high_watermark, effect.high_watermark)
        return effects

    def random_ms(self) -> int:
        """Draw one to two election timeouts in ms, so that candidates do not stay in step."""
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + self._dice(timeout_ms)

    def pause_ms(self) -> int:
        """Draw the pause in ms after a lost ballot: `stagger_ms`, and up to an election timeout."""
        return self.settings.stagger_ms + self._dice(self.settings.election_timeout_ms)

    def turn_ms(self, leader_id: int) -> int:
        """Return the ms to wait, so that the voters between this leader and us stand first."""
        return self.voters.rank_after(leader_id, self.me) * self.settings.stagger_ms

    # Changes.

    def change(self, role: Role) -> None:
        """Change to another role, in the epoch `self.epoch`."""
        leader_id, old = self.leader_id, self.role
        if isinstance(old, Leading):
            for ticket in old.dismiss():
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                answer = m.QuorumLogFetched(error, "leads no more", epoch=self.epoch)
                self.effects.append(Answer(ticket, answer))
        self.role = role
        if self.leader_id != leader_id:
            self.effects.append(LeaderChanged())

    def save(self, leader_id: int = m.NO_NODE) -> None:
        """Save the state if it has changed. A change of the leader alone is not saved."""
        known = tuple(sorted(self.voters.known.items()))
        lost = self.recover_to
        recover_to = (lost.epoch, lost.offset) if lost is not None else None
        epoch, voted_id = self.epoch, self.voted_id
        state = QuorumState(self.cluster_id, epoch, leader_id, voted_id, known, recover_to)
        if replace(state, leader_id=self._saved.leader_id) != self._saved:
            self._saved = state
            self.effects.append(SaveState(state))

    def enter_epoch(self, epoch: int, now_ms: int) -> None:
        """Enter a newer epoch, which another node has begun."""
        if isinstance(self.role, Leading):
            self.effects.append(Deposed(f"epoch {epoch} has begun"))
        self.epoch, self.voted_id = epoch, m.NO_NODE
        self.save()
        self.change(Unattached(now_ms + self.random_ms()))

    def vote_for(self, key: m.VoterKey, voters: Sequence[m.VoterKey], now_ms: int) -> None:
        """Give our vote in this epoch to the voter `key`."""
        self.voters.learn([key, *voters])
        self.voted_id = key.voter_id
        self.save()
        if not isinstance(self.role, Following):
            self.change(Unattached(now_ms + self.random_ms()))

    def follow(self, leader_id: int, now_ms: int) -> None:
        """Fetch from the leader of this epoch."""
        role = Following(
            self.settings,
            self.cluster_id,
            self.epoch,
            leader_id,
            self.log,
            self.high_watermark,
            since_ms=now_ms,
            patience_ms=self.settings.fetch_timeout_ms + self.turn_ms(leader_id),
            may_count=not self.abstains,
            is_busy=self.log.stable != self.log.end,
        )
        self.change(role)
        self.effects += role.fetch()

    def attend(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Learn from a message who leads `epoch`, which is our epoch or a newer one."""
        if epoch > self.epoch:
            self.enter_epoch(epoch, now_ms)
        if leader_id in (m.NO_NODE, self.me) or leader_id not in self.voters.ids:
            return
        known = self.leader_id
        if known == m.NO_NODE:
            self.follow(leader_id, now_ms)
        elif known != leader_id:
            self.effects.append(Failed(f"epoch {epoch} has two leaders: {known}, {leader_id}"))

    def look_for_votes(self, now_ms: int) -> None:
        """Ask the others for their pre-votes, as no leader is heard from.

        A voter that follows a leader names it in its answer.
        """
        if self.is_leaving:
            self.change(Unattached(now_ms + self.random_ms()))
            return
        ballot = Ballot(self.me, self.voters)
        self.change(Prospective(ballot, now_ms + self.random_ms()))
        if self.may_stand and ballot.is_won:
            self.stand(now_ms)
        else:
            self._ask_all(pre_vote=True)

    def stand(self, now_ms: int) -> None:
        """Begin an epoch with a vote for ourselves, and ask the others for their votes."""
        if self.voters.majority > 1 and self.implausible(self.epoch + 1) is not None:
            # Somebody has pushed us to the latest plausible epoch: nobody would vote for us yet.
            self.change(Unattached(now_ms + self.random_ms()))
            return
        self.epoch, self.voted_id = self.epoch + 1, self.me
        self.save()
        ballot = Ballot(self.me, self.voters)
        self.change(Candidate(ballot, now_ms + self.random_ms()))
        if ballot.is_won:
            self.lead(now_ms)
        else:
            self._ask_all(pre_vote=False)

    def _ask_all(self, *, pre_vote: bool) -> None:
        stable = self.log.stable
        for voter_id in self.voters.ids:
            if voter_id != self.me:
                request = m.Vote(
                    cluster_id=self.cluster_id,
                    epoch=self.epoch,
                    candidate=self.settings.me,
                    voter=self.voters.key(voter_id),
                    last_epoch=stable.epoch,
                    end_offset=stable.offset,
                    pre_vote=pre_vote,
                    voters=self.voters.keys(),
                )
                self.effects.append(Send(voter_id, request))

    def lead(self, now_ms: int) -> None:
        """Become the leader, as enough voters have voted for us."""
        self.save(self.me)
        role = Leading(
            self.settings,
            self.voters,
            self.cluster_id,
            self.epoch,
            self.log,
            self.high_watermark,
            now_ms,
        )
        self.change(role)
        self.effects.append(Elected(self.epoch))
        self.effects += role.on_deadline(now_ms)

    def resign(self, now_ms: int, why: str, pause_ms: int) -> None:
        """Stop leading, and nominate the voter with the longest log to stand first."""
        role = self.role
        assert isinstance(role, Leading)
        successors = role.successors()
        self.effects.append(Deposed(why))
        self.change(Resigned(now_ms + pause_ms))
        for voter_id in successors:
            request = m.EndQuorumEpoch(self.cluster_id, self.epoch, self.settings.me, successors)
            self.effects.append(Send(voter_id, request))
