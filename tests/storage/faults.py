"""The real file system, with a fault where a test wants one.

Every call that changes something is numbered. A `Fault` says at which number what happens: the
process dies, before or after part of a write, or the call fails with an error of the disk. After
a power cut, what was not synced is lost in part: see `cut_power`.
"""

import errno
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from minikafka.runtime.descriptors import SpareDescriptors
from minikafka.runtime.fs import Buffer, DiskThreads, Lock, OsFile, OsFileSystem


class Killed(BaseException):
    """The process is gone: no handler of the code under test may go on."""


@dataclass
class Fault:
    at: int
    """Number of the call it strikes."""
    error: int | None = None
    """The errno of the failing call; None if the process dies instead."""
    written: float = 0.0
    """The share of a write that reaches the file before the fault."""
    only: str = ""
    """Count only calls of this kind: write, fdatasync, rename ..."""
    lasts: bool = False
    """Every call from this one on fails."""
    under: str = ""
    """Count only calls on paths that begin with this."""

    def concerns(self, kind: str, path: str) -> bool:
        return self.only in ("", kind) and path.startswith(self.under)


class FaultyFile(OsFile):
    __slots__ = ("_fs", "_path")

    def __init__(self, fs: "FaultyFs", path: str, descriptor: int, threads: DiskThreads) -> None:
        super().__init__(descriptor, threads, SpareDescriptors(0))
        self._fs = fs
        self._path = path

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(bytes(buffer) for buffer in buffers)
        share = self._fs.strike("write", self._path)
        if share is not None:
            part = data[: int(len(data) * share)]
            if part:
                super().pwritev([part], offset)
            self._fs.fail()
        return super().pwritev(buffers, offset)

    async def preadv_cold(self, buffer: bytearray | memoryview, offset: int) -> int:
        return self.preadv_wait(buffer, offset)

    async def preadv_disk(self, buffer: bytearray | memoryview, offset: int) -> int:
        return self.preadv_wait(buffer, offset)

    def truncate(self, size: int) -> None:
        self._fs.change("truncate", self._path)
        super().truncate(size)

    async def fdatasync(self) -> None:
        self.fdatasync_wait()

    def fdatasync_wait(self) -> None:
        self._fs.change("fdatasync", self._path)
        self._fs.synced[self._path] = self.size()


class FaultyFs(OsFileSystem):
    """A file system in which `fault` happens once; none without it."""

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.calls: list[tuple[str, str]] = []
        """Every change so far: kind and path."""
        self.synced: dict[str, int] = {}
        """Size of each file when it was last synced."""
        self._is_dead = False

    def strike(self, kind: str, path: str) -> float | None:
        """Count a call; how much of it still happens if the fault is here."""
        fault = self.fault
        if self._is_dead:
            raise Killed
        self.calls.append((kind, path))
        if fault is None or not fault.concerns(kind, path):
            return None
        number = sum(1 for call in self.calls if fault.concerns(*call)) - 1
        is_here = number >= fault.at if fault.lasts else number == fault.at
        return fault.written if is_here else None

    def fail(self) -> None:
        assert self.fault is not None
        if self.fault.error is None:
            self._is_dead = True
            raise Killed
        raise OSError(self.fault.error, os.strerror(self.fault.error))

    def change(self, kind: str, path: str) -> None:
        if self.strike(kind, path) is not None:
            self.fail()

    def open(self, path: str, *, create: bool = False, write: bool = False) -> OsFile:
        if create and not os.path.exists(path):
            self.change("create", path)
        flags = os.O_RDWR if create or write else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        return FaultyFile(self, path, descriptor, self._threads)

    def mkdir(self, path: str) -> None:
        if not os.path.exists(path):
            self.change("mkdir", path)
        super().mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.change("rename", target)
        super().rename(source, target)
        if source in self.synced:
            self.synced[target] = self.synced.pop(source)
        else:
            self.synced.pop(target, None)

    def remove(self, path: str) -> None:
        if os.path.exists(path):
            self.change("remove", path)
            self.synced.pop(path, None)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.change("remove", path)
        super().remove_tree(path)

    async def fsync_dir(self, path: str) -> None:
        self.fsync_dir_wait(path)

    def fsync_dir_wait(self, path: str) -> None:
        self.change("fsync_dir", path)

    def lock(self, path: str) -> Lock:  # type: ignore[override]
        return super().lock(path)

    def cut_power(self, directory: str, rng: random.Random) -> None:
        """Lose, in every file, a random part of what was appended since it was last synced.

        What is lost is missing, or zeros, or both.
        """
        for folder, _, names in sorted(os.walk(directory)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                size = os.path.getsize(path)
                safe = min(self.synced.get(path, 0), size)
                if safe == size:
                    continue
                kept = rng.randint(safe, size)
                zeroed = rng.randint(safe, kept)
                with open(path, "r+b") as file:
                    file.truncate(zeroed)
                    if rng.random() < 0.5:
                        file.truncate(kept)


ENOSPC, EIO = errno.ENOSPC, errno.EIO
