"""The simulated disk of one host: what programs see (the page cache) and what is stable.

A killed process loses nothing that it wrote. A power loss loses what was not synced: any of the
sectors, and the newest changes of names. Implements runtime.fs.FileSystem for one process.
"""

import asyncio
import errno
import os
import posixpath
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from minikafka.runtime.fs import LockHeld

from .loop import Process, SimLoop
from .trace import Trace

SECTOR = 512
Buffer = bytes | bytearray | memoryview


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class FileNode:
    """A file: its bytes in the page cache and on the platter, and the sectors that differ."""

    def __init__(self) -> None:
        self.cache = bytearray()
        self.stable = bytearray()
        self.dirty: dict[int, None] = {}
        self.cut_at: int | None = None
        """The size to which the file was cut since the last sync: a power loss may undo the cut."""
        self.is_cold = False
        """True if the page cache has dropped the file, so that the next read goes to the disk."""
        self.lied_to: Process | None = None
        """The process that got an error from a sync, whose data looks written and is not."""

    @property
    def looks_better(self) -> bool:
        """True if programs see bytes that are not stable and that no later sync will write."""
        if self.cut_at is not None:
            return False
        return any(
            sector not in self.dirty
            and self.cache[sector * SECTOR : (sector + 1) * SECTOR]
            != self.stable[sector * SECTOR : (sector + 1) * SECTOR]
            for sector in range(-(-len(self.cache) // SECTOR))
        )

    def write(self, data: Buffer, offset: int) -> None:
        end = offset + len(data)
        if offset > len(self.cache):
            self.cache.extend(bytes(offset - len(self.cache)))
        self.cache[offset:end] = data
        for sector in range(offset // SECTOR, (end + SECTOR - 1) // SECTOR):
            self.dirty[sector] = None

    def truncate(self, size: int) -> None:
        before = len(self.cache)
        if size < before:
            del self.cache[size:]
            if size < len(self.stable):
                self.cut_at = size if self.cut_at is None else min(self.cut_at, size)
        else:
            self.cache.extend(bytes(size - before))
        for sector in range(min(size, before) // SECTOR, -(-max(size, before) // SECTOR)):
            self.dirty[sector] = None

    def commit(self, sectors: list[int]) -> None:
        """Make these sectors, as the cache has them now, and the size stable."""
        size = len(self.cache)
        # What was cut off never comes back beside newer bytes: those are in other blocks.
        del self.stable[size if self.cut_at is None else self.cut_at :]
        self.stable.extend(bytes(size - len(self.stable)))
        for sector in sectors:
            start = sector * SECTOR
            if start < size:
                self.stable[start : min(start + SECTOR, size)] = self.cache[start : start + SECTOR]
            self.dirty.pop(sector, None)
        self.cut_at = None

    def lose_power(self, rng: random.Random) -> None:
        """Keep some of the sectors that were not synced, and lose the others."""
        sectors = sorted(self.dirty)
        fate = rng.choice(("none", "all", "prefix", "scattered")) if sectors else "none"
        cut_lost = self.cut_at is not None and rng.random() < 0.5
        if fate != "none" and not cut_lost:
            kept = {
                "all": sectors,
                "prefix": sectors[: rng.randint(0, len(sectors))],
                "scattered": [sector for sector in sectors if rng.random() < 0.5],
            }[fate]
            smallest = min(len(self.stable), len(self.cache))
            self.commit(kept)
            if fate != "all":
                # The size, too, is a change that may not have arrived.
                end = min((max(kept, default=-1) + 1) * SECTOR, len(self.cache))
                del self.stable[rng.choice((len(self.cache), max(smallest, end))) :]
        self.cache = bytearray(self.stable)
        self.dirty.clear()
        self.cut_at = None


Change = tuple[str, "FileNode | DirectoryNode | None"]


class DirectoryNode:
    """A directory's names as programs see them, as they are stable, and the changes in between."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.stable: dict[str, Node] = {}
        self.pending: list[tuple[Change, ...]] = []
        self.version = 0
        """A number that changes with each change of `entries`."""

    def change(self, *changes: Change) -> None:
        """Set names, or remove those with node None; a power loss keeps all changes or none."""
        _apply(self.entries, changes)
        self.version += 1
        self.pending.append(changes)

    def commit(self, count: int) -> None:
        for changes in self.pending[:count]:
            _apply(self.stable, changes)
        self.version += 1
        del self.pending[:count]

    def lose_power(self, rng: random.Random) -> None:
        if self.pending:
            self.commit(rng.choice((0, len(self.pending), rng.randint(0, len(self.pending)))))
        self.pending.clear()
        self.entries = dict(self.stable)
        self.version += 1
        for node in self.entries.values():
            node.lose_power(rng)


Node = FileNode | DirectoryNode


def _apply(names: dict[str, Node], changes: Sequence[Change]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _works(path: str) -> int | None:
    """Return no error: the hook of a healthy disk."""
    return None


class Disk:
    """The tree of one host, and the faults of its hardware."""

    def __init__(self, loop: SimLoop, rng: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.root = DirectoryNode()
        self.locks: dict[str, object] = {}
        self.capacity = 1 << 40
        self.cold_chance = 0.01
        self.short_chance = 0.01
        self.slow_sync_chance = 0.02
        self.slow_sync_seconds = 0.1
        self.fail_write: Callable[[str], int | None] = _works
        self.fail_read: Callable[[str], int | None] = _works
        self.fail_sync: Callable[[str], int | None] = _works
        """The hooks for faults: each is given a path and returns an errno or None."""
        self.on_kill: Callable[[Process], None] = lambda process: None
        self.has_lied = False
        """True if a sync has failed: its data looks written, and is not (fsyncgate)."""
        self.on_believed: Callable[[str, str], None] = lambda process, path: None
        """Called if a sync succeeds for a process whose earlier sync of the same data has failed.
        """

    def mend(self) -> None:
        self.capacity = 1 << 40
        self.slow_sync_chance, self.slow_sync_seconds = 0.02, 0.1
        self.fail_write = self.fail_read = self.fail_sync = _works

    def lose_power(self) -> None:
        self.root.lose_power(self.rng)
        self.locks.clear()

    def find(self, path: str) -> "FileNode | DirectoryNode | None":
        """Return what programs see at a path, or None."""
        node: Node | None = self.root
        for part in path.split("/"):
            if part:
                node = node.entries.get(part) if isinstance(node, DirectoryNode) else None
        return node

    def put(self, path: str, data: bytes) -> None:
        """Write a file as an operator would, who waits until it is stable."""
        node = self.root
        *above, name = [part for part in path.split("/") if part]
        for part in above:
            child = node.entries.setdefault(part, DirectoryNode())
            assert isinstance(child, DirectoryNode)
            node.stable[part] = node = child
        file = FileNode()
        file.cache, file.stable = bytearray(data), bytearray(data)
        node.entries[name] = node.stable[name] = file
        node.version += 1

    def rot(self, path: str, position: int, bits: int = 0x10) -> None:
        """Flip bits of one byte on the platter, and in the cache as if it had been read anew."""
        node: Any = self.root
        for part in posixpath.normpath("/" + path).split("/"):
            if part:
                node = node.entries[part]
        node.cache[position] ^= bits
        if position < len(node.stable):
            node.stable[position] ^= bits

    @property
    def is_failing(self) -> bool:
        return self.capacity < 1 << 40 or any(
            hook is not _works for hook in (self.fail_write, self.fail_read, self.fail_sync)
        )

    def used(self) -> int:
        def size(node: Node) -> int:
            if isinstance(node, FileNode):
                return len(node.cache)
            return sum(size(child) for child in node.entries.values())

        return size(self.root)

    def sync_delay(self) -> float:
        delay = 0.0002 + 0.002 * self.rng.random()
        if self.rng.random() < self.slow_sync_chance:
            delay += self.slow_sync_seconds * self.rng.random()
        return delay


class SimFileSystem:
    """A process's view of its host's disk, which a dead process cannot change any more."""

    def __init__(self, disk: Disk, process: Process) -> None:
        self.disk = disk
        self.process = process

    # -- lookup -----------------------------------------------------------------------------

    def _find(self, path: str) -> Node | None:
        node: Node = self.disk.root
        for part in posixpath.normpath("/" + path).split("/"):
            if part:
                if not isinstance(node, DirectoryNode):
                    return None
                child = node.entries.get(part)
                if child is None:
                    return None
                node = child
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, DirectoryNode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _split(self, path: str) -> tuple[DirectoryNode, str]:
        parent, name = posixpath.split(posixpath.normpath("/" + path))
        return self._directory(parent), name

    def _may_change(self, path: str) -> bool:
        """Return False if the process has died; count the operation towards a planned death."""
        process = self.process
        if not process.alive:
            return False
        if process.die_at_disk_operation is not None:
            process.die_at_disk_operation -= 1
            if process.die_at_disk_operation <= 0:
                self.disk.on_kill(process)
                return False
        code = self.disk.fail_write(path)
        if code is not None:
            raise _error(code, path)
        return True

    # -- FileSystem -------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, write: bool = False) -> "SimFile":
        node = self._find(path)
        if node is None:
            parent, name = self._split(path)
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = FileNode()
            if self._may_change(path):
                parent.change((name, node))
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimFile(self, node, path, writable=create or write)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def listdir(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def mkdir(self, path: str) -> None:
        node = self.disk.root
        for part in posixpath.normpath("/" + path).split("/"):
            if not part:
                continue
            child = node.entries.get(part)
            if child is None:
                if not self._may_change(path):
                    return
                child = DirectoryNode()
                node.change((part, child))
            if not isinstance(child, DirectoryNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            node = child

    def rename(self, source: str, target: str) -> None:
        old_parent, old_name = self._split(source)
        new_parent, new_name = self._split(target)
        node = old_parent.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        replaced = new_parent.entries.get(new_name)
        if isinstance(replaced, DirectoryNode) and replaced.entries:
            raise _error(errno.ENOTEMPTY, target)
        if self._may_change(target):
            if old_parent is new_parent:
                old_parent.change((old_name, None), (new_name, node))
            else:
                new_parent.change((new_name, node))
                old_parent.change((old_name, None))

    def remove(self, path: str) -> None:
        parent, name = self._split(path)
        node = parent.entries.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if self._may_change(path):
            parent.change((name, None))

    def remove_tree(self, path: str) -> None:
        self._directory(path)
        parent, name = self._split(path)
        if self._may_change(path):
            parent.change((name, None))

    async def fsync_dir(self, path: str) -> None:
        node = self._directory(path)
        count = len(node.pending)
        await self._after_sync(path, self.disk.fail_sync(path), lambda: node.commit(count))

    def fsync_dir_wait(self, path: str) -> None:
        node = self._directory(path)
        code = self.disk.fail_sync(path)
        if code is not None:
            raise _error(code, path)
        if self.process.alive:
            node.commit(len(node.pending))

    def lock(self, path: str) -> "SimLock":
        self.open(path, create=True)
        key = posixpath.normpath("/" + path)
        if key in self.disk.locks:
            raise LockHeld(errno.EWOULDBLOCK, "locked by another process", path)
        return SimLock(self.disk, self.process, key)

    def permissions(self, path: str) -> int:
        if self._find(path) is None:
            raise _error(errno.ENOENT, path)
        return 0o640

    def space(self, path: str) -> tuple[int, int]:
        return self.disk.capacity, max(0, self.disk.capacity - self.disk.used())

    async def _after_sync(self, path: str, code: int | None, commit: Callable[[], None]) -> None:
        loop, disk = self.disk.loop, self.disk
        done: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not self.process.host.up:
                return
            if code is None:
                commit()
            if not done.done():
                if code is None:
                    done.set_result(None)
                else:
                    done.set_exception(_error(code, path))

        disk.trace.note(4, len(path))
        loop.call_at(loop.time() + disk.sync_delay(), finish, context=loop.kernel)
        await done


class SimLock:
    def __init__(self, disk: Disk, process: Process, key: str) -> None:
        self._disk = disk
        self._key = key
        self._process = process
        disk.locks[key] = self
        self._resource = process.acquire(self._free)

    def _free(self) -> None:
        if self._disk.locks.get(self._key) is self:
            del self._disk.locks[self._key]

    def release(self) -> None:
        if self._process.alive:
            self._free()
            self._process.release(self._resource)


class SimFile:
    def __init__(self, fs: SimFileSystem, node: FileNode, path: str, *, writable: bool) -> None:
        self._fs = fs
        self._disk = fs.disk
        self._node = node
        self._path = path
        self._writable = writable
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise _error(errno.EBADF, self._path)

    def pwritev(self, buffers: Sequence[Buffer], offset: int) -> int:
        self._check_open()
        if not self._writable:
            raise _error(errno.EBADF, self._path)
        if len(buffers) > 1024:
            raise _error(errno.EINVAL, self._path)
        disk, process = self._disk, self._fs.process
        data = b"".join(buffers)
        alive = process.alive
        if not self._fs._may_change(self._path):
            if alive and data:
                # The process died inside this call: any part of it was done.
                self._node.write(data[: disk.rng.randint(0, len(data))], offset)
            return len(data)
        growth = offset + len(data) - len(self._node.cache)
        if disk.capacity < 1 << 40 and growth > 0:
            room = disk.capacity - disk.used()
            if room <= 0:
                raise _error(errno.ENOSPC, self._path)
            data = data[: max(1, len(data) - max(0, growth - room))]
        if len(data) > 1 and disk.rng.random() < disk.short_chance:
            data = data[: disk.rng.randint(1, len(data))]
        self._node.write(data, offset)
        disk.trace.note(5, offset, zlib.crc32(data))
        return len(data)

    def _read(self, buffer: bytearray | memoryview, offset: int) -> int:
        self._check_open()
        code = self._disk.fail_read(self._path)
        if code is not None:
            raise _error(code, self._path)
        view = memoryview(buffer)
        data = memoryview(self._node.cache)[offset : offset + len(view)]
        view[: len(data)] = data
        return len(data)

    def preadv(self, buffer: bytearray | memoryview, offset: int) -> int:
        disk = self._disk
        dice = disk.rng.random()
        if (dice < disk.cold_chance or self._node.is_cold) and len(buffer):
            raise BlockingIOError(errno.EAGAIN, "cold", self._path)
        if dice < disk.cold_chance + disk.short_chance and len(buffer) > 1:
            return self._read(memoryview(buffer)[: disk.rng.randint(1, len(buffer))], offset)
        return self._read(buffer, offset)

    def preadv_wait(self, buffer: bytearray | memoryview, offset: int) -> int:
        self._node.is_cold = False
        return self._read(buffer, offset)

    async def preadv_cold(self, buffer: bytearray | memoryview, offset: int) -> int:
        self._check_open()
        loop = self._disk.loop
        done: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        delay = 0.0005 + 0.01 * self._disk.rng.random()
        loop.call_at(loop.time() + delay, finish, context=loop.kernel)
        await done
        self._node.is_cold = False
        # As with a duplicated descriptor: a file closed meanwhile is still read.
        closed, self._closed = self._closed, False
        try:
            return self._read(buffer, offset)
        finally:
            self._closed = closed

    async def preadv_disk(self, buffer: bytearray | memoryview, offset: int) -> int:
        return await self.preadv_cold(buffer, offset)

    def truncate(self, size: int) -> None:
        self._check_open()
        if self._fs._may_change(self._path):
            self._node.truncate(size)
            self._disk.trace.note(6, size)

    def size(self) -> int:
        self._check_open()
        return len(self._node.cache)

    async def fdatasync(self) -> None:
        self._check_open()
        node = self._node
        sectors, was_told = list(node.dirty), self._was_told
        code = self._disk.fail_sync(self._path)
        if code is not None:
            self._lose_dirty()
        try:
            await self._fs._after_sync(self._path, code, lambda: self._commit(sectors, was_told))
        except OSError:
            node.lied_to = self._fs.process
            raise

    def fdatasync_wait(self) -> None:
        self._check_open()
        code = self._disk.fail_sync(self._path)
        if code is not None:
            self._lose_dirty()
            self._node.lied_to = self._fs.process
            raise _error(code, self._path)
        if self._fs.process.alive:
            self._commit(list(self._node.dirty), self._was_told)

    @property
    def _was_told(self) -> bool:
        return self._node.lied_to is self._fs.process

    def _lose_dirty(self) -> None:
        # As Linux does: after a failed sync the pages count as clean, and are lost.
        self._node.dirty.clear()
        self._disk.has_lied = True

    def _commit(self, sectors: list[int], was_told: bool) -> None:
        self._node.commit(sectors)
        if was_told and self._node.looks_better:
            self._disk.on_believed(self._fs.process.name, self._path)

    def close(self) -> None:
        self._closed = True


def read_all(disk: Disk, path: str) -> bytes:
    """Return, for observers, the bytes of a file as programs see them."""
    node: Any = disk.root
    for part in posixpath.normpath("/" + path).split("/"):
        if part:
            node = node.entries[part]
    return bytes(node.cache)


def names_in(disk: Disk, path: str) -> list[str]:
    """Return, for observers, the names in a directory, sorted; none if it does not exist."""
    node: Any = disk.root
    for part in posixpath.normpath("/" + path).split("/"):
        if part:
            node = node.entries.get(part, DirectoryNode())
    return sorted(node.entries)
