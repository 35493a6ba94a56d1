"""The file of one segment's aborted transactions: read, extended, saved and repaired.

This module does not interpret batches, and does not know open transactions.
"""

from .aborted import AbortedIndex, AbortedTransaction
from .files import ABORTED_INDEX, Files


class AbortedFile:
    """The aborted transactions whose markers are in one segment, and their file."""

    __slots__ = ("_files", "index", "is_unsynced", "segment_path")

    def __init__(self, files: Files, path: str) -> None:
        """`path` is the segment's path without suffix."""
        self._files = files
        self.segment_path = path
        self.index: AbortedIndex | None = None
        """The aborted transactions; None if there are none, and no file."""
        self.is_unsynced = False
        """True if the file was written since it was last on stable storage."""

    @property
    def _path(self) -> str:
        return self.segment_path + ABORTED_INDEX

    def load(self, base_offset: int, next_offset: int | None) -> bool:
        """Read the file; return False, with no entries, if it is damaged.

        The segment's offsets begin at `base_offset` and end before `next_offset`, if that is known.
        """
        data = self._files.read_small(self._path)
        found = AbortedIndex.decode(data or b"", base_offset, next_offset)
        self.index = AbortedIndex() if found is None else found
        return found is not None

    def note(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose abort marker was appended to the segment, or found in it."""
        if self.index is None:
            self.index = AbortedIndex()
        self.index.add(aborted)

    def forget(self) -> None:
        """Forget all entries, because they are about to be rebuilt from the batches."""
        if self.index is not None:
            # The index stays, because there is a file, which must be written anew.
            self.index = AbortedIndex()

    def truncate_to(self, offset: int) -> None:
        """Forget transactions whose marker is at `offset` or later."""
        if self.index is not None:
            self.index.truncate_to(offset)

    def save(self) -> None:
        """Write the file, unless it is up to date."""
        if self.index is not None and not self.index.is_saved:
            self._files.replace_small(self._path, self.index.encode())
            self.index.is_saved = self.is_unsynced = True

    def mend(self) -> bool:
        """Write the file again if its bytes have changed on disk; return True if they had.

        The file has no checksum, and records of a transaction missing from it would be read as
        committed.
        """
        if self.index is None or not self.index.is_saved:
            return False
        if self._files.read_small(self._path) == self.index.encode():
            return False
        self.index.is_saved = False
        self.save()
        return True

    def remove(self) -> None:
        """Delete the file, if there is one."""
        if self.index is not None:
            self._files.remove(self._path)
