"""Reads a replica's log from the simulated disk, without any of the product's code."""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from .disk import DirectoryNode, Disk, FileNode

HEADER_BYTES = 61
_HEADER = struct.Struct(">qiibIhi8xqq")
"""Base offset, batch length, leader epoch, magic, CRC, attributes, last offset delta, newest
timestamp, producer."""


class RawBatch(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int
    checksum: int
    """The checksum of every byte of the batch."""
    attributes: int = 0
    producer_id: int = -1
    max_timestamp: int = -1

    @property
    def opens(self) -> bool:
        """True if the batch is in a transaction, so that its producer's next marker decides it."""
        return self.attributes & 0x30 == 0x10

    @property
    def ends(self) -> bool:
        """True if the batch is the marker of a transaction's end."""
        return bool(self.attributes & 0x20) and self.producer_id >= 0


def batch_at(data: bytearray, position: int) -> tuple[int, RawBatch] | None:
    """Return the batch at the position and its size in bytes; None if it is not whole."""
    if position + HEADER_BYTES > len(data):
        return None
    fields = _HEADER.unpack_from(data, position)
    base, length, epoch, _, _, attributes, delta, newest, producer_id = fields
    size = 12 + length
    if length < HEADER_BYTES - 12 or position + size > len(data):
        return None
    with memoryview(data) as view:
        checksum = zlib.crc32(view[position : position + size])
    batch = RawBatch(base, base + delta + 1, epoch, checksum, attributes, producer_id, newest)
    return size, batch


def placed_batches(data: bytearray) -> Iterator[tuple[int, int, RawBatch]]:
    """Yield the position, the size and the value of every whole batch of a file."""
    position = 0
    while (found := batch_at(data, position)) is not None:
        yield position, *found
        position += found[0]


class LogCursor:
    """Walks forward through the batches of one partition directory of one disk."""

    def __init__(self, disk: Disk, path: str, *, stable: bool = False) -> None:
        """With `stable`, read what a power loss leaves for sure, instead of what programs see."""
        self._disk = disk
        self._stable = stable
        self._path = [part for part in path.split("/") if part]
        self.offset = -1
        """The offset at which the next batch is expected; -1 before the first."""
        self._segment = -1
        self._position = 0
        self._directory: DirectoryNode | None = None
        self._version = -1
        self._known: dict[int, FileNode] = {}

    def _segments(self) -> dict[int, FileNode]:
        directory = self._find()
        if directory is not self._directory:
            # Another one is there now: its log begins at its beginning.
            self._directory, self._version = directory, -1
            self.offset = self._segment = -1
        if directory is None:
            return {}
        if directory.version != self._version:
            self._known = self._list(directory)
            self._version = directory.version
        return self._known

    def _find(self) -> DirectoryNode | None:
        node: DirectoryNode | FileNode | None = self._disk.root
        for part in self._path:
            if not isinstance(node, DirectoryNode):
                return None
            node = (node.stable if self._stable else node.entries).get(part)
        return node if isinstance(node, DirectoryNode) else None

    @property
    def has_ended(self) -> bool:
        """True if the directory was moved or removed since it was read."""
        return self._directory is not None and self._find() is not self._directory

    def _list(self, directory: DirectoryNode) -> dict[int, FileNode]:
        entries = directory.stable if self._stable else directory.entries
        found = {
            int(name[:-4]): child
            for name, child in entries.items()
            if name.endswith(".log") and isinstance(child, FileNode)
        }
        return dict(sorted(found.items()))

    @property
    def begins_at(self) -> int:
        """The base offset of the first segment; 0 if there is none."""
        return min(self._segments(), default=0)

    def up_to(self, end: int) -> Iterator[RawBatch]:
        """Yield the next batches that begin below `end`; stop early if the log ends before."""
        segments = self._segments()
        if self._segment not in segments:
            if not segments:
                return
            self._segment, self._position = min(segments), 0
            # What retention has deleted is not there to be walked through.
            self.offset = max(self.offset, self._segment)
        while max(self.offset, 0) < end:
            segment = segments[self._segment]
            cache = segment.stable if self._stable else segment.cache
            if self._position + HEADER_BYTES > len(cache):
                later = [base for base in segments if base > self._segment]
                if not later:
                    return
                self._segment, self._position = later[0], 0
                continue
            found = batch_at(cache, self._position)
            if found is None:
                return
            size, batch = found
            self._position += size
            self.offset = batch.next_offset
            yield batch
