"""The leader-epoch file of one log, and how far its newest entries are on stable storage.

Entries are written before the first batch of an epoch, but not synced then: the next flush of the
log syncs them. Recovery rebuilds from batch headers what a crash takes away.
"""

from collections.abc import Sequence

from .files import LEADER_EPOCHS, Files
from .leader_epochs import LeaderEpochs
from .segment import Batch
from .segments import Segments


class EpochFile:
    """`leader-epoch-checkpoint` of one log."""

    __slots__ = ("_files", "_is_synced", "_segments", "epochs", "is_written")

    def __init__(
        self, files: Files, segments: Segments, epochs: LeaderEpochs, *, is_written: bool
    ) -> None:
        """Keep `epochs` in the log's file.

        `is_written`: the file on disk holds exactly `epochs`.
        """
        self._files = files
        self._segments = segments
        self.epochs = epochs
        self.is_written = self._is_synced = is_written
        """The file, if not yet the disk, holds all that the memory does."""

    @property
    def _path(self) -> str:
        return f"{self._segments.directory}/{LEADER_EPOCHS}"

    def changed(self, has_changed: bool = True) -> None:
        """The epochs in memory have changed."""
        if has_changed:
            self.is_written = False

    def note(self, batches: Sequence[Batch]) -> None:
        """Take in the epochs of batches about to be appended."""
        for header, _ in batches:
            if header.leader_epoch > self.epochs.latest_epoch:
                self.changed(self.epochs.assign(header.leader_epoch, header.base_offset))

    def write(self) -> None:
        """Write the file, if it is not up to date, and make its directory, if there is none."""
        if not self.is_written:
            self._segments.make_directory()
            self._files.replace_small(self._path, self.epochs.encode())
            self._segments.names_changed = True
            self.is_written, self._is_synced = True, False

    async def sync(self) -> None:
        """The file is on stable storage on return."""
        if self.is_written and not self._is_synced:
            self._is_synced = True
            await self._files.fdatasync_named(self._path)
