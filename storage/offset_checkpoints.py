"""The checkpoints of one data directory: each log's recovery point, high watermark and start.

They include logs that are being moved to this directory. Each entry must be true after a loss of
power at any moment (recovery_points.py).
"""

from collections.abc import Mapping

from ..protocol.types import TopicPartition
from .files import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, Files
from .log import Log
from .recovery_points import Points, RecoveryPoints


class OffsetCheckpoints:
    """The recovery points, log starts and high watermarks of the logs of one directory."""

    def __init__(
        self,
        files: Files,
        logs: Mapping[TopicPartition, Log],
        arriving: Mapping[TopicPartition, Log],
    ) -> None:
        """`logs` are the logs here, `arriving` those being moved here; the owner changes both."""
        self._logs = logs
        self._arriving = arriving
        self.recovery_points: Points = {}
        self.log_starts: Points = {}
        self.high_watermarks: Points = {}
        """The high watermarks as read at start or last written; a partition that is missing has
        0."""
        self._points = RecoveryPoints(files, RECOVERY_POINTS)
        self._watermarks = RecoveryPoints(files, HIGH_WATERMARKS)
        self._starts = RecoveryPoints(files, LOG_STARTS)

    def read(self) -> None:
        """Read the files, before the first write."""
        self.recovery_points = self._points.read()
        self.log_starts = self._starts.read()
        self.high_watermarks = self._watermarks.read()

    async def write(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write high watermarks, log start offsets and recovery points."""
        self.high_watermarks = dict(high_watermarks)
        await self._watermarks.write(self._committed)
        await self._starts.write(self._log_starts)
        await self.write_recovery_points()

    async def write_recovery_points(self) -> None:
        """Write the recovery points: the offsets up to which each log is stable and committed."""
        await self._points.write(self._stable_points)

    def forget(self, partition: TopicPartition) -> None:
        """Forget a log that is gone; the next write leaves it out."""
        for known in (self.recovery_points, self.log_starts, self.high_watermarks):
            known.pop(partition, None)

    def begin(self, partition: TopicPartition) -> None:
        """Remove the entries of an earlier log of this name, on stable storage too."""
        self.forget(partition)
        if self._points.vouches_above(partition, 0):
            self._points.take_back(self._stable_points())
        if self._watermarks.vouches_above(partition, 0):
            self._watermarks.take_back(self._committed())
        if self._starts.vouches_above(partition, 0):
            self._starts.take_back(self._log_starts())

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """Lower a log's checkpoints before it is truncated, so that they cover no removed record.

        A checkpoint that must be lowered is emptied for all logs, and written again within seconds:
        so the event loop waits for the disk only once, however many logs are truncated.
        """
        if self.high_watermarks.get(partition, 0) > offset:
            self.high_watermarks[partition] = offset
        for checkpoint in (self._points, self._watermarks):
            if checkpoint.vouches_above(partition, offset):
                checkpoint.take_back({})

    def _present(self) -> Mapping[TopicPartition, Log]:
        return {**self._arriving, **self._logs} if self._arriving else self._logs

    def _committed(self) -> Points:
        """Return high watermarks, lowered to the flushed offset if a cut may not be stable."""
        marks = dict(self.high_watermarks)
        for partition, owner in self._present().items():
            is_unsure = owner.durability.may_be_uncut
            if is_unsure and marks.get(partition, 0) > owner.flushed_offset:
                marks[partition] = owner.flushed_offset
        return marks

    def _log_starts(self) -> Points:
        return self._offsets("log_start_offset", self.log_starts)

    def _stable_points(self) -> Points:
        points = self._offsets("flushed_offset", self.recovery_points)
        known = self.high_watermarks
        least = {name: min(point, known.get(name, 0)) for name, point in points.items()}
        return {name: point for name, point in least.items() if point}

    def _offsets(self, attribute: str, at_start: Points) -> Points:
        """Return `attribute` of each open log, and the value in `at_start` of logs not open yet."""
        now = {partition: getattr(one, attribute) for partition, one in self._present().items()}
        return {k: v for k, v in {**at_start, **now}.items() if v}
