"""Replicas as plain values, each as the broker that has it describes it."""

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.messages.describe_replicas import ReplicaRole as ReplicaRole


class EpochStart(NamedTuple):
    """A leader epoch, and the offset at which it began in a replica's log."""

    leader_epoch: int
    start_offset: int


class FollowerState(NamedTuple):
    """A follower as its leader sees it, in this leader epoch."""

    broker_id: int
    log_end_offset: int | None
    """Everything before it has been fetched; None: the follower has not fetched yet."""
    held_offset: int | None
    """Everything before it counts as held: under flush.policy=group, what is flushed too."""
    behind_ms: int
    """Milliseconds since the follower last held all of the leader's log; 0: it does now. Where it
    has not fetched yet, since it might have: in sync from the epoch's begin on, out of sync
    replica.lag.time.max.ms longer."""


class UndecidedTransaction(NamedTuple):
    """A transaction of one partition that no marker has decided."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    started_ms: int | None
    """Timestamp of its first record, ms since the epoch; None where the broker would have had to
    read the disk."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica as its broker has it."""

    broker_id: int
    role: ReplicaRole
    leader_id: int
    """The leader that this broker knows of; -1: none."""
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    """Readers of committed transactions read up to here."""
    size_bytes: int
    segment_count: int
    directory_id: str
    """The id of the data directory, as Kafka writes ids."""
    epochs: tuple[EpochStart, ...]
    """The newest 32 leader epochs of the log, oldest first."""
    isr: tuple[int, ...] = ()
    """The brokers in sync; empty where the replica does not lead."""
    followers: tuple[FollowerState, ...] = ()
    """The other replicas; empty where this one does not lead."""
    open_transactions: tuple[UndecidedTransaction, ...] = ()
    """The oldest ten; the first one holds the last stable offset back."""
