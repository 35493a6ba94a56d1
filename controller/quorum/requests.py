"""The answers of a voter to the requests of other controllers.

A refused request changes nothing. Any other request is answered after the state that it led to is
saved, because `SaveState` comes before `Answer` among the effects.
"""

from collections.abc import Callable
from typing import Any

from ...protocol.control import quorum_messages as m
from ...protocol.errors import ErrorCode
from . import checks
from .effects import Answer, Noted
from .following import Following
from .leading import Leading
from .log_facts import LogEnd
from .roles import Unattached
from .standing import Standing

QUIET = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)
"""The errors that refuse requests at every change of leader; these refusals are not logged."""


def _refuse(at: Standing, ticket: int, request: Any, refusal: checks.Refusal, who: int) -> None:
    """Answer a request with a refusal, and log it.

    A controller of another cluster learns neither our epoch nor our leader.
    """
    is_ours = refusal.error is not ErrorCode.INCONSISTENT_CLUSTER_ID
    answer = ANSWER_OF[type(request)](
        refusal.error,
        refusal.detail,
        epoch=at.epoch if is_ours else -1,
        leader_id=at.leader_id if is_ours else m.NO_NODE,
    )
    if refusal.error not in QUIET:
        name = type(request).__name__
        text = f"refused {name} of node {who}: {refusal.detail}"
        at.effects.append(Noted(f"{name} {who} {refusal.error}", text))
    at.effects.append(Answer(ticket, answer))


def on_vote(at: Standing, ticket: int, request: m.Vote, now_ms: int) -> None:
    """Answer a request for our vote, or a pre-vote request, which asks whether we would vote."""
    candidate = request.candidate
    refusal = (
        checks.wrong_cluster(at.cluster_id, request.cluster_id)
        or checks.wrong_sender(at.voters, candidate)
        or checks.wrong_receiver(at.settings.me, request.voter)
        or checks.forgotten(at.settings.me, at.abstains)
        or checks.old_epoch(at.epoch, request.epoch)
        or at.implausible(request.epoch)
    )
    if refusal is not None:
        _refuse(at, ticket, request, refusal, candidate.voter_id)
        return
    if request.epoch > at.epoch:
        at.enter_epoch(request.epoch, now_ms)
    is_new_enough = LogEnd(request.last_epoch, request.end_offset) >= at.least_end
    if request.pre_vote:
        is_granted = is_new_enough and not at.has_leader(now_ms)
    else:
        is_free = at.voted_id == m.NO_NODE and at.leader_id == m.NO_NODE
        is_granted = at.voted_id == candidate.voter_id or (is_free and is_new_enough)
        if is_granted:
            at.vote_for(candidate, request.voters, now_ms)
    answer = m.VoteAnswer(
        ErrorCode.NONE,
        epoch=at.epoch,
        leader_id=at.leader_id,
        voter=at.settings.me,
        is_granted=is_granted,
    )
    at.effects.append(Answer(ticket, answer))


def on_fetch(at: Standing, ticket: int, request: m.FetchQuorumLog, now_ms: int) -> None:
    """Answer a follower's fetch if this node leads; refuse it otherwise."""
    refusal = checks.wrong_cluster(at.cluster_id, request.cluster_id) or checks.old_epoch(
        at.epoch, request.epoch
    )
    if refusal is None and request.epoch > at.epoch:
        detail = f"epoch {request.epoch} is not known here, it is {at.epoch}"
        refusal = checks.Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, detail)
    role, who = at.role, request.replica.voter_id
    if isinstance(role, Leading) and refusal is None:
        if who in at.voters.ids and not at.voters.counts(request.replica):
            text = f"voter {who} fetches from a disk that it is not known by: it follows without"
            text = f"{text} a vote until an operator readmits it"
            at.effects.append(Noted(f"fetch {who}", text))
        at.effects += role.on_fetch(ticket, request, now_ms)
        return
    if refusal is None:
        detail = f"node {at.me} does not lead epoch {at.epoch}"
        refusal = checks.Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
    _refuse(at, ticket, request, refusal, who)


def on_begin(at: Standing, ticket: int, request: m.BeginQuorumEpoch, now_ms: int) -> None:
    """Follow the leader that announces its epoch."""
    leader = request.leader
    refusal = (
        checks.wrong_cluster(at.cluster_id, request.cluster_id)
        or checks.wrong_sender(at.voters, leader)
        or checks.wrong_receiver(at.settings.me, request.voter)
        or checks.old_epoch(at.epoch, request.epoch)
        or at.implausible(request.epoch)
    )
    if refusal is not None:
        _refuse(at, ticket, request, refusal, leader.voter_id)
        return
    at.attend(request.epoch, leader.voter_id, now_ms)
    if isinstance(at.role, Following):
        at.role.on_heard(now_ms)
    if at.voters.learn([leader, *request.voters]):
        at.save(leader.voter_id)
    answer = m.QuorumEpochBegun(ErrorCode.NONE, epoch=at.epoch, leader_id=at.leader_id)
    at.effects.append(Answer(ticket, answer))


def on_end(at: Standing, ticket: int, request: m.EndQuorumEpoch, now_ms: int) -> None:
    """Handle the leader's resignation: the first successor stands at once, the others in turn."""
    leader_id = request.leader.voter_id
    refusal = (
        checks.wrong_cluster(at.cluster_id, request.cluster_id)
        or checks.wrong_sender(at.voters, request.leader)
        or checks.old_epoch(at.epoch, request.epoch)
        or at.implausible(request.epoch)
    )
    if refusal is not None:
        _refuse(at, ticket, request, refusal, leader_id)
        return
    if request.epoch > at.epoch:
        at.enter_epoch(request.epoch, now_ms)
    is_waiting = isinstance(at.role, Following | Unattached)
    if is_waiting and at.leader_id in (leader_id, m.NO_NODE):
        successors = request.successors
        place = successors.index(at.me) if at.me in successors else len(successors)
        if place == 0 and at.may_stand:
            at.stand(now_ms)
        else:
            at.change(Unattached(now_ms + place * at.settings.stagger_ms))
    answer = m.QuorumEpochEnded(ErrorCode.NONE, epoch=at.epoch, leader_id=at.leader_id)
    at.effects.append(Answer(ticket, answer))


ANSWER_OF: dict[type[Any], type[Any]] = {
    m.Vote: m.VoteAnswer,
    m.FetchQuorumLog: m.QuorumLogFetched,
    m.BeginQuorumEpoch: m.QuorumEpochBegun,
    m.EndQuorumEpoch: m.QuorumEpochEnded,
}
REQUESTS: dict[type[Any], Callable[[Standing, int, Any, int], None]] = {
    m.Vote: on_vote,
    m.FetchQuorumLog: on_fetch,
    m.BeginQuorumEpoch: on_begin,
    m.EndQuorumEpoch: on_end,
}
