"""Messages between controllers as voters: votes, the leader's reign, the metadata log.

Every message carries the sender's epoch. Every answer carries the epoch of its sender and the
leader that the sender follows. A node that reads a higher epoch than its own goes to that epoch.
A voter is named by id and directory id together: the same id on another disk has forgotten its
votes, and is another voter (KIP-853).

    pre_vote    asks whether a vote would be given, and changes nothing (KIP-996)
    offset      in a fetch: everything before it is on the follower's stable storage
"""

from typing import TypeAlias

from .messages import Answer, Request, SnapshotId, message
from .packing import Epoch, NodeId, Offset, packed

NO_NODE = -1
MIGHT_BE_ANY = b""
"""A directory id that is not known yet."""


@packed
class VoterKey:
    """A voter on one disk."""

    voter_id: NodeId
    directory_id: bytes = MIGHT_BE_ANY


@packed
class QuorumAnswer(Answer):
    """The beginning of every answer of a voter."""

    epoch: Epoch = -1
    leader_id: NodeId = NO_NODE


@message(18)
class VoteAnswer(QuorumAnswer):
    """The answer to a request for a vote.

    A granted vote is on stable storage before the answer is sent, unless it is a pre-vote.
    FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INCONSISTENT_VOTER_SET, INCONSISTENT_CLUSTER_ID: the
    request was refused as a whole and changed nothing.
    """

    voter: VoterKey | None = None
    """The voter that answers."""
    is_granted: bool = False


@message(19)
class Vote(Request[VoteAnswer]):
    """Make me the leader of `epoch`: my log is at least as new as yours."""

    cluster_id: str | None
    """None from a node that has no cluster yet."""
    epoch: Epoch
    """The epoch to lead; in a pre-vote the sender's own epoch, which it has not left yet."""
    candidate: VoterKey
    voter: VoterKey
    """The voter that is asked."""
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool
    voters: tuple[VoterKey, ...] = ()
    """All that the candidate knows."""


@message(20)
class QuorumEpochBegun(QuorumAnswer):
    """The voter follows the leader, or names the leader that it follows instead."""


@message(21)
class BeginQuorumEpoch(Request[QuorumEpochBegun]):
    """The sender leads this epoch, and the voter shall fetch from it."""

    cluster_id: str | None
    epoch: Epoch
    leader: VoterKey
    voter: VoterKey
    voters: tuple[VoterKey, ...] = ()


@message(22)
class QuorumEpochEnded(QuorumAnswer):
    """The voter has heard that the leader resigns."""


@message(23)
class EndQuorumEpoch(Request[QuorumEpochEnded]):
    """The sender leads no more: the first of the successors should stand for election at once."""

    cluster_id: str | None
    epoch: Epoch
    leader: VoterKey
    successors: tuple[NodeId, ...]
    """Voters, the one with the longest log first."""


@packed
class EpochEnd:
    """The newest epoch not above the one asked about, and its end offset in the leader's log."""

    epoch: Epoch
    end_offset: Offset


@message(24)
class QuorumLogFetched(QuorumAnswer):
    """Records, or the point where the two logs part, or the snapshot to load first.

    NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: `epoch` and `leader_id` say
    where to go.
    """

    high_watermark: Offset = -1
    records: bytes = b""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    sent_ms: int = -1
    """Milliseconds on the leader's clock; the next fetch returns it."""


@message(25)
class FetchQuorumLog(Request[QuorumLogFetched]):
    """Records from `offset` on. The leader waits with an answer that has nothing new in it."""

    cluster_id: str | None
    epoch: Epoch
    replica: VoterKey
    offset: Offset
    last_epoch: Epoch
    """Epoch of the record before `offset`."""
    high_watermark: Offset
    """The high watermark that the follower knows."""
    max_wait_ms: int
    max_bytes: int
    """0: the follower wants no records yet and only reports that it is alive."""
    echoed_ms: int = -1
    """`sent_ms` of the newest answer in this epoch, -1 before the first."""


QuorumRequest: TypeAlias = Vote | BeginQuorumEpoch | EndQuorumEpoch | FetchQuorumLog
