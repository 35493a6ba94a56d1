"""The layout of a data directory, its open files, and the one place that handles `OSError`.

    <data directory>/
        .lock  meta.properties  .kafka_cleanshutdown  bootstrap of Kafka: not ours
        recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
        cleaner-offset-checkpoint
        <topic>-<partition>/
            partition.metadata  leader-epoch-checkpoint  offsets-have-gaps  forward-schedule
            <base offset, 20 digits>.log .index .timeindex .txnindex .snapshot

Any error of the file system fails the whole directory (`LogDirectoryFailed`): it is recorded and
reported once, and nothing under the directory is written again.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from ..protocol.types import Buffer
from ..runtime.errors import LogDirectoryFailed
from ..runtime.fs import File, FileSystem

if TYPE_CHECKING:
    from .flushing import FlushTimes

LOG, INDEX, TIME_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".snapshot"
ABORTED_INDEX = ".txnindex"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, ABORTED_INDEX)
TEMPORARY = ".tmp"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
GAPS = "offsets-have-gaps"
FORWARD_SCHEDULE = "forward-schedule"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
STRAY, DELETE = "-stray", "-delete"
FUTURE, MOVED = "-future", "-moved"

MAX_BUFFERS = 1024
"""The most buffers that one writev accepts (IOV_MAX)."""
DEFAULT_MAX_OPEN = 1000


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: 20 digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """Return the offset in a file's name, or None if the name has another suffix or form."""
    digits = name.removesuffix(suffix)
    return int(digits) if digits != name and digits.isdecimal() and len(digits) == 20 else None


class Evictable(Protocol):
    """An object that holds an open file and can open it again."""

    was_used: bool
    """Set by the owner at each use. `Files` clears it while it searches for a file to close."""

    def evict(self) -> None:
        """Close the file."""


class _Guard:
    """Turns an `OSError` in its block into the directory's failure."""

    __slots__ = ("_files",)

    def __init__(self, files: "Files") -> None:
        self._files = files

    def __enter__(self) -> None:
        if self._files.failure is not None:
            raise self._files.failure

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
            raise self._files.fail(error) from error


