"""The roles of a voter that neither leads nor follows, and how ballots are counted. Pure.

role          event                                            next role
Unattached    its time is over                                 Prospective: asks for pre-votes
Prospective   a majority would vote for it                     Candidate, in a new epoch
              a majority would not, or its time is over        Prospective again, after a pause
Candidate     a majority votes for it                          Leader
              a majority does not, or its time is over         Prospective, after a pause
Leader        no majority fetches, a write failed,
              or the process stops                             Resigned
Resigned      its pause is over                                Prospective
Follower      the leader is silent                             Prospective
              the leader's process is gone, or leads no more   Unattached, until its turn
Unattached,   the resigning leader names it first              Candidate, in a new epoch
Follower
every role    it hears of a newer epoch                        Unattached
              it hears of the leader of its epoch              Follower
"""

from dataclasses import dataclass, field

from ...protocol.control.quorum_messages import VoterKey
from .voters import Voters


@dataclass(slots=True)
class Unattached:
    """A voter that knows no leader. It may have voted in this epoch and wait for the result."""

    until_ms: int


@dataclass(slots=True)
class Ballot:
    """The votes so far, our own included, in one election or pre-vote."""

    me: int
    voters: Voters
    granted: dict[int, None] = field(default_factory=dict)
    rejected: dict[int, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.granted[self.me] = None

    def count(self, voter: VoterKey | None, is_granted: bool) -> None:
        """Count one answer; a voter on an unexpected disk does not count."""
        if voter is not None and self.voters.is_voter(voter):
            (self.granted if is_granted else self.rejected)[voter.voter_id] = None

    @property
    def is_won(self) -> bool:
        """True if enough voters have granted their vote."""
        return len(self.granted) >= self.voters.votes_needed

    @property
    def is_lost(self) -> bool:
        """True if too many voters have rejected it for the ballot to be won."""
        return len(self.voters.ids) - len(self.rejected) < self.voters.votes_needed


@dataclass(slots=True)
class Prospective:
    """A voter that asks whether others would vote for it.

    Its epoch is still the old one (KIP-996).
    """

    ballot: Ballot
    until_ms: int


@dataclass(slots=True)
class Candidate:
    """A voter that has voted for itself in a new epoch and asks the others for their votes."""

    ballot: Ballot
    until_ms: int


@dataclass(slots=True)
class Resigned:
    """A voter that led this epoch and has resigned: it waits so that others stand first."""

    until_ms: int
