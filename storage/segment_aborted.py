"""A segment's file together with its index of aborted transactions: noted, saved, mended.

Nothing here knows what a batch is, or which transactions are open.
"""

from .aborted import AbortedIndex, AbortedTransaction
from .files import ABORTED_INDEX, Files
from .segment_file import SegmentFile


class SegmentWithAborted(SegmentFile):
    """The file of a segment, and which transactions end in it without counting."""

    __slots__ = ("aborted", "has_unsynced_indexes")

    def __init__(self, files: Files, path: str) -> None:
        """`path` without suffix."""
        super().__init__(files, path)
        self.aborted: AbortedIndex | None = None
        """Transactions whose abort is marked here. None: there are none, and no file of them."""
        self.has_unsynced_indexes = False
        """The index files were written since they were last on stable storage."""

    def remove(self) -> None:
        """Delete the files: the log first, for an index without one means nothing."""
        super().remove()
        if self.aborted is not None:
            self._files.remove(self.path + ABORTED_INDEX)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """The marker of an aborted transaction was appended here, or found."""
        if self.aborted is None:
            self.aborted = AbortedIndex()
        self.aborted.add(aborted)

    def forget_aborted(self) -> None:
        """Aborted transactions are about to be learnt from the batches."""
        if self.aborted is not None:
            # Not None: there is a file, which must be written anew.
            self.aborted = AbortedIndex()

    def save_aborted(self) -> None:
        """Write the index, unless it is up to date."""
        if self.aborted is not None and not self.aborted.is_saved:
            self._files.replace_small(self.path + ABORTED_INDEX, self.aborted.encode())
            self.aborted.is_saved = self.has_unsynced_indexes = True

    def mend_aborted(self) -> bool:
        """Write the index anew if the disk did not keep it; did it not?

        It has no checksum, and what it does not say any more would be read as committed.
        """
        if self.is_removed or self.aborted is None or not self.aborted.is_saved:
            return False
        if self._files.read_small(self.path + ABORTED_INDEX) == self.aborted.encode():
            return False
        self.aborted.is_saved = False
        self.save_aborted()
        return True
