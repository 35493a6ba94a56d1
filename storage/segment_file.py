"""The file of one segment: opened when needed, and closed when too many files are open.

The object records from which position on all bytes were written by this process. log_reader.py
checks the bytes.
"""

from ..runtime.fs import File
from .files import LOG, Files


class SegmentFile:
    """A segment's file, which `Files` may close at any time; it is opened again when needed."""

    __slots__ = ("_file", "_files", "doubt_below", "is_removed", "path", "size", "was_used")

    def __init__(self, files: Files, path: str) -> None:
        """`path` is the file's path without its suffix."""
        self._files = files
        self.path = path
        self.size = 0
        self.is_removed = False
        self.doubt_below = 0
        """Bytes before this position may have been read from the disk, and are checked before use.
        All bytes from this position on were written by this process and have stayed in the page
        cache."""
        self._file: File | None = None
        self.was_used = False

    def create(self) -> None:
        """Make the file, or empty it."""
        self._file = self._files.open_for(self, self.path + LOG, create=True)
        self._files.truncate(self._file, 0)

    def file(self) -> File:
        """Return the file, after opening it if need be."""
        file = self._file
        if file is None:
            file = self._file = self._files.open_for(self, self.path + LOG)
        self.was_used = True
        return file

    def evict(self) -> None:
        """Close the file, and free memory whose contents can be read again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.forget()

    def forget(self) -> None:
        """Free memory whose contents can be read again, once the file is closed; for subclasses."""

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
        """Read into `view` the bytes in the page cache; raise BlockingIOError if there are none."""
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
        """Read up to `size` bytes, waiting for the disk; fewer only at the end of the file."""
        return self._files.read_some(self.file(), position, size)

    def read_wait(self, view: memoryview, position: int) -> int:
        """Fill `view`, waiting for the disk; fewer bytes only at the end of the file."""
        self.doubt_below = self.size
        return self._files.read_into(self.file(), view, position)

    async def read_cold(self, buffer: bytearray, position: int) -> int:
        """Read through the page cache, off the event loop; return the bytes read."""
        self.doubt_below = self.size
        with self._files.guard:
            return await self.file().preadv_cold(buffer, position)

    async def read_disk(self, buffer: bytearray, position: int) -> int:
        """Read from the disk itself, off the event loop, bypassing the page cache."""
        self.doubt_below = self.size
        with self._files.guard:
            return await self.file().preadv_disk(buffer, position)
