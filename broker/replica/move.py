"""The next step in the move of a replica to another directory of its broker (KIP-113).

Pure. A replica that is being copied answers, acknowledges and is in the ISR as before: a move
changes no role and no epoch. The copy replaces the replica's files only while the copy holds every
batch, and while everything up to the replica's flushed offset is stable in the copy too.

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
    """The progress of a move, from which `next_step` decides."""

    is_wanted: bool
    """False once the replica is offline or deleted, or another directory is requested for it."""
    is_whole: bool = False
    """True if the copy holds every batch of the replica."""
    is_recorded: bool = False
    """True if the target directory's checkpoints have entries for the replica."""
    is_held: bool = False
    """True while no flush of the replica can run."""
    is_flushed: bool = False
    """True if the copy was flushed since `is_held` became True."""
    is_stable: bool = False
    """True if the copy is stable up to the replica's flushed offset."""


def next_step(standing: Standing) -> Step:
    """Return the next step of the move."""
    if not standing.is_wanted:
        return Step.GIVE_UP
    if standing.is_held:
        if not standing.is_flushed:
            return Step.FLUSH
        return Step.SWAP if standing.is_whole and standing.is_stable else Step.RELEASE
    if not standing.is_whole:
        return Step.COPY
    return Step.HOLD if standing.is_recorded else Step.RECORD
