"""The voters, the disk that each is known by, and how many of them make a majority.

The list of voters is in the configuration and does not change. Their directory ids are learnt at
first contact and remembered for good. The same voter on another disk has lost its votes and
acknowledgements, and is refused (INVALID_VOTER_KEY) until an operator names that disk. As long as a
voter's disk is unknown, a leader needs the vote of every voter, because two voters with empty disks
must not form a majority.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.control.quorum_messages import MIGHT_BE_ANY, VoterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The quorum's settings, which are fixed while a node runs."""

    me: VoterKey
    voters: tuple[int, ...]
    election_timeout_ms: int = 300
    fetch_timeout_ms: int = 500
    readmitted: tuple[VoterKey, ...] = ()
    """Voters with a replaced disk, each with the new disk's id: they may vote from it."""

    @property
    def stagger_ms(self) -> int:
        """Milliseconds by which each voter stands for election later than the one before it."""
        return max(1, self.election_timeout_ms // 6)

    @property
    def resign_ms(self) -> int:
        """Milliseconds without fetches of a majority after which a leader resigns."""
        return self.fetch_timeout_ms * 3 // 2


@dataclass(slots=True)
class Voters:
    """The voters and the disks they are known by."""

    ids: tuple[int, ...]
    known: dict[int, bytes] = field(default_factory=dict)

    @property
    def majority(self) -> int:
        """The least number of voters that is more than half of them."""
        return len(self.ids) // 2 + 1

    @property
    def are_known(self) -> bool:
        """True if every voter's disk is known."""
        return all(voter_id in self.known for voter_id in self.ids)

    @property
    def votes_needed(self) -> int:
        """The number of votes that elect a leader: all, while any voter's disk is unknown."""
        return self.majority if self.are_known else len(self.ids)

    def key(self, voter_id: int) -> VoterKey:
        """Return the voter with its known disk, or with `MIGHT_BE_ANY` if none is known."""
        return VoterKey(voter_id, self.known.get(voter_id, MIGHT_BE_ANY))

    def keys(self) -> tuple[VoterKey, ...]:
        """Return the voters whose disk is known."""
        return tuple(self.key(each) for each in self.ids if each in self.known)

    def is_voter(self, key: VoterKey) -> bool:
        """True if this is a voter on its known disk, or a voter whose disk is not known yet."""
        known = self.known.get(key.voter_id, key.directory_id)
        return key.voter_id in self.ids and known == key.directory_id

    def counts(self, key: VoterKey) -> bool:
        """True if this is a voter on the very disk that it is known by."""
        return self.known.get(key.voter_id) == key.directory_id

    def learn(self, keys: Sequence[VoterKey]) -> bool:
        """Remember the disks of voters whose disk was unknown; True if there were any."""
        before = len(self.known)
        for key in keys:
            if key.voter_id in self.ids and key.directory_id != MIGHT_BE_ANY:
                self.known.setdefault(key.voter_id, key.directory_id)
        return len(self.known) > before

    def rank_after(self, voter_id: int, other_id: int) -> int:
        """Return the place of `other_id`, from 0, in the cyclic order after `voter_id`."""
        if voter_id not in self.ids:
            return self.ids.index(other_id) if other_id in self.ids else len(self.ids)
        start = self.ids.index(voter_id) + 1
        order = self.ids[start:] + self.ids[:start]
        return order.index(other_id) if other_id in order else len(order)

    def majority_least(self, own: int, others: Mapping[int, int]) -> int:
        """Return the highest value that a majority has reached: `own` is ours, `others` theirs."""
        values = sorted((own, *others.values()), reverse=True)
        return values[self.majority - 1]
