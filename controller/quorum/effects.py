"""The effects of the quorum's state machine: values that its driver carries out in their order.

`SaveState` holds up every later effect until the state is stable: a vote is on disk before it is
answered, and an epoch before it is used. The machine itself carries out none of them.
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
    """Send a request to another voter; report its answer, or that none came."""

    to: int
    request: Request[Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the request that came with this ticket."""

    ticket: int
    answer: object


@dataclass(frozen=True, slots=True)
class AnswerWithRecords:
    """Read records and answer with them, or with an error if this node leads no more by then."""

    ticket: int
    answer: QuorumLogFetched
    offset: int
    max_bytes: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Append:
    """Write the records received from the leader at the end of the log and flush them."""

    records: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at `offset`; the part that is cut off was never committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Fetch the snapshot from the leader and begin the log at the snapshot's end."""

    leader_id: int
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Elected:
    """This node has been elected leader of `epoch`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Deposed:
    """This node no longer leads; its records that are not written yet must not be written."""

    why: str


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The known leader has changed: another node leads, or none is known, or one is known now."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below the high watermark is committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Noted:
    """A warning for the operator, which is logged once for each `key`."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """This process must end, because committed records could be lost if it continued."""

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
"""The effects on the log and on the controller that uses it: `RaftQuorum` carries them out."""
QuorumEffect: TypeAlias = ErrandEffect | LogEffect
