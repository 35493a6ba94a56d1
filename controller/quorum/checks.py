"""Checks of a voter's requests that come before anything else is looked at.

A refusal names its exact error. The order is: cluster, sender, receiver, epoch; who belongs to
another cluster learns nothing of this one's epochs.
"""

from dataclasses import dataclass
from typing import Final

from ...protocol.control.quorum_messages import MIGHT_BE_ANY, VoterKey
from ...protocol.errors import ErrorCode
from .voters import Voters

EPOCH_MAX: Final = (1 << 31) - (1 << 24)
"""The latest epoch that a node enters: records have 31 bits for theirs."""
_EPOCHS_AT_LEAST: Final = 1 << 24
_SINCE_MS: Final = 1_577_836_800_000
"""The beginning of 2020, before which there was no cluster."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not looked at any further."""

    error: ErrorCode
    detail: str


def wrong_cluster(mine: str | None, theirs: str | None) -> Refusal | None:
    """Two nodes that know their cluster must know the same."""
    if mine is None or theirs is None or mine == theirs:
        return None
    detail = f"this controller belongs to cluster {mine}, not to {theirs}"
    return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, detail)


def wrong_sender(voters: Voters, sender: VoterKey) -> Refusal | None:
    """Only voters vote and lead, and only from the disk that they are known by."""
    who = sender.voter_id
    if who not in voters.ids:
        detail = f"node {who} is not in this controller's controller.quorum.voters"
        return Refusal(ErrorCode.INCONSISTENT_VOTER_SET, detail)
    if not voters.is_voter(sender):
        detail = f"voter {who} comes from another disk than the one it voted on: it is refused"
        return Refusal(ErrorCode.INVALID_VOTER_KEY, f"{detail} until an operator readmits it")
    return None


def wrong_receiver(me: VoterKey, asked: VoterKey) -> Refusal | None:
    """Refuse a request for another voter, or for one that had our id on another disk."""
    if asked.voter_id != me.voter_id:
        detail = f"this is node {me.voter_id}, not {asked.voter_id}"
        return Refusal(ErrorCode.INCONSISTENT_VOTER_SET, detail)
    if asked.directory_id not in (MIGHT_BE_ANY, me.directory_id):
        detail = f"voter {me.voter_id} is known by another disk: this one holds none of its votes"
        return Refusal(ErrorCode.INVALID_VOTER_KEY, detail)
    return None


def forgotten(me: VoterKey, abstains: bool) -> Refusal | None:
    """A voter that has forgotten what it voted must not vote as if it never had."""
    if not abstains:
        return None
    detail = f"voter {me.voter_id} has forgotten what it voted: it abstains"
    return Refusal(ErrorCode.INVALID_VOTER_KEY, detail)


def old_epoch(mine: int, theirs: int) -> Refusal | None:
    """The sender has not heard of the present epoch."""
    if theirs >= mine:
        return None
    return Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {theirs} is over, it is {mine}")


def epoch_limit(wall_ms: int) -> int:
    """The latest epoch that any cluster can have come to by then.

    One election in every second since 2020: no cluster has had so many, and one that somebody
    pushed there goes on from it, an election a second. By what this node itself knows it could not
    be said: a voter may have been away for years. A clock that is wrong leaves 2^24.
    """
    return min(max((wall_ms - _SINCE_MS) // 1000, _EPOCHS_AT_LEAST), EPOCH_MAX)


def implausible(epoch: int, limit: int) -> Refusal | None:
    """An epoch that elections have not led to, and from which none would lead on."""
    if epoch <= limit:
        return None
    detail = f"epoch {epoch} is none that elections can have led to by now ({limit})"
    return Refusal(ErrorCode.INVALID_REQUEST, detail)
