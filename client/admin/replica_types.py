"""Replicas as plain values, each as described by the broker that has it."""

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.messages.describe_replicas import ReplicaRole as ReplicaRole
from ...protocol.types import Buffer


class EpochStart(NamedTuple):
    """A leader epoch, and the offset at which it began in a replica's log."""

    leader_epoch: int
    start_offset: int


class FollowerState(NamedTuple):
    """A follower as its leader sees it in the present leader epoch."""

    broker_id: int
    log_end_offset: int | None
    """The offset up to which the follower has fetched; None if it has not fetched yet."""
    held_offset: int | None
    """The offset up to which the follower's log counts for the high watermark. Under
    flush.policy=group only the flushed part of the log counts."""
    behind_ms: int
    """Milliseconds since the follower last had the leader's whole log; 0 if it has it now. If it
    has not fetched yet, the time counts from the start of the leader epoch; for a follower outside
    the ISR replica.lag.time.max.ms is added."""


class UndecidedTransaction(NamedTuple):
    """A transaction on one partition for which no commit or abort marker is written yet."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    started_ms: int | None
    """The timestamp of its first record in ms since the epoch.
    It is None if the broker would have had to read the disk for it."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica as described by its broker."""

    broker_id: int
    role: ReplicaRole
    leader_id: int
    """The leader that this broker knows, or -1 if it knows none."""
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    """The offset up to which read_committed consumers read."""
    size_bytes: int
    segment_count: int
    directory_id: str
    """The id of the data directory, as URL-safe base64 text."""
    epochs: tuple[EpochStart, ...]
    """The newest leader epochs of the log, at most 32, oldest first."""
    isr: tuple[int, ...] = ()
    """The in-sync replicas; empty if this replica is not the leader."""
    followers: tuple[FollowerState, ...] = ()
    """The other replicas; empty if this replica is not the leader."""
    open_transactions: tuple[UndecidedTransaction, ...] = ()
    """The oldest open transactions, at most ten; the first determines the last stable offset."""


class ReplicaRead(NamedTuple):
    """A part of a replica's log."""

    high_watermark: int
    data: Buffer
    """Record batches as in the log. The first may begin before the requested offset, and the last
    may be cut off."""
