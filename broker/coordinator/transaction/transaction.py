"""The state of one transactional id: an immutable value, replaced with every transition.

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

Once a Prepare state is committed to the log, the outcome is fixed. Kafka's states Dead and
PrepareEpochFence exist only in memory; here a fence leads to PrepareAbort in one step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from ....protocol.types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

EPOCH_MAX: Final = 32_767
"""The last epoch. Only markers carry it; a producer gets epoch 0 of a new producer id instead."""
EXHAUSTED_EPOCH: Final = EPOCH_MAX - 1
"""A producer at this epoch or above gets a new producer id instead of a next epoch."""
NO_PARTITIONS: Final[Mapping[TopicPartition, None]] = MappingProxyType({})
BUMPING_VERSION: Final = 2
"""transaction.version from which every end of a transaction raises the epoch (KIP-890)."""


class State(IntEnum):
    """The states of a transaction, by their numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The state's name in Kafka's tools."""
        return TITLES[self]

    @property
    def is_prepared(self) -> bool:
        """True if the outcome is decided and the transaction is not completed."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """True if no transaction is open or ending."""
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
"""The states that may precede each state. A new id may also begin in Empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The producer of one transactional id, and its transaction."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the newest transition; equal to `producer_id` unless that transition
    replaced the id."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id, used from epoch 0 on, after a transaction that ends at the last usable
    epoch; -1 otherwise."""
    epoch: int
    """The producer's epoch. While the transaction ends, its markers carry it."""
    last_epoch: int = NO_EPOCH
    """The epoch before this one, if the producer's own request raised the epoch; a retry of that
    request is recognised by it. It is -1 if the epoch was raised for another reason."""
    timeout_ms: int
    state: State = State.EMPTY
    partitions: Mapping[TopicPartition, None] = field(default_factory=lambda: NO_PARTITIONS)
    """The partitions in the transaction, in the order in which they were added; empty once it is
    completed."""
    started_ms: int = NO_TIMESTAMP
    """Wall time at which the transaction began, in ms."""
    updated_ms: int = NO_TIMESTAMP
    """Wall time of the newest transition, in ms."""
    client_version: int = 0
    """The transaction.version under which the newest transition was made."""

    @property
    def upcoming(self) -> tuple[int, int]:
        """The producer id and epoch that the producer uses after the transaction's end."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.epoch

    @property
    def is_exhausted(self) -> bool:
        """True if the next epoch must be that of another producer id."""
        return self.epoch >= EXHAUSTED_EPOCH
