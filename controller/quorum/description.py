"""The quorum described for people: who leads, who votes, how far each copy of the log is. Values.

Times are wall clock in ms as the leader took them, -1 where unknown; offsets are -1 where unknown.
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
    """When it last asked for more; -1 for the leader itself."""
    last_caught_up_ms: int = -1
    """When it last had everything; the present for the leader."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum as the active controller sees it."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[CopyDescription, ...]
    """The leader among them."""
    observers: tuple[CopyDescription, ...] = ()
    """Controllers that follow without a vote; brokers are not among them."""
    endpoints: tuple[tuple[int, Endpoint], ...] = ()
    """Where each controller is reached, as far as is known."""
