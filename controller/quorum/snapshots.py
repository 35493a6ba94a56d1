"""Snapshots of the metadata on disk, one file each.

    <end offset, 20 digits>-<epoch, 10 digits>.checkpoint      metadata batches, see batches.py

A file appears whole or not at all. The snapshot before the newest is kept for nodes that are still
reading it.
"""

import asyncio
import logging
from typing import Final

from ...protocol.control.batches import load_snapshot, snapshot_batches
from ...protocol.control.image import MetadataImage
from ...protocol.control.messages import SnapshotFetched, SnapshotId
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...runtime.errors import CorruptLog
from ...storage.files import Files

SUFFIX: Final = ".checkpoint"
DAMAGED: Final = ".damaged"
KEPT: Final = 2

log = logging.getLogger(__name__)


class Snapshots:
    """The snapshots in one directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        found = (_id_in(name) for name in files.names(directory))
        self._ids = sorted((each for each in found if each), key=lambda each: each.end_offset)
        self._open: tuple[SnapshotId, bytes] | None = None
        self._loaded: MetadataImage | None = None
        """The image that `set_damaged_aside` loaded, so that a start loads it only once."""

    @property
    def newest(self) -> SnapshotId | None:
        """The newest snapshot; None if there is none."""
        return self._ids[-1] if self._ids else None

    def set_damaged_aside(self) -> None:
        """Rename damaged snapshots, newest first, until one can be loaded or none is left."""
        while (newest := self.newest) is not None:
            try:
                self._loaded = self.load()
                return
            except CorruptLog as error:
                log.error("%s: set aside", error)
            path = self._path(self._ids.pop())
            assert path == self._path(newest)
            self._files.rename(path, path + DAMAGED)

    def load(self) -> MetadataImage:
        """Load the newest snapshot's image, or an empty one; raise CorruptLog if it is damaged."""
        newest = self.newest
        if newest is None:
            return MetadataImage()
        if self._loaded is not None:
            loaded, self._loaded = self._loaded, None
            if loaded.offset + 1 == newest.end_offset:
                return loaded
        path = self._path(newest)
        try:
            return load_snapshot(self._files.read_small(path) or b"", newest)
        except RemoteProtocolError as error:
            raise CorruptLog(path, 0, str(error)) from error

    async def write(self, image: MetadataImage, timestamp_ms: int) -> SnapshotId:
        """Write this image, which must not change any more; it is on stable storage on return."""
        parts = []
        for batch in snapshot_batches(image, timestamp_ms):
            parts.append(batch)
            await asyncio.sleep(0)
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        await self._put(snapshot, b"".join(parts))
        return snapshot

    async def keep(self, snapshot: SnapshotId, data: bytes) -> None:
        """Save a snapshot that was fetched from another node.

        Raise RemoteProtocolError if it cannot be loaded.
        """
        load_snapshot(data, snapshot)
        await self._put(snapshot, data)

    async def _put(self, snapshot: SnapshotId, data: bytes) -> None:
        if self._files.failure is not None:
            self._files = Files(self._files.fs, self._files.root)  # the disk may have room again
        await self._files.replace_durably(self._path(snapshot), data)
        ids = [*(each for each in self._ids if each != snapshot), snapshot]
        self._ids = sorted(ids, key=lambda each: each.end_offset)
        while len(self._ids) > KEPT:
            self._files.remove(self._path(self._ids.pop(0)))

    def read_part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> SnapshotFetched:
        """Read up to `max_bytes` of a snapshot's file, from byte `position` on."""
        if snapshot not in self._ids:
            return SnapshotFetched(ErrorCode.SNAPSHOT_NOT_FOUND, f"{snapshot} is gone: fetch again")
        if self._open is None or self._open[0] != snapshot:
            self._open = (snapshot, self._files.read_small(self._path(snapshot)) or b"")
        data = self._open[1]
        if not 0 <= position <= len(data):
            detail = f"position {position} of {len(data)} bytes"
            return SnapshotFetched(ErrorCode.POSITION_OUT_OF_RANGE, detail)
        part = data[position : position + max_bytes]
        if position + len(part) == len(data):
            self._open = None
        return SnapshotFetched(ErrorCode.NONE, size=len(data), position=position, data=part)

    def _path(self, snapshot: SnapshotId) -> str:
        name = f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"
        return f"{self._directory}/{name}"


def _id_in(name: str) -> SnapshotId | None:
    end_offset, _, epoch = name.removesuffix(SUFFIX).partition("-")
    if not name.endswith(SUFFIX) or not (end_offset.isdecimal() and epoch.isdecimal()):
        return None
    return SnapshotId(int(end_offset), int(epoch))
