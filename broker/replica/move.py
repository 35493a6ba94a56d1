"""The next step in the move of a replica to another directory of its broker (KIP-113).

Pure. While it is copied the replica answers, acknowledges and is in the ISR as before: a move
changes no role and no epoch. The copy takes its place only while it holds every batch, and while
everything that the replica has called stable is stable in the copy too.

    COPY ... COPY -> RECORD -> HOLD -> FLUSH -> SWAP
      ^                |                 |
      +----------------+-- not whole ----+ not whole or not stable: RELEASE, and COPY again
"""

from dataclasses import dataclass
from enum import Enum


class Step(Enum):
    """The steps of a move."""

    COPY = "copy the next batches"
    RECORD = "flush the copy, and write its checkpoints"
    HOLD = "let no flush of the replica run"
    FLUSH = "flush the copy while the replica's flushes are held"
    SWAP = "let the copy take the replica's place"
    RELEASE = "let flushes of the replica run again"
    GIVE_UP = "remove the copy, and leave the replica as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a move is."""

    is_wanted: bool
    """False once the replica is offline or deleted, or is asked to be elsewhere."""
    is_whole: bool = False
    """True if the copy holds every batch of the replica."""
    is_recorded: bool = False
    """True if the target's checkpoints know the replica."""
    is_held: bool = False
    """True while no flush of the replica can run."""
    is_flushed: bool = False
    """True if the copy was flushed since the flushes of the replica are held."""
    is_stable: bool = False
    """True if all that the replica calls stable is stable in the copy."""


def next_step(standing: Standing) -> Step:
    """Return what to do next."""
    if not standing.is_wanted:
        return Step.GIVE_UP
    if standing.is_held:
        if not standing.is_flushed:
            return Step.FLUSH
        return Step.SWAP if standing.is_whole and standing.is_stable else Step.RELEASE
    if not standing.is_whole:
        return Step.COPY
    return Step.HOLD if standing.is_recorded else Step.RECORD
