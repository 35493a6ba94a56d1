"""The quorum described for people: its leader, its voters, and how far each copy of the log is.

Values. Times are wall clock in ms as the leader took them, -1 if unknown; offsets are -1 if
unknown.
"""

from dataclasses import dataclass

from ...protocol.control.messages import Endpoint
from ...protocol.types import ZERO_UUID


@dataclass(frozen=True, slots=True)
class CopyDescription:
    """One copy of the metadata log."""

    node_id: int
    log_end_offset: int
    directory_id: bytes = ZERO_UUID
    last_fetch_ms: int = -1
    """Time of its newest fetch; -1 for the leader itself."""
    last_caught_up_ms: int = -1
    """Time when it last had the whole log; the present for the leader."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as the active controller sees it."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[CopyDescription, ...]
    """The voters, the leader among them."""
    observers: tuple[CopyDescription, ...] = ()
    """Controllers that follow without a vote; brokers are not among them."""
    endpoints: tuple[tuple[int, Endpoint], ...] = ()
    """The address of each controller, as far as it is known."""
