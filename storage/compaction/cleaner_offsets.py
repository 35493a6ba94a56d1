"""`cleaner-offset-checkpoint`, Kafka's file: the offset up to which each log is compacted.

An offset covers only segments that are on disk under their final names, and it is lowered before
anything below it is cut away. Below it a tombstone may be removed, because no older record of its
key is left there.
"""

from ...protocol.types import TopicPartition
from ..files import CLEANER_OFFSETS, Files
from ..recovery_points import RecoveryPoints


class CleanerOffsets:
    """The first dirty offset of each log that was ever compacted."""

    def __init__(self, files: Files) -> None:
        self._offsets: dict[TopicPartition, int] = {}
        self._file = RecoveryPoints(files, CLEANER_OFFSETS)

    def read(self) -> None:
        """Read the file. An unreadable file counts as empty: all logs are compacted anew."""
        self._offsets = self._file.read()

    def of(self, partition: TopicPartition) -> int:
        """Return the offset below which all of the log is compacted; 0 if nothing is."""
        return self._offsets.get(partition, 0)

    async def note(self, partition: TopicPartition, offset: int) -> None:
        """Record that all below `offset` is compacted and stable.

        The record is stable on return.
        """
        self._offsets[partition] = offset
        await self._file.write(lambda: dict(self._offsets))

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """Lower a log's offset because the log is cut at `offset`: later batches are not compacted.

        If the file may hold more, the event loop waits until it is lowered on disk. Committed
        records are cut only after an unclean election.
        """
        if self._offsets.get(partition, 0) > offset:
            self._offsets[partition] = offset
        if self._file.vouches_above(partition, offset):
            self._file.take_back(self._offsets)

    def forget(self, partition: TopicPartition) -> None:
        """Forget a log that is gone. Call `cut` with 0 before another log of its name begins."""
        self._offsets.pop(partition, None)
