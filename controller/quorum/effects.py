"""The effects of the quorum's state machine: values, carried out by its driver in their order.

`SaveState` holds up everything after it until the state is stable: a vote is on disk before it is
answered, and an epoch before it is used. Nothing here is carried out by the machine itself.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from ...protocol.control.messages import Request, SnapshotId
from ...protocol.control.quorum_messages import QuorumLogFetched
from .quorum_state import QuorumState


@dataclass(frozen=True, slots=True)
class SaveState:
    """The state must be stable before any later effect is carried out."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Send:
    """Ask another voter; report the answer, or that there was none."""

    to: int
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the request that came with this ticket."""

    ticket: int
    answer: object


@dataclass(frozen=True, slots=True)
class AnswerWithRecords:
    """Read records, then answer with them, unless this node does not lead the epoch any more."""

    ticket: int
    answer: QuorumLogFetched
    offset: int
    max_bytes: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Append:
    """Write a leader's records at the end of the log and flush them."""

    records: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log: the cut part was never committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Get the snapshot from the leader and let the log begin at its end."""

    leader_id: int
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Elected:
    """This node leads."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Deposed:
    """This node leads no more; its records that are not written yet must not be written."""

    why: str


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Another one leads, or it is no longer or at last known who does."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below the high watermark is committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Noted:
    """Something odd that an operator should read, once for each `key`."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """This node must end: if it went on, committed records would be lost."""

    why: str


ErrandEffect: TypeAlias = SaveState | Send | Answer | Noted
"""The effects that `Errands` carries out by itself."""
LogEffect: TypeAlias = (
    AnswerWithRecords
    | Append
    | Truncate
    | LoadSnapshot
    | Elected
    | Deposed
    | LeaderChanged
    | Committed
    | Failed
)
"""The effects on the log and on its users: `RaftQuorum` carries them out."""
QuorumEffect: TypeAlias = ErrandEffect | LogEffect
