"""The leader epochs of one log and how far they are on their way to the disk.

They are written before the first batch of an epoch, but not synced then: one flush later takes
them along. What a crash takes away, recovery makes anew from batch headers.
"""

from collections.abc import Sequence
from enum import Enum

from .files import LEADER_EPOCHS, Files
from .leader_epochs import LeaderEpochs
from .segment import Batch


class _State(Enum):
    UNWRITTEN = "in memory"
    UNSYNCED = "written"
    SYNCED = "on stable storage"


class EpochFile:
    """`leader-epoch-checkpoint` of one log."""

    __slots__ = ("_directory", "_files", "_state", "epochs")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.epochs = LeaderEpochs()
        self._state = _State.SYNCED

    @property
    def _path(self) -> str:
        return f"{self._directory}/{LEADER_EPOCHS}"

    @property
    def is_written(self) -> bool:
        """Does the file, if not yet the disk, hold all that the memory does?"""
        return self._state is not _State.UNWRITTEN

    def load(self, epochs: LeaderEpochs, *, is_written: bool) -> None:
        """Take over what opening the log found."""
        self.epochs = epochs
        self.changed(not is_written)

    def changed(self, has_changed: bool = True) -> None:
        """The epochs in memory have changed."""
        if has_changed:
            self._state = _State.UNWRITTEN

    def note(self, batches: Sequence[Batch]) -> None:
        """Take in the epochs of batches about to be appended."""
        for header, _ in batches:
            if header.leader_epoch > self.epochs.latest_epoch:
                self.changed(self.epochs.assign(header.leader_epoch, header.base_offset))

    def write(self) -> None:
        """Write the file, if it is not up to date; its directory exists."""
        if self._state is _State.UNWRITTEN:
            self._files.replace_small(self._path, self.epochs.encode())
            self._state = _State.UNSYNCED

    async def sync(self) -> None:
        """The file is on stable storage on return."""
        if self._state is _State.UNSYNCED:
            self._state = _State.SYNCED
            await self._files.fdatasync_named(self._path)
