"""The leader-epoch file of one log, and whether it is up to date and on stable storage.

An entry is written before the first batch of its epoch, and synced by the next flush of the log.
Recovery rebuilds entries lost in a crash from the batch headers.
"""

from collections.abc import Sequence

from .files import LEADER_EPOCHS, Files
from .leader_epochs import LeaderEpochs
from .segment import Batch
from .segments import Segments


class EpochFile:
    """The file `leader-epoch-checkpoint` of one log, and the epochs in memory."""

    __slots__ = ("_files", "_is_synced", "_segments", "epochs", "is_written")

    def __init__(
        self, files: Files, segments: Segments, epochs: LeaderEpochs, *, is_written: bool
    ) -> None:
        """Manage the file of `epochs` in the log's directory.

        `is_written` is True if the file on disk holds exactly `epochs`.
        """
        self._files = files
        self._segments = segments
        self.epochs = epochs
        self.is_written = self._is_synced = is_written
        """True if the file holds all the epochs in memory, on stable storage or not."""

    @property
    def _path(self) -> str:
        return f"{self._segments.directory}/{LEADER_EPOCHS}"

    def become(self, other: LeaderEpochs) -> None:
        """Replace the epochs by those of another log, which this log is a copy of."""
        if list(self.epochs) != list(other):
            self.epochs.clear()
            for epoch, start in other:
                self.epochs.assign(epoch, start)
            self.is_written = False

    def take_over(self, files: Files) -> None:
        """Use the file in the segments' new directory, where it has not been written yet."""
        self._files = files
        self.is_written = False

    def changed(self, has_changed: bool = True) -> None:
        """Note that the epochs in memory have changed; do nothing if `has_changed` is False."""
        if has_changed:
            self.is_written = False

    def note(self, batches: Sequence[Batch]) -> None:
        """Record the leader epochs that begin in batches about to be appended."""
        for header, _ in batches:
            if header.leader_epoch > self.epochs.latest_epoch:
                self.changed(self.epochs.assign(header.leader_epoch, header.base_offset))

    def write(self) -> None:
        """Write the file if it is not up to date, after making the log's directory if need be."""
        if not self.is_written:
            self._segments.make_directory()
            self._files.replace_small(self._path, self.epochs.encode())
            self._segments.names_changed = True
            self.is_written, self._is_synced = True, False

    async def sync(self) -> None:
        """Sync the file to stable storage, if it was written since its last sync."""
        if self.is_written and not self._is_synced:
            self._is_synced = True
            await self._files.fdatasync_named(self._path)
