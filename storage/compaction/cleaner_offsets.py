"""`cleaner-offset-checkpoint`, Kafka's file: the offset up to which each log is compacted.

The offset of a log covers only segments that are on disk under their final names, and is lowered
before the log is truncated below it. A tombstone below this offset may be removed, because no older
record of its key is left in the log.
"""

from ...protocol.types import TopicPartition
from ..files import CLEANER_OFFSETS, Files
from ..recovery_points import RecoveryPoints


class CleanerOffsets:
    """The first dirty offset of each log that was ever compacted: below it all is compacted."""

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
        """Record that everything below `offset` is compacted and on stable storage.

        The checkpoint itself is on stable storage on return.
        """
        self._offsets[partition] = offset
        await self._file.write(lambda: dict(self._offsets))

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """Lower a log's offset, because the log is truncated to `offset`.

        If the file may hold a greater offset, the event loop waits until the file is lowered on
        disk. That is rare, because committed records are truncated only after an unclean election.
        """
        if self._offsets.get(partition, 0) > offset:
            self._offsets[partition] = offset
        if self._file.vouches_above(partition, offset):
            self._file.take_back(self._offsets)

    def forget(self, partition: TopicPartition) -> None:
        """Forget a log that is gone. Call `cut` with 0 before another log of its name begins."""
        self._offsets.pop(partition, None)
