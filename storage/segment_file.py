"""The file of one segment: opened when needed, closed when there are too many, read in three ways.

Knows the position behind which only this process can have written. Never judges bytes:
log_reader.py does that.
"""

from ..runtime.fs import File
from .files import LOG, Files


class SegmentFile:
    """A file that `Files` may close at any time."""

    __slots__ = ("_file", "_files", "doubt_below", "is_removed", "path", "size", "was_used")

    def __init__(self, files: Files, path: str) -> None:
        """`path` is without suffix."""
        self._files = files
        self.path = path
        self.size = 0
        self.is_removed = False
        self.doubt_below = 0
        """Bytes before this position may have come back from the disk: they are judged before use.
        This process wrote everything behind it, and no read has found that cold since."""
        self._file: File | None = None
        self.was_used = False

    def create(self) -> None:
        """Make an empty file."""
        self._file = self._files.open_for(self, self.path + LOG, create=True)
        self._files.truncate(self._file, 0)

    def file(self) -> File:
        """Return the file, opened if need be."""
        file = self._file
        if file is None:
            file = self._file = self._files.open_for(self, self.path + LOG)
        self.was_used = True
        return file

    def evict(self) -> None:
        """Close the file, and forget what can be read again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.forget()

    def forget(self) -> None:
        """Forget the file after it was closed."""

    def close(self) -> None:
        """Close the file for good."""
        self._files.closed(self)
        self.evict()

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        self.is_removed = True
        self._files.remove(self.path + LOG)

    def read_warm(self, view: memoryview, position: int) -> int:
        """Read what the page cache holds; BlockingIOError if it holds nothing."""
        files = self._files
        if files.failure is not None:
            raise files.failure
        try:
            count = self.file().preadv(view, position)
        except BlockingIOError:
            self.doubt_below = self.size
            raise
        except OSError as error:
            raise files.fail(error) from error
        if count < len(view):
            self.doubt_below = self.size
        return count

    def read_some(self, position: int, size: int) -> memoryview:
        """Read as much of `size` bytes as there is, waiting for the disk."""
        return self._files.read_some(self.file(), position, size)

    def read_wait(self, view: memoryview, position: int) -> int:
        """Read, waiting for the disk."""
        self.doubt_below = self.size
        return self._files.read_into(self.file(), view, position)

    async def read_cold(self, buffer: bytearray, position: int) -> int:
        """Read through the page cache, off the loop."""
        self.doubt_below = self.size
        with self._files.guard:
            return await self.file().preadv_cold(buffer, position)

    async def read_disk(self, buffer: bytearray, position: int) -> int:
        """Read from the disk itself, off the loop, bypassing the page cache."""
        self.doubt_below = self.size
        with self._files.guard:
            return await self.file().preadv_disk(buffer, position)
