"""The segments of one log, oldest first, and the directory that holds them.

Keeps names and order: which segment holds an offset, which files are new. It never decides when
to roll or what to delete.
"""

from bisect import bisect_left, bisect_right

from .checkpoints import encode_partition_metadata
from .files import PARTITION_METADATA, Files
from .segment import Segment


class Segments(list[Segment]):
    """Oldest first; none before the first append."""

    __slots__ = ("_files", "directory", "names_changed", "topic_id")

    def __init__(self, files: Files, directory: str, topic_id: bytes | None) -> None:
        super().__init__()
        self._files = files
        self.directory = directory
        self.topic_id = topic_id
        self.names_changed = False
        """Files were made, renamed or removed since the directory was last synced."""

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all."""
        return sum(segment.size for segment in self)

    def holding(self, offset: int) -> Segment:
        """The segment that holds an offset which the log holds."""
        newest = self[-1]
        if offset >= newest.base_offset:
            return newest
        at = bisect_right(self, offset, key=lambda segment: segment.base_offset) - 1
        # In a compacted log an offset may lie in the gap before the next segment.
        if offset >= self[at].next_offset and at + 1 < len(self):
            at += 1
        return self[at]

    def beginning_at(self, base_offset: int) -> Segment | None:
        """The segment of exactly this base offset."""
        at = bisect_left(self, base_offset, key=lambda segment: segment.base_offset)
        return self[at] if at < len(self) and self[at].base_offset == base_offset else None

    def make_directory(self) -> None:
        """Before the first file: the directory, and in it whose partition this is."""
        path = f"{self.directory}/{PARTITION_METADATA}"
        if self or self._files.exists(path):
            return
        self._files.make_directory(self.directory)
        self.names_changed = True
        self.write_owner()

    def write_owner(self) -> None:
        """Whose partition this is, if that is known. The next flush makes it stable."""
        if self.topic_id is not None:
            path = f"{self.directory}/{PARTITION_METADATA}"
            self._files.replace_small(path, encode_partition_metadata(self.topic_id))

    def begin(self, base_offset: int, now_ms: int) -> Segment:
        """Add an empty segment; the newest so far is complete, or goes if it is empty."""
        self.make_directory()
        if self and self[-1].size == 0:
            self.pop().remove()
        elif self:
            self[-1].save_indexes()
        segment = Segment(self._files, self.directory, base_offset)
        segment.create()
        segment.seen_ms = now_ms
        self.append(segment)
        self.names_changed = True
        return segment

    def cut_to(self, offset: int) -> int:
        """Remove all that holds `offset` or later; the offset that comes next."""
        while self[-1].base_offset > offset:
            self.pop().remove()
            self.names_changed = True
        self[-1].truncate_to(offset)
        return self[-1].next_offset

    def remove_all(self) -> None:
        """Delete the files, newest first: what a crash leaves is a prefix."""
        while self:
            self.pop().remove()
            self.names_changed = True

    def remove_oldest(self, count: int) -> None:
        """Delete the files of the first segments, oldest first."""
        for segment in self[:count]:
            self.remove(segment)
            segment.remove()

    async def flush(self, recovery_point: int) -> None:
        """What lies above the recovery point, and the names of it, are durable on return."""
        for segment in list(self):
            if segment.next_offset > recovery_point or segment.has_unsynced_indexes:
                is_newest = not self or segment is self[-1]
                await segment.flush(with_indexes=not is_newest)
        if self.names_changed:
            self.names_changed = False
            # Without it nobody could tell whose batches these are.
            await self._files.fdatasync_named(f"{self.directory}/{PARTITION_METADATA}")
            await self._files.fsync_directory(self.directory)
            await self._files.fsync_directory(self.directory.rpartition("/")[0] or "/")

    def close(self) -> None:
        """Close the files."""
        for segment in self:
            segment.close()
