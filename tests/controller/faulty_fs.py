"""The real file system, whose operations a test can stop, count and let fail."""

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

from minikafka.runtime.fs import OsFileSystem
from minikafka.runtime.runtime import SystemRuntime


class FaultyFile:
    def __init__(self, disk: "FaultyDisk", path: str, file: Any) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def pwritev(self, buffers: Sequence[Any], offset: int) -> int:
        fails = self._disk.write_error and self._path.endswith(".log")
        if fails and self._disk.writes_before_error:
            self._disk.writes_before_error -= 1
            fails = 0
        if fails and not self._disk.writes_first:
            raise OSError(self._disk.write_error, "planted")
        written: int = self._file.pwritev(buffers, offset)
        if fails:
            raise OSError(self._disk.write_error, "planted")
        return written

    async def fdatasync(self) -> None:
        if self._path.endswith(".log"):
            self._disk.sync_count += 1
            await self._disk.is_running.wait()
            if self._disk.sync_error:
                raise OSError(self._disk.sync_error, "planted")
        await self._file.fdatasync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class FaultyDisk(OsFileSystem):
    def __init__(self) -> None:
        super().__init__()
        self.is_running = asyncio.Event()
        self.is_running.set()
        self.sync_count = 0
        self.write_error = 0
        self.writes_before_error = 0
        self.writes_first = False
        """True if the bytes are written although the error is reported."""
        self.sync_error = 0

    def open(self, path: str, *, create: bool = False, write: bool = False) -> Any:
        return FaultyFile(self, path, super().open(path, create=create, write=write))

    def fill(self) -> None:
        self.write_error = errno.ENOSPC


def runtime_on(disk: FaultyDisk, crashes: list[str]) -> SystemRuntime:
    runtime = SystemRuntime("test", on_crash=lambda task, error: crashes.append(f"{task} {error}"))
    runtime.fs.close()
    runtime.fs = disk
    return runtime
