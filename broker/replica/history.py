"""Compares a replica's history with the leader's: leader epochs, and where two logs diverge.

Pure. A pair (offset, leader epoch) is unique in a partition, and two logs that agree on one such
pair agree on everything before it (KIP-101). All truncation relies on that.
"""

from typing import Protocol

from ...protocol.errors import ErrorCode
from ...protocol.types import NO_EPOCH, OffsetAndEpoch


class LogView(Protocol):
    """The part of a log that the rules of replication read."""

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def latest_epoch(self) -> int:
        """The newest epoch in the leader-epoch file, or -1 if it has none."""

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the newest known epoch that is at most `epoch`, and its end; None if unknown.

        If `epoch` is below the oldest known one, return `epoch` and the start of the oldest.
        """


def check_leader_epoch(asked: int, ours: int) -> ErrorCode:
    """Return the error of a request whose leader epoch is not `ours`; -1 is not checked."""
    if asked in (ours, NO_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < ours else ErrorCode.UNKNOWN_LEADER_EPOCH


def find_divergence(
    log: LogView, fetch_offset: int, last_fetched_epoch: int
) -> OffsetAndEpoch | ErrorCode | None:
    """Return where the asking replica's log diverges from this one; None if it does not.

    Return OFFSET_OUT_OF_RANGE if the fetch offset is outside this log.
    """
    if fetch_offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if last_fetched_epoch == log.latest_epoch and fetch_offset <= log.log_end_offset:
        return None
    if last_fetched_epoch != NO_EPOCH:
        ours = log.end_offset_for(last_fetched_epoch)
        if ours is None:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if ours.epoch < last_fetched_epoch or ours.offset < fetch_offset:
            return ours
    if fetch_offset > log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None
