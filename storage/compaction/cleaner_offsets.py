"""`cleaner-offset-checkpoint`, Kafka's file: the offset up to which each log is compacted.

Says at most what is on the disk under its final names, and is taken back before what it says is
cut away: below it a tombstone goes on the strength of there being nothing older of its key.
"""

import logging

from ...protocol.types import TopicPartition
from ..checkpoints import decode_offsets
from ..files import CLEANER_OFFSETS, Files
from ..recovery_points import RecoveryPoints

log = logging.getLogger(__name__)


class CleanerOffsets:
    """The first dirty offset of each log that was ever compacted."""

    def __init__(self, files: Files) -> None:
        self._path = f"{files.root}/{CLEANER_OFFSETS}"
        self._files = files
        self._offsets: dict[TopicPartition, int] = {}
        self._file = RecoveryPoints(files, self._path, {})

    def read(self) -> None:
        """Learn what the file says; nothing if it cannot be read: all is compacted anew."""
        data = self._files.read_small(self._path)
        known = decode_offsets(data)
        if data is not None and known is None:
            log.warning("%s cannot be read: taken as empty", self._path)
        self._offsets = known or {}
        self._file = RecoveryPoints(self._files, self._path, self._offsets)

    def of(self, partition: TopicPartition) -> int:
        """All of the log below this was compacted; 0 if nothing was."""
        return self._offsets.get(partition, 0)

    async def note(self, partition: TopicPartition, offset: int) -> None:
        """All below `offset` is compacted, and stable; so is this on return."""
        self._offsets[partition] = offset
        await self._file.write(lambda: dict(self._offsets))

    def cut(self, partition: TopicPartition, offset: int) -> None:
        """The log ends at `offset` from now on: what comes there is not compacted.

        Waits for the disk on the loop where the file says otherwise; committed records are cut
        only after an unclean election.
        """
        if self._offsets.get(partition, 0) > offset:
            self._offsets[partition] = offset
        if self._file.vouches_above(partition, offset):
            self._file.take_back(self._offsets)

    def forget(self, partition: TopicPartition) -> None:
        """The log is gone; `cut` to 0 before another of its name is begun."""
        self._offsets.pop(partition, None)
