"""The only system calls on files: a narrow interface that the simulator replaces.

Everything here raises `OSError`, which storage/files.py turns into `StorageError`. Reads and syncs
that may wait for the disk are awaitable and run in threads, except those named `_wait`. All other
calls run on the event loop; as a rule they need only what is in memory. Files are never mapped into
memory, because reading a mapping of a truncated file raises SIGBUS.
"""

# The protocols say what each method promises; their implementations do not repeat it.
# ruff: noqa: D102

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from .descriptors import SpareDescriptors

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

_RWF_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_DISK_THREADS = 4
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750
"""File modes: the daemon and its group may read the records; a stricter umask has precedence."""


class LockHeld(OSError):
    """The lock is held by another process or by another part of this one."""


class Lock(Protocol):
    """An exclusive lock on a path, until `release` or the end of the process."""

    def release(self) -> None:
        """Release the lock."""


class File(Protocol):
    """One open file, read and written at positions."""

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write at most 1,024 buffers and return the bytes written, which may be fewer."""

    def preadv(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Read what the page cache holds; return the bytes read.

        Raise BlockingIOError if the page cache lacks the first page.
        """

    def preadv_wait(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Read on the event loop, which waits for the disk: for start-up and small reads."""

    async def preadv_cold(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Read in a thread, through the page cache."""

    async def preadv_disk(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Read from the disk in a thread, and leave nothing of it in the page cache."""

    def truncate(self, size: int) -> None:
        """Cut the file to this size, or extend it with zeros."""

    def size(self) -> int:
        """Return the size of the file in bytes."""

    async def fdatasync(self) -> None:
        """Bring data and size to stable storage; an error means that they may be lost."""

    def fdatasync_wait(self) -> None:
        """Do `fdatasync` on the event loop, which waits for the disk."""

    def close(self) -> None:
        """Release the descriptor; a second call does nothing."""


class FileSystem(Protocol):
    """Opens files, and makes, lists, renames and removes names in directories."""

    def open(self, path: str, *, create: bool = False, write: bool = False) -> File:
        """Open a file; `create`, which implies `write`, makes it if it does not exist."""

    def exists(self, path: str) -> bool:
        """True if there is a file or directory of this name."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in the directory, sorted."""

    def mkdir(self, path: str) -> None:
        """Make the directory and its parents; it may exist already."""

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing a file of the target's name."""

    def remove(self, path: str) -> None:
        """Remove one file; raise FileNotFoundError if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""

    async def fsync_dir(self, path: str) -> None:
        """Bring the names made, renamed and removed in this directory to stable storage."""

    def fsync_dir_wait(self, path: str) -> None:
        """Do `fsync_dir` on the event loop, which waits for the disk."""

    def lock(self, path: str) -> Lock:
        """Lock the file, which is made if absent, exclusively; raise LockHeld if it is locked."""

    def permissions(self, path: str) -> int:
        """Return the permission bits of a file, as chmod sets them."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the file system with this path, and its free space, both in bytes."""


class DiskThreads:
    """The threads in which calls wait for the disk; they are made at first use."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[..., T], *args: object) -> T:
        """Run `call` in a thread. It runs to its end even if the caller is cancelled."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_DISK_THREADS, thread_name_prefix="disk")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        """Wait for running calls, then end the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class OsFile:
    """A file of the operating system, by its descriptor."""

    __slots__ = ("_descriptor", "_nowait", "_spare", "_threads")

    def __init__(self, descriptor: int, threads: DiskThreads, spare: SpareDescriptors) -> None:
        self._descriptor = descriptor
        self._spare = spare
        self._threads = threads
        self._nowait = _RWF_NOWAIT

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        return os.pwritev(self._descriptor, buffers, offset)

    def preadv(self, buffer: bytearray | memoryview, offset: int) -> int:
        try:
            return os.preadv(self._descriptor, [buffer], offset, self._nowait)
        except BlockingIOError:
            raise
        except OSError as error:
            # tmpfs and some network file systems know no NOWAIT: there, reading may wait.
            if self._nowait == 0 or error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._nowait = 0
            return os.preadv(self._descriptor, [buffer], offset)

    def preadv_wait(self, buffer: bytearray | memoryview, offset: int) -> int:
        return os.preadv(self._descriptor, [buffer], offset)

    async def preadv_cold(self, buffer: bytearray | memoryview, offset: int) -> int:
        return await self._on_a_copy(lambda fd: os.preadv(fd, [buffer], offset))

    async def preadv_disk(self, buffer: bytearray | memoryview, offset: int) -> int:
        size = len(buffer)

        def read(fd: int) -> int:
            # Dirty pages stay in the cache; all others are dropped, before and after the read.
            os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)
            count = os.preadv(fd, [buffer], offset)
            os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)
            return count

        return await self._on_a_copy(read)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    async def fdatasync(self) -> None:
        await self._on_a_copy(os.fdatasync)

    def fdatasync_wait(self) -> None:
        os.fdatasync(self._descriptor)

    async def _on_a_copy(self, call: Callable[[int], T]) -> T:
        # A descriptor closed while a thread still uses it may by then be another file's, so the
        # thread gets its own copy.
        copy = self._spare.call(os.dup, self._descriptor)

        def run() -> T:
            try:
                return call(copy)
            finally:
                os.close(copy)

        return await self._threads.run(run)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsLock:
    """An flock that is held through an open descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsFileSystem:
    """The file system of this machine."""

    def __init__(self) -> None:
        self._threads = DiskThreads()
        self._spare = SpareDescriptors()

    def __reduce__(self) -> tuple[type["OsFileSystem"], tuple[()]]:
        """Pickle as the same file system, which makes its own threads in a worker process."""
        return OsFileSystem, ()

    def open(self, path: str, *, create: bool = False, write: bool = False) -> OsFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if create or write else os.O_RDONLY)
        flags |= os.O_CREAT if create else 0
        descriptor = self._spare.call(os.open, path, flags, FILE_MODE)
        return OsFile(descriptor, self._threads, self._spare)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._spare.call(os.listdir, path))

    def mkdir(self, path: str) -> None:
        os.makedirs(path, DIRECTORY_MODE, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # slow to import, and most processes never delete a partition

        self._spare.call(shutil.rmtree, path)

    async def fsync_dir(self, path: str) -> None:
        await self._threads.run(self.fsync_dir_wait, path)

    def fsync_dir_wait(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self._spare.call(os.open, path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsLock:
        # Others who can write in the directory could have put a link there to somebody else's file.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            # flock, not POSIX locks: those do not exclude a second holder in one process and
            # end when any descriptor of the file is closed.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LockHeld(error.errno, "locked by another process", path) from None
            raise
        return OsLock(descriptor)

    def permissions(self, path: str) -> int:
        return os.stat(path).st_mode & 0o7777

    def space(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def close(self) -> None:
        """End the threads, and close the reserved descriptors."""
        self._threads.close()
        self._spare.close()
