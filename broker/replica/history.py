"""Comparing a replica's past with the leader's: epochs, their starts, and where two logs part.

Pure. (offset, leader epoch) is unique per partition, and two logs that agree on one such pair agree
on everything before it (KIP-101): all truncation rests on that.
"""

from typing import Protocol

from ...protocol.errors import ErrorCode
from ...protocol.types import NO_EPOCH, OffsetAndEpoch


class LogView(Protocol):
    """The part of a log that replication may know."""

    @property
    def log_start_offset(self) -> int:
        """First readable offset."""

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""

    @property
    def latest_epoch(self) -> int:
        """Newest epoch in the leader-epoch file, or -1."""

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the newest epoch that is at most `epoch`, and its end; None if unknown.

        Below the oldest epoch the answer is (`epoch`, start of the oldest).
        """


def check_leader_epoch(asked: int, ours: int) -> ErrorCode:
    """Compare a request's leader epoch with ours; -1 asks for no check."""
    if asked in (ours, NO_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < ours else ErrorCode.UNKNOWN_LEADER_EPOCH


def find_divergence(
    log: LogView, fetch_offset: int, last_fetched_epoch: int
) -> OffsetAndEpoch | ErrorCode | None:
    """Return the point where the asking replica's history leaves this log; None if it does not."""
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
