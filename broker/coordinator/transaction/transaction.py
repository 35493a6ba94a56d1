"""One transactional id as its coordinator has it: a value, replaced with every transition.

    request                 from                           to
    InitProducerId          none, Empty, Complete*         Empty (next epoch, or a new producer id)
                            Ongoing                        PrepareAbort, the epoch fenced
    AddPartitions, -Offsets Empty, Ongoing, Complete*      Ongoing
    EndTxn (commit)         Ongoing                        PrepareCommit
    EndTxn (abort)          Ongoing                        PrepareAbort
    EndTxn 5 (abort)        Empty, Complete*               PrepareAbort of nothing
    time is over            Ongoing                        PrepareAbort, as by EndTxn or fenced
    every marker written    PrepareCommit / PrepareAbort   CompleteCommit / CompleteAbort
    unused for days         Empty, Complete*               none (a tombstone)

Prepare is the point of decision: once it is committed the outcome is fixed. Kafka's Dead and
PrepareEpochFence were only ever in memory; here a fence goes to PrepareAbort in one step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from ....protocol.types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

EPOCH_MAX: Final = 32_767
"""No producer is ever given it: it may be the epoch of a marker, and then the id is rotated."""
EXHAUSTED_EPOCH: Final = EPOCH_MAX - 1
"""From here on the next epoch belongs to another producer id."""
NO_PARTITIONS: Final[Mapping[TopicPartition, None]] = MappingProxyType({})
BUMPING_VERSION: Final = 2
"""transaction.version from which every end of a transaction raises the epoch (KIP-890)."""


class State(IntEnum):
    """States by their numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """As Kafka's tools name it."""
        return TITLES[self]

    @property
    def is_prepared(self) -> bool:
        """Is the outcome decided, and not every marker written?"""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Is no transaction open or ending?"""
        return self in IDLE


TITLES: Final = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}
IDLE: Final = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
PREVIOUS: Final[Mapping[State, tuple[State, ...]]] = {
    State.EMPTY: IDLE,
    State.ONGOING: (State.ONGOING, *IDLE),
    State.PREPARE_COMMIT: (State.ONGOING,),
    State.PREPARE_ABORT: (State.ONGOING, *IDLE),
    State.COMPLETE_COMMIT: (State.PREPARE_COMMIT,),
    State.COMPLETE_ABORT: (State.PREPARE_ABORT,),
}
"""From where each state is reached; Empty also from nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The producer of one transactional id, and its transaction."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """What it was before the newest transition; the same unless that rotated it."""
    next_producer_id: int = NO_PRODUCER_ID
    """While it ends: what the producer goes on with, at epoch 0, because epochs have run out."""
    epoch: int
    """While it ends: that of the markers."""
    last_epoch: int = NO_EPOCH
    """The epoch that was raised to this one on its producer's own wish, by which the retry of that
    wish is known; -1 where it was somebody else's."""
    timeout_ms: int
    state: State = State.EMPTY
    partitions: Mapping[TopicPartition, None] = field(default_factory=lambda: NO_PARTITIONS)
    """In the transaction, in the order they came; while it ends, all it had."""
    started_ms: int = NO_TIMESTAMP
    """Wall clock."""
    updated_ms: int = NO_TIMESTAMP
    """Wall clock."""
    client_version: int = 0
    """transaction.version by which its newest transition was made."""

    @property
    def upcoming(self) -> tuple[int, int]:
        """Producer id and epoch as its producer has been told them."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.epoch

    @property
    def is_exhausted(self) -> bool:
        """Must the next epoch be that of another producer id?"""
        return self.epoch >= EXHAUSTED_EPOCH
