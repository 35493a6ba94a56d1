"""One voter of the controller quorum: Raft, with replicas that fetch (KIP-595, KIP-996). Pure.

What happened goes in, with the time; what to do comes out, to be carried out in that order. The
log is read here and written by nobody but the driver.

    every message   a newer epoch is entered before anything else is done with the message
    a vote          at most one per epoch, for a log at least as new as ours, stable before it
                    is answered; not before a pre-vote found that it would do good
    a leader        commits nothing before a record of its own epoch; steps down when a majority
                    has not fetched for a while
"""

from typing import Any, Final

from ...protocol.control import quorum_messages as m
from ...protocol.errors import ErrorCode
from .effects import Committed, Noted, QuorumEffect
from .following import Following
from .leading import Leading
from .requests import REQUESTS
from .roles import Candidate, Prospective, Unattached
from .standing import Standing

OWN_STALL_MS: Final = 250
"""A deadline noticed this late means that we slept, and that what others sent is still unread."""
WRITE_AGAIN_MS: Final = 500
"""Pause after a failed write: a full disk does not empty at once."""


class QuorumNode:
    """The inputs of the state machine; each returns the effects to carry out."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        """The state that the inputs change, and by which they decide."""

    def on_started(self, now_ms: int) -> list[QuorumEffect]:
        """Take part. The first of the voters tries first, an only one at once."""
        at = self.standing
        at.role = Unattached(now_ms + at.turn_ms(m.NO_NODE))
        return self.on_deadline(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next call of `on_deadline`."""
        match self.standing.role:
            case Leading() | Following() as role:
                return role.next_deadline_ms()
            case waiting:
                return waiting.until_ms

    def on_deadline(self, now_ms: int) -> list[QuorumEffect]:
        """Do what is due now."""
        at = self.standing
        due_ms = self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return []
        slept = now_ms - due_ms >= OWN_STALL_MS
        match at.role:
            case Leading() as role:
                if slept:
                    role.forgive(now_ms)
                if role.has_lost_quorum(now_ms):
                    why = f"no majority of the voters has fetched for {at.settings.resign_ms} ms"
                    at.resign(now_ms, why, at.random_ms())
                else:
                    at.effects += role.on_deadline(now_ms)
            case Following() as role:
                if slept:
                    role.since_ms = now_ms
                if role.is_silent(now_ms):
                    at.look_for_votes(now_ms)
                else:
                    at.effects += role.on_deadline(now_ms)
            case _:
                at.look_for_votes(now_ms)
        return at.take_effects()

    def on_request(self, ticket: int, request: m.QuorumRequest, now_ms: int) -> list[QuorumEffect]:
        """Take in another controller's request.

        It is answered under this ticket, sooner or later.
        """
        at = self.standing
        REQUESTS[type(request)](at, ticket, request, now_ms)
        return at.take_effects()

    def on_leaving(self, now_ms: int) -> list[QuorumEffect]:
        """Lead no more and stand no more: the process stops."""
        at = self.standing
        at.is_leaving = True
        if isinstance(at.role, Leading):
            at.resign(now_ms, "this controller stops", at.random_ms())
        return at.take_effects()

    def on_cluster_id(self, cluster_id: str) -> list[QuorumEffect]:
        """The metadata says which cluster this is."""
        at = self.standing
        if at.cluster_id is None:
            at.cluster_id = cluster_id
            match at.role:
                case Leading() | Following() as role:
                    role.cluster_id = cluster_id
            at.save(at.leader_id)
        return at.take_effects()

    # What came of what we asked.

    def on_answered(self, to: int, request: Any, answer: Any, now_ms: int) -> list[QuorumEffect]:
        """An answer of a voter to what was sent to it."""
        at = self.standing
        if answer.error in (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INCONSISTENT_CLUSTER_ID):
            text = f"node {to} refused {type(request).__name__}: {answer.message}"
            at.effects.append(Noted(f"{type(request).__name__} {to} {answer.error}", text))
        refusal = at.implausible(answer.epoch)
        if refusal is not None:
            at.effects.append(Noted(f"epoch of {to}", f"node {to} answered: {refusal.detail}"))
            return self.on_unanswered(to, request, now_ms)
        if answer.epoch > at.epoch:
            at.attend(answer.epoch, answer.leader_id, now_ms)
        if request.epoch == at.epoch:
            match request:
                case m.Vote():
                    self._on_ballot(to, request, answer, now_ms)
                case m.FetchQuorumLog():
                    self._on_fetched(to, request, answer, now_ms)
                case m.BeginQuorumEpoch() if isinstance(at.role, Leading):
                    if answer.error:
                        at.role.on_untold(to, now_ms)
                    else:
                        at.role.on_begun(to)
        return at.take_effects()

    def _on_ballot(self, to: int, request: m.Vote, answer: m.VoteAnswer, now_ms: int) -> None:
        at = self.standing
        role = at.role
        if not isinstance(role, Prospective if request.pre_vote else Candidate):
            return
        if answer.epoch == at.epoch and answer.leader_id != m.NO_NODE and not answer.is_granted:
            at.attend(answer.epoch, answer.leader_id, now_ms)
            return
        voter = answer.voter or at.voters.key(to)
        if voter.voter_id != to:
            return
        if not answer.error:
            at.voters.learn([voter])
        role.ballot.count(voter, answer.is_granted and not answer.error)
        if role.ballot.is_won and at.may_stand:
            if request.pre_vote:
                at.stand(now_ms)
            else:
                at.lead(now_ms)
        elif role.ballot.is_lost:
            role.until_ms = min(role.until_ms, now_ms + at.pause_ms())

    def _on_fetched(
        self, to: int, request: m.FetchQuorumLog, answer: m.QuorumLogFetched, now_ms: int
    ) -> None:
        at = self.standing
        role = at.role
        if not isinstance(role, Following) or to != role.leader_id:
            return
        if not answer.error:
            at.effects += role.on_fetched(request, answer, now_ms)
        elif answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            at.change(Unattached(now_ms + at.turn_ms(to)))
        else:
            role.on_unanswered(request, now_ms)

    def on_unanswered(self, to: int, request: Any, now_ms: int) -> list[QuorumEffect]:
        """The connection was lost, or time was over."""
        at = self.standing
        match at.role:
            case Leading() as role if isinstance(request, m.BeginQuorumEpoch):
                if request.epoch == at.epoch:
                    role.on_untold(to, now_ms)
            case Following() as role if isinstance(request, m.FetchQuorumLog):
                role.on_unanswered(request, now_ms)
        return at.take_effects()

    def on_peer_lost(self, voter_id: int) -> list[QuorumEffect]:
        """Doubt the leader if the connection to it ended: we no longer swear that it leads."""
        at = self.standing
        if isinstance(at.role, Following) and at.role.leader_id == voter_id:
            at.role.is_suspect = True
        return at.take_effects()

    def on_peer_refused(self, voter_id: int, now_ms: int) -> list[QuorumEffect]:
        """Give up a voter whose host is there and has nothing listening: its process is gone."""
        at = self.standing
        if isinstance(at.role, Following) and at.role.leader_id == voter_id:
            at.change(Unattached(now_ms + at.turn_ms(voter_id)))
            return self.on_deadline(now_ms)
        return at.take_effects()

    # What came of our own disk.

    def on_stable(self, now_ms: int) -> list[QuorumEffect]:
        """All that was written is on stable storage."""
        at = self.standing
        if at.recover_to is not None and at.log.stable >= at.recover_to:
            at.recover_to = None
            at.save(at.leader_id)
        match at.role:
            case Leading() as role:
                at.effects += role.on_stable(now_ms)
            case Following() as role if at.log.stable == at.log.end:
                at.effects += role.on_idle()
        return at.take_effects()

    def on_write_failed(self, why: str, now_ms: int) -> list[QuorumEffect]:
        """Take in that what was not stable is gone from the log."""
        at = self.standing
        match at.role:
            case Leading():
                at.resign(now_ms, why, WRITE_AGAIN_MS)
            case Following() as role:
                role.on_write_failed(now_ms + WRITE_AGAIN_MS)
        return at.take_effects()

    def on_snapshot_loaded(self) -> list[QuorumEffect]:
        """The log begins at the end of the newest snapshot now, and is empty."""
        at = self.standing
        snapshot = at.log.snapshot
        if snapshot is not None and snapshot.end_offset > at.high_watermark:
            at.effects.append(Committed(snapshot.end_offset))
        if isinstance(at.role, Following):
            at.role.high_watermark = max(at.role.high_watermark, at.log.start_offset)
            at.effects += at.role.on_idle()
        return at.take_effects()

    def majority_contact_ms(self, now_ms: int) -> int:
        """Return a time before which no one else led; -1 if it is not known."""
        at = self.standing
        return at.role.majority_contact_ms(now_ms) if isinstance(at.role, Leading) else -1
