"""Disks of single nodes: one that can be full, one that can lose its page cache."""

import contextlib
import fcntl
import os
import struct
from pathlib import Path

from .network import run

GOING_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN: the file system stops at once, as if the power went."""
WITHOUT_FLUSHING = 2


class SmallDisk:
    """A file system in memory with a limited size: writes beyond it fail with ENOSPC."""

    def __init__(self, where: Path, size: str = "64m") -> None:
        where.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(where))
        self.where = where
        self._ballast = where / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        fd = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while os.write(fd, bytes(size)):
                        pass
        finally:
            os.close(fd)

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()

    def close(self) -> None:
        """Unmount the disk; processes that still use it may go on until they end."""
        run("umount", "-l", str(self.where))


class LoopDisk:
    """An ext4 file system in a file, which does not write back by itself for ten minutes.

    `lose_power` forgets what was not synced: data, files, renames. Whoever writes must be dead
    before: a live writer races with the ioctl, and then has been told of a sync that is not there.
    """

    def __init__(self, where: Path, image: Path, size: str = "256M") -> None:
        where.mkdir(parents=True)
        run("truncate", "-s", size, str(image))
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(image))
        self.where = where
        self._image = image
        self._mount()

    def lose_power(self) -> None:
        """Forget the page cache, and come back as a machine does that was switched on again."""
        fd = os.open(self.where, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, GOING_DOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(fd)
        run("umount", str(self.where))
        self._mount()

    def close(self) -> None:
        """Take it away."""
        run("umount", "-l", str(self.where))

    def _mount(self) -> None:
        run("mount", "-o", "loop,commit=600", str(self._image), str(self.where))


Disk = SmallDisk | LoopDisk