class Files:
    """The files of one data directory: opened when needed, closed when there are too many."""

    def __init__(self, fs: FileSystem, root: str, max_open: int = DEFAULT_MAX_OPEN) -> None:
        self.fs = fs
        self.root = root
        self.failure: LogDirectoryFailed | None = None
        """The error that failed the directory, for good: every further use of the directory raises
        it."""
        self.on_failed: Callable[[LogDirectoryFailed], None] | None = None
        """Called once, with the error, when the directory fails."""
        self.flush_times: FlushTimes | None = None
        """The durations of flushes of the directory's logs; None if nobody measures them."""
        self.guard = _Guard(self)
        self._max_open = max_open
        self._open: dict[Evictable, None] = {}

    def fail(self, error: OSError) -> LogDirectoryFailed:
        """Record that the directory has failed, and return the error to raise."""
        if self.failure is None:
            where = f" ({error.filename})" if error.filename else ""
            self.failure = LogDirectoryFailed(self.root, f"{error.strerror or error}{where}")
            if self.on_failed is not None:
                self.on_failed(self.failure)
        return self.failure

    # Open files. To close the least recently used without keeping an order at every use, a file
    # that was used gets a second chance.

    def open_for(self, owner: Evictable, path: str, *, create: bool = False) -> File:
        """Open `path` for reading and writing on behalf of `owner`.

        Too many open files make `Files` call the `evict` of some owner, which then closes its file.
        """
        while len(self._open) >= self._max_open:
            self._evict_one()
        with self.guard:
            file = self._open_file(path, create=create, write=True)
        self._open[owner] = None
        return file

    def closed(self, owner: Evictable) -> None:
        """Forget the open file of `owner`, which closes it itself."""
        self._open.pop(owner, None)

    def _open_file(self, path: str, *, create: bool = False, write: bool = False) -> File:
        """Open a file.

        If no file descriptor is left, first close half of the files that can be opened again. Too
        many open files are no failure of the disk.
        """
        try:
            return self.fs.open(path, create=create, write=write)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
        for _ in range(len(self._open) // 2 + 1):
            self._evict_one()
        return self.fs.open(path, create=create, write=write)

    def _evict_one(self) -> None:
        while True:
            oldest = next(iter(self._open))
            del self._open[oldest]
            if not oldest.was_used:
                oldest.evict()
                return
            oldest.was_used = False
            self._open[oldest] = None

    # Reading and writing.

    def write(self, file: File, buffers: Sequence[Buffer], position: int, size: int) -> None:
        """Write all buffers, `size` bytes together, at `position`.

        This is one system call per MAX_BUFFERS buffers, unless a write is short and must be
        resumed. Raise LogDirectoryFailed if the disk fails.
        """
        if self.failure is not None:
            raise self.failure
        try:
            if len(buffers) <= MAX_BUFFERS:
                written = file.pwritev(buffers, position)
                if written < size:
                    self._resume(file, buffers, position, written)
            else:
                done = 0
                for at in range(0, len(buffers), MAX_BUFFERS):
                    some = buffers[at : at + MAX_BUFFERS]
                    expected = sum(map(len, some))
                    written = file.pwritev(some, position + done)
                    if written < expected:
                        self._resume(file, some, position + done, written)
                    done += expected
        except OSError as error:
            raise self.fail(error) from error

    @staticmethod
    def _resume(file: File, buffers: Sequence[Buffer], position: int, written: int) -> None:
        while True:
            rest: list[Buffer] = []
            skip = written
            for buffer in buffers:
                if skip < len(buffer):
                    rest.append(memoryview(buffer)[skip:] if skip else buffer)
                    skip = 0
                else:
                    skip -= len(buffer)
            if not rest:
                return
            more = file.pwritev(rest, position + written)
            if more <= 0:
                raise OSError(errno.EIO, "a write made no progress")
            written += more

    def cut_back(self, file: File | None, size: int) -> None:
        """Truncate a file after a failed write; an error of the truncation is ignored."""
        if file is not None:
            with suppress(OSError):
                file.truncate(size)

    def truncate(self, file: File, size: int) -> None:
        """Truncate the file to `size` bytes."""
        with self.guard:
            file.truncate(size)

    def read_into(self, file: File, view: memoryview, position: int) -> int:
        """Fill `view`, waiting for the disk; fewer bytes only at the end of the file."""
        done = 0
        with self.guard:
            while done < len(view):
                count = file.preadv_wait(view[done:], position + done)
                if count <= 0:
                    break
                done += count
        return done

    def read_some(self, file: File, position: int, size: int) -> memoryview:
        """Read up to `size` bytes, waiting for the disk; fewer only at the end of the file."""
        view = memoryview(bytearray(size))
        return view[: self.read_into(file, view, position)]

    async def read_cold(self, file: File, view: memoryview, position: int) -> int:
        """Fill `view`, while other tasks go on; fewer bytes only at the end of the file."""
        done = 0
        with self.guard:
            while done < len(view):
                count = await file.preadv_cold(view[done:], position + done)
                if count <= 0:
                    break
                done += count
        return done

    def open_to_read(self, path: str) -> File:
        """Open a file, which the caller closes; raise LogDirectoryFailed if it is not there."""
        with self.guard:
            return self._open_file(path)

    def open_new(self, path: str) -> File:
        """Open an empty file for writing, which the caller closes."""
        with self.guard:
            return self._write_new(path, b"")

    # Small files, read and written whole.

    def read_small(self, path: str) -> bytes | None:
        """Return all bytes of a file, or None if there is none."""
        with self.guard:
            if not self.fs.exists(path):
                return None
            with closing(self._open_file(path)) as file:
                return bytes(self.read_some(file, 0, file.size()))

    def read_tail(self, path: str, entry: int) -> bytes | None:
        """Return the last entry of a file of entries; None if the file ends within an entry."""
        with self.guard, closing(self._open_file(path)) as file:
            size = file.size()
            if size % entry:
                return None
            return bytes(self.read_some(file, max(size - entry, 0), entry))

    def replace_small(self, path: str, data: bytes) -> None:
        """Replace a file atomically. The new file may not be on stable storage on return."""
        with self.guard:
            self._write_new(path + TEMPORARY, data).close()
            self.fs.rename(path + TEMPORARY, path)

    async def replace_durably(self, path: str, data: bytes) -> None:
        """Replace a file atomically. The new file is on stable storage on return."""
        await self.prepare(path, data)
        await self.put_in_place(path)

    async def prepare(self, path: str, data: bytes) -> None:
        """Do the first half of `replace_durably`: write and flush the new file beside the old."""
        with self.guard, closing(self._write_new(path + TEMPORARY, data)) as file:
            await file.fdatasync()

    async def put_in_place(self, path: str) -> None:
        """Do the second half of `replace_durably`: rename the new file and flush its directory."""
        with self.guard:
            self.fs.rename(path + TEMPORARY, path)
            await self.fs.fsync_dir(path.rpartition("/")[0])

    def replace_now(self, path: str, data: bytes) -> None:
        """Replace a file durably, synchronously: the event loop waits for the disk."""
        with self.guard:
            with closing(self._write_new(f"{path}.now{TEMPORARY}", data)) as file:
                file.fdatasync_wait()
            self.fs.rename(f"{path}.now{TEMPORARY}", path)
            self.fs.fsync_dir_wait(path.rpartition("/")[0])

    def _write_new(self, path: str, data: bytes) -> File:
        file = self._open_file(path, create=True, write=True)
        try:
            file.truncate(0)
            if data:
                self.write(file, [data], 0, len(data))
        except BaseException:
            file.close()
            raise
        return file

    def space(self) -> tuple[int, int]:
        """Return the size of the file system and its free space, both in bytes."""
        with self.guard:
            return self.fs.space(self.root)

    # Names.

    def exists(self, path: str) -> bool:
        """True if a file or directory of this name exists."""
        with self.guard:
            return self.fs.exists(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an empty list if there is no such directory."""
        with self.guard:
            return self.fs.listdir(path) if self.fs.exists(path) else []

    def make_directory(self, path: str) -> None:
        """Make a directory unless it exists."""
        with self.guard:
            self.fs.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory."""
        with self.guard:
            self.fs.rename(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with self.guard:
            try:
                self.fs.remove(path)
            except FileNotFoundError:
                return

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it, if it exists."""
        with self.guard:
            if self.fs.exists(path):
                self.fs.remove_tree(path)

    async def fsync_directory(self, path: str) -> None:
        """Bring the names that were made and removed in a directory to stable storage.

        A directory that does not exist is no error.
        """
        with self.guard:
            try:
                await self.fs.fsync_dir(path)
            except FileNotFoundError:
                return  # Moved away or deleted meanwhile, with all that was in it.

    async def fdatasync(self, file: File) -> None:
        """Bring the file's bytes to stable storage. An error is final: the bytes may be lost."""
        with self.guard:
            await file.fdatasync()

    async def fdatasync_named(self, path: str) -> None:
        """Do `fdatasync` for a file that is not open; do nothing if it does not exist."""
        with self.guard:
            if self.fs.exists(path):
                with closing(self._open_file(path, write=True)) as file:
                    await file.fdatasync()
