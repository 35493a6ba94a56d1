"""A file that is read as it grows, through rotation by renaming and through truncation.

It owns the open file and the position in it. It cuts no lines.
"""

import logging
import os
import select
import time
from collections.abc import Callable
from enum import Enum

log = logging.getLogger(__name__)


class Turn(Enum):
    """An event in place of bytes."""

    NEXT_FILE = "the file was rotated away and is read to its end; the next one begins"
    TRUNCATED = "the file has become shorter than what was read; it is read from its start"
    END = "nothing more will come"


class FollowedFile:
    """Reads a path from a position on; while no file is there, it waits for one."""

    def __init__(
        self,
        path: str,
        position: int = 0,
        inode: int | None = None,
        *,
        rotation_wait_ms: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Go on at `position`, in bytes, of the file with `inode`; None is the file at the path.

        A file that was renamed is still read until nothing was written for `rotation_wait_ms`.
        """
        self.path = path
        self.position = position
        self._inode = inode
        self._wait_s, self._now = rotation_wait_ms / 1000, now
        self._file: int | None = None
        self._quiet_since: float | None = None
        self._said_missing = False

    @property
    def inode(self) -> int | None:
        """The inode of the open file, or of the one that is to be gone on with."""
        return self._inode

    def read(self, most: int) -> bytes | Turn:
        """Return up to `most` bytes, b"" if there are none now, or what happened to the file."""
        if self._file is None and not self._open():
            return b""
        assert self._file is not None
        block = os.read(self._file, most)
        if block:
            self.position += len(block)
            self._quiet_since = None
            return block
        if os.fstat(self._file).st_size < self.position:
            log.warning("%s was truncated: it is read again from its start", self.path)
            os.lseek(self._file, 0, os.SEEK_SET)
            self.position = 0
            return Turn.TRUNCATED
        return Turn.NEXT_FILE if self._is_left() else b""

    def close(self) -> None:
        """Close the file; reading can go on later."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> bool:
        try:
            file = os.open(self._path_of_inode(), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not self._said_missing:
                log.warning("%s does not exist: waiting for it", self.path)
                self._said_missing = True
            return False
        there = os.fstat(file)
        if self._inode is not None and there.st_ino != self._inode:
            log.warning("%s is another file than before: it is read from its start", self.path)
            self.position = 0
        os.lseek(file, self.position, os.SEEK_SET)
        self._file, self._inode, self._said_missing = file, there.st_ino, False
        return True

    def _path_of_inode(self) -> str:
        """Return where the file with the known inode is now, as after a rotation; else the path."""
        if self._inode is None or _inode_at(self.path) == self._inode:
            return self.path
        folder = os.path.dirname(self.path) or "."
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.inode() == self._inode and entry.is_file(follow_symlinks=False):
                        log.info("%s was renamed to %s: its rest is read", self.path, entry.path)
                        return entry.path
        except OSError:
            return self.path
        return self.path

    def _is_left(self) -> bool:
        """Return True once another file is at the path and this one has been quiet for long enough.

        Whoever writes may go on with the old file for a while after it was renamed.
        """
        there = _inode_at(self.path)
        if there is None or there == self._inode:
            return False
        if self._quiet_since is None:
            self._quiet_since = self._now()
        if self._now() - self._quiet_since < self._wait_s:
            return False
        log.info("%s was rotated: the new file is read", self.path)
        self.close()
        self.position, self._inode, self._quiet_since = 0, None, None
        return True


def _inode_at(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


class Pipe:
    """A pipe or terminal, such as the standard input, read as bytes come."""

    inode: int | None = None

    def __init__(self, file: int) -> None:
        self.position = 0
        self._file = file
        self._is_at_end = False

    def read(self, most: int) -> bytes | Turn:
        """Return the bytes that are there now, b"" if there are none, or END, once."""
        if self._is_at_end or not select.select([self._file], [], [], 0)[0]:
            return b""
        block = os.read(self._file, most)
        self._is_at_end = not block
        self.position += len(block)
        return block or Turn.END

    def close(self) -> None:
        """Leave it open: it belongs to the process."""
