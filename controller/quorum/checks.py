"""Checks of another controller's request, made before the request is handled.

A refusal names its exact error. The order is: cluster, sender, receiver, epoch, so that a node of
another cluster learns nothing of this one's epochs.
"""

from dataclasses import dataclass
from typing import Final

from ...protocol.control.quorum_messages import MIGHT_BE_ANY, VoterKey
from ...protocol.errors import ErrorCode
from .voters import Voters

EPOCH_MAX: Final = (1 << 31) - (1 << 24)
"""The highest plausible epoch, 2^24 below the highest that a record batch's 31 bits can hold."""
_EPOCHS_AT_LEAST: Final = 1 << 24
_SINCE_MS: Final = 1_577_836_800_000
"""The beginning of 2020, before which there was no cluster."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error that answers a request which fails a check."""

    error: ErrorCode
    detail: str


def wrong_cluster(mine: str | None, theirs: str | None) -> Refusal | None:
    """Return the refusal of another cluster's node; None if the clusters agree.

    A node that does not know its cluster yet is accepted.
    """
    if mine is None or theirs is None or mine == theirs:
        return None
    detail = f"this controller belongs to cluster {mine}, not to {theirs}"
    return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, detail)


def wrong_sender(voters: Voters, sender: VoterKey) -> Refusal | None:
    """Return the refusal of a sender that is no voter, or comes from another disk than it voted on.

    Return None if the sender is right.
    """
    who = sender.voter_id
    if who not in voters.ids:
        detail = f"node {who} is not in this controller's controller.quorum.voters"
        return Refusal(ErrorCode.INCONSISTENT_VOTER_SET, detail)
    if not voters.is_voter(sender):
        detail = f"voter {who} comes from another disk than the one it voted on: it is refused"
        return Refusal(ErrorCode.INVALID_VOTER_KEY, f"{detail} until an operator readmits it")
    return None


def wrong_receiver(me: VoterKey, asked: VoterKey) -> Refusal | None:
    """Return the refusal of a request meant for another voter, or for our id on another disk.

    Return None if the request is meant for this voter.
    """
    if asked.voter_id != me.voter_id:
        detail = f"this is node {me.voter_id}, not {asked.voter_id}"
        return Refusal(ErrorCode.INCONSISTENT_VOTER_SET, detail)
    if asked.directory_id not in (MIGHT_BE_ANY, me.directory_id):
        detail = f"voter {me.voter_id} is known by another disk: this one holds none of its votes"
        return Refusal(ErrorCode.INVALID_VOTER_KEY, detail)
    return None


def forgotten(me: VoterKey, abstains: bool) -> Refusal | None:
    """Return the refusal of every vote if this voter has lost its state; else None.

    Such a voter could vote twice in one epoch.
    """
    if not abstains:
        return None
    detail = f"voter {me.voter_id} has forgotten what it voted: it abstains"
    return Refusal(ErrorCode.INVALID_VOTER_KEY, detail)


def old_epoch(mine: int, theirs: int) -> Refusal | None:
    """Return the refusal of a request of an epoch before ours; else None."""
    if theirs >= mine:
        return None
    return Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {theirs} is over, it is {mine}")


def epoch_limit(wall_ms: int) -> int:
    """Return the latest epoch that any cluster can have reached at this wall-clock time.

    The limit is one epoch per second since 2020. It is at least 2^24, in case the clock is wrong,
    and at most `EPOCH_MAX`. A cluster that somebody pushed to the limit can still hold an election
    a second. This node's own epoch sets no limit, because a voter may have been away for years.
    """
    return min(max((wall_ms - _SINCE_MS) // 1000, _EPOCHS_AT_LEAST), EPOCH_MAX)


def implausible(epoch: int, limit: int) -> Refusal | None:
    """Return the refusal of an epoch above `limit`, which no elections can reach; else None."""
    if epoch <= limit:
        return None
    detail = f"epoch {epoch} is none that elections can have led to by now ({limit})"
    return Refusal(ErrorCode.INVALID_REQUEST, detail)
