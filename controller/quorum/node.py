"""One voter of the controller quorum: Raft, with replicas that fetch (KIP-595, KIP-996). Pure.

Each input says what happened and when, and returns the effects to carry out in their order. This
module only reads the log; the driver writes it.

    every message   a newer epoch is entered before anything else is done with the message
    a vote          given once per epoch, to a log at least as new as ours, and stable before it is
                    answered; a candidate needs a pre-vote first, or the last leader's nomination
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
"""A deadline noticed this late shows that this process was stalled and has messages to read."""
WRITE_AGAIN_MS: Final = 500
"""Pause in ms after a failed write, because a full disk does not empty at once."""


class QuorumNode:
    """The inputs of the state machine. Each returns the effects to carry out."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        """The state that the inputs change and on which they decide."""

    def on_started(self, now_ms: int) -> list[QuorumEffect]:
        """Begin to take part. Voters stand for election in turn, in the order of their ids."""
        at = self.standing
        at.role = Unattached(now_ms + at.turn_ms(m.NO_NODE))
        return self.on_deadline(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next call of `on_deadline`; None if none is due."""
        match self.standing.role:
            case Leading() | Following() as role:
                return role.next_deadline_ms()
            case waiting:
                return waiting.until_ms

    def on_deadline(self, now_ms: int) -> list[QuorumEffect]:
        """Do what is due: ask for votes, fetch, answer waiting fetches, or resign."""
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
        """Handle another controller's request.

        The `Answer` with this ticket is among the effects of this input or of a later one.
        """
        at = self.standing
        REQUESTS[type(request)](at, ticket, request, now_ms)
        return at.take_effects()

    def on_leaving(self, now_ms: int) -> list[QuorumEffect]:
        """Resign if this node leads, and stand in no later election, because the process stops."""
        at = self.standing
        at.is_leaving = True
        if isinstance(at.role, Leading):
            at.resign(now_ms, "this controller stops", at.random_ms())
        return at.take_effects()

    def on_cluster_id(self, cluster_id: str) -> list[QuorumEffect]:
        """Keep the cluster's id, which the metadata names, if it was not known yet."""
        at = self.standing
        if at.cluster_id is None:
            at.cluster_id = cluster_id
            match at.role:
                case Leading() | Following() as role:
                    role.cluster_id = cluster_id
            at.save(at.leader_id)
        return at.take_effects()

    # Results of our own requests.

    def on_answered(self, to: int, request: Any, answer: Any, now_ms: int) -> list[QuorumEffect]:
        """Handle the answer of the voter `to` to our request."""
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
        """Handle a request of ours that got no answer from the voter `to`: it may be sent again."""
        at = self.standing
        match at.role:
            case Leading() as role if isinstance(request, m.BeginQuorumEpoch):
                if request.epoch == at.epoch:
                    role.on_untold(to, now_ms)
            case Following() as role if isinstance(request, m.FetchQuorumLog):
                role.on_unanswered(request, now_ms)
        return at.take_effects()

    def on_peer_lost(self, voter_id: int) -> list[QuorumEffect]:
        """Suspect the leader if the connection to it ended, so that we may grant a pre-vote."""
        at = self.standing
        if isinstance(at.role, Following) and at.role.leader_id == voter_id:
            at.role.is_suspect = True
        return at.take_effects()

    def on_peer_refused(self, voter_id: int, now_ms: int) -> list[QuorumEffect]:
        """Stop following the leader if its host refuses connections: its process is gone."""
        at = self.standing
        if isinstance(at.role, Following) and at.role.leader_id == voter_id:
            at.change(Unattached(now_ms + at.turn_ms(voter_id)))
            return self.on_deadline(now_ms)
        return at.take_effects()

    # Results of our own disk.

    def on_stable(self, now_ms: int) -> list[QuorumEffect]:
        """Act on the new stable end of our log, after a flush."""
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
        """Act on a failed write, after which the records that were not stable are gone."""
        at = self.standing
        match at.role:
            case Leading():
                at.resign(now_ms, why, WRITE_AGAIN_MS)
            case Following() as role:
                role.on_write_failed(now_ms + WRITE_AGAIN_MS)
        return at.take_effects()

    def on_snapshot_loaded(self) -> list[QuorumEffect]:
        """Act on a loaded snapshot: the log is empty now and begins at the snapshot's end."""
        at = self.standing
        snapshot = at.log.snapshot
        if snapshot is not None and snapshot.end_offset > at.high_watermark:
            at.effects.append(Committed(snapshot.end_offset))
        if isinstance(at.role, Following):
            at.role.high_watermark = max(at.role.high_watermark, at.log.start_offset)
            at.effects += at.role.on_idle()
        return at.take_effects()

    def majority_contact_ms(self, now_ms: int) -> int:
        """Return a time until which no newer leader was elected; -1 if no such time is known."""
        at = self.standing
        return at.role.majority_contact_ms(now_ms) if isinstance(at.role, Leading) else -1
