"""Messages between controllers as voters: votes, changes of the leader, the metadata log.

Every message carries the sender's epoch. Every answer carries the epoch of its sender and the
leader that the sender follows. A node that receives a higher epoch than its own enters that epoch.
A voter is identified by id and directory id together: with another disk the same id has no record
of its votes, and is another voter (KIP-853).

    pre_vote    asks whether a vote would be given, and changes nothing (KIP-996)
    offset      in a fetch: everything before it is on the follower's stable storage
"""

from typing import TypeAlias

from .messages import Answer, Request, SnapshotId, message
from .packing import Epoch, NodeId, Offset, packed

NO_NODE = -1
MIGHT_BE_ANY = b""
"""The directory id of a voter whose disk is not known yet."""


@packed
class VoterKey:
    """A voter's id, and the directory id of its disk."""

    voter_id: NodeId
    directory_id: bytes = MIGHT_BE_ANY


@packed
class QuorumAnswer(Answer):
    """The fields with which every answer of a voter begins."""

    epoch: Epoch = -1
    leader_id: NodeId = NO_NODE


@message(18)
class VoteAnswer(QuorumAnswer):
    """The answer to a request for a vote.

    A granted vote is on stable storage before the answer is sent; a pre-vote is not stored. With an
    error, such as FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INCONSISTENT_VOTER_SET or
    INCONSISTENT_CLUSTER_ID, the request was refused as a whole and changed nothing.
    """

    voter: VoterKey | None = None
    """The voter that answers."""
    is_granted: bool = False


@message(19)
class Vote(Request[VoteAnswer]):
    """A candidate's request for a vote to lead `epoch`, or for a pre-vote."""

    cluster_id: str | None
    """The cluster's id; None from a node that does not know its cluster yet."""
    epoch: Epoch
    """The epoch to lead; in a pre-vote the sender's present epoch, which it keeps."""
    candidate: VoterKey
    voter: VoterKey
    """The voter that is asked."""
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool
    voters: tuple[VoterKey, ...] = ()
    """The voters whose directory ids the candidate knows."""


@message(20)
class QuorumEpochBegun(QuorumAnswer):
    """The voter follows the sender, or names the leader that it follows instead."""


@message(21)
class BeginQuorumEpoch(Request[QuorumEpochBegun]):
    """The sender leads this epoch, and asks the voter to fetch from it."""

    cluster_id: str | None
    epoch: Epoch
    leader: VoterKey
    voter: VoterKey
    voters: tuple[VoterKey, ...] = ()


@message(22)
class QuorumEpochEnded(QuorumAnswer):
    """The voter has noted that the leader resigned."""


@message(23)
class EndQuorumEpoch(Request[QuorumEpochEnded]):
    """The sender leads no more; the first of the successors should stand for election now."""

    cluster_id: str | None
    epoch: Epoch
    leader: VoterKey
    successors: tuple[NodeId, ...]
    """The other voters, the one with the longest log first."""


@packed
class EpochEnd:
    """The newest epoch up to the requested one, and its end offset in the leader's log."""

    epoch: Epoch
    end_offset: Offset


@message(24)
class QuorumLogFetched(QuorumAnswer):
    """Records, or the point where the follower's log diverges, or the snapshot to load first.

    With NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH, `epoch` and
    `leader_id` name the leader to ask, if it is known.
    """

    high_watermark: Offset = -1
    records: bytes = b""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    sent_ms: int = -1
    """The time on the leader's clock in ms; the follower returns it in its next fetch."""


@message(25)
class FetchQuorumLog(Request[QuorumLogFetched]):
    """Fetch records from `offset` on. If there is nothing new, the leader delays its answer."""

    cluster_id: str | None
    epoch: Epoch
    replica: VoterKey
    offset: Offset
    last_epoch: Epoch
    """The epoch of the record before `offset`."""
    high_watermark: Offset
    """The high watermark that the follower knows."""
    max_wait_ms: int
    max_bytes: int
    """The most bytes of records; 0 if the follower only shows that it is alive."""
    echoed_ms: int = -1
    """`sent_ms` of the newest answer in this epoch; -1 before the first answer."""


QuorumRequest: TypeAlias = Vote | BeginQuorumEpoch | EndQuorumEpoch | FetchQuorumLog
