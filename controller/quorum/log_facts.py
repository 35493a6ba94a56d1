"""The facts of the log that the quorum's state machine may know, and how two logs are compared.

A log is compared by its end: the offset after its last record, and that record's epoch. Of two
logs, the one with the later epoch is newer; at equal epochs, the longer one. Two logs that agree on
(offset, epoch) of a record agree on everything before it.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ...protocol.control.messages import SnapshotId
from ...protocol.control.quorum_messages import EpochEnd


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """The end of a log. Of two logs, the newer one has the greater end."""

    epoch: int
    offset: int


class LogFacts(Protocol):
    """The facts of the log as they are at this moment; reading them needs no disk."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def end(self) -> LogEnd:
        """The end after the last record written."""

    @property
    def stable(self) -> LogEnd:
        """The end after the last record that is on stable storage."""

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot, or None."""

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """Return our newest epoch that is not above `epoch`, with its end offset (exclusive).

        Return None if neither the log nor its newest snapshot has such an epoch.
        """


class Match(Enum):
    """The relation of a follower's log to the leader's."""

    VALID = auto()
    """The follower's log is a prefix of the leader's."""
    DIVERGING = auto()
    NEEDS_SNAPSHOT = auto()
    """The leader's log no longer reaches back to the follower's end."""


def compare(log: LogFacts, offset: int, last_epoch: int) -> tuple[Match, EpochEnd | None]:
    """Compare a follower's log, which ends at `offset` after a record of `last_epoch`, with ours.

    Return the relation. If it is DIVERGING, return also our newest epoch not above `last_epoch`
    with its end offset; otherwise None.
    """
    start, snapshot = log.start_offset, log.snapshot
    if offset < start:
        return Match.NEEDS_SNAPSHOT, None
    if offset == 0:
        return Match.VALID, None
    if offset == start and snapshot is not None and snapshot.end_offset == start:
        same = last_epoch == snapshot.epoch
        return (Match.VALID if same else Match.NEEDS_SNAPSHOT), None
    end = log.end_of_epoch(last_epoch)
    if end is None:
        return (Match.NEEDS_SNAPSHOT, None) if start else (Match.DIVERGING, EpochEnd(-1, 0))
    if end.epoch == last_epoch and offset <= end.end_offset:
        return Match.VALID, None
    return Match.DIVERGING, end


def truncation_for(log: LogFacts, diverging: EpochEnd) -> int:
    """Return the offset at which a follower cuts its log, which diverges from the leader's.

    `diverging` is the leader's newest epoch not above that of our last record, with its end offset.
    """
    own = log.end_of_epoch(diverging.epoch)
    if own is None:
        return log.start_offset
    if own.epoch == diverging.epoch:
        return min(own.end_offset, diverging.end_offset)
    return own.end_offset
