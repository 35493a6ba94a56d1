"""The segments of one log, oldest first, and the directory that holds them.

The list finds the segment that holds an offset, and knows if file names have changed. The log
decides when to roll and what to delete.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from .checkpoints import encode_partition_metadata
from .compaction.compacted import CLEANED, SWAP
from .files import ABORTED_INDEX, GAPS, INDEX, LOG, PARTITION_METADATA, TIME_INDEX, Files, file_name
from .offset_set import FinishedOffsets
from .recovery import Opened
from .segment import Segment
from .segment_indexes import SegmentIndexes
from .topic_config import TopicConfig


class Segments(list[Segment]):
    """The segments of a log, oldest first; empty before the first append."""

    __slots__ = (
        "_are_gaps_noted",
        "_files",
        "directory",
        "finished",
        "has_gaps",
        "keep_from",
        "names_changed",
        "topic_id",
    )

    def __init__(self, files: Files, directory: str, topic_id: bytes | None) -> None:
        super().__init__()
        self._files = files
        self.directory = directory
        self.topic_id = topic_id
        self.names_changed = False
        """True if files were made, renamed or removed since the directory was last synced."""
        self.keep_from: Callable[[], int] | None = None
        """Returns the offset from which on a delay topic's records are needed; None if unknown."""
        self.finished: FinishedOffsets | None = None
        """The offsets whose records are not needed any more, of a delay topic; None if unknown."""
        self.has_gaps = self._are_gaps_noted = False
        """True if offsets may be missing between batches, and records within them."""

    def load(self, found: Opened) -> None:
        """Take over the segments that were found when the log was opened."""
        self.extend(found.segments)
        self.names_changed = found.names_changed
        self._are_gaps_noted = found.are_gaps_noted

    def obey(self, config: TopicConfig) -> None:
        """Expect gaps if the log is compacted by this configuration or has gaps on record."""
        self.has_gaps = self._are_gaps_noted or config.is_compacted

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return sum([segment.size for segment in self])

    def holding(self, offset: int) -> Segment:
        """Return the segment that holds `offset`, which must be in the log."""
        newest = self[-1]
        if offset >= newest.base_offset:
            return newest
        at = bisect_right(self, offset, key=lambda segment: segment.base_offset) - 1
        # In a compacted log an offset may lie in the gap before the next segment.
        if offset >= self[at].next_offset and at + 1 < len(self):
            at += 1
        return self[at]

    def beginning_at(self, base_offset: int) -> Segment | None:
        """Return the segment with exactly this base offset, or None."""
        at = bisect_left(self, base_offset, key=lambda segment: segment.base_offset)
        return self[at] if at < len(self) and self[at].base_offset == base_offset else None

    def after(self, segment: Segment) -> Segment:
        """Return the segment after `segment`, which is not the newest."""
        return self[bisect_right(self, segment.base_offset, key=lambda each: each.base_offset)]

    def make_directory(self) -> None:
        """Make the directory and its partition.metadata, unless they exist."""
        path = f"{self.directory}/{PARTITION_METADATA}"
        if self or self._files.exists(path):
            return
        self._files.make_directory(self.directory)
        self.names_changed = True
        self.write_owner()

    def write_owner(self) -> None:
        """Write the partition's topic id, if known. The next flush makes the file stable."""
        if self.topic_id is not None:
            path = f"{self.directory}/{PARTITION_METADATA}"
            self._files.replace_small(path, encode_partition_metadata(self.topic_id))

    def begin(self, base_offset: int, now_ms: int) -> Segment:
        """Add an empty segment. The newest so far is completed, or removed if it is empty."""
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
        """Remove every batch that holds `offset` or a later one; return the new end offset.

        The first segment must begin at `offset` or before.
        """
        while self[-1].base_offset > offset:
            self.pop().remove()
            self.names_changed = True
        self[-1].truncate_to(offset)
        return self[-1].next_offset

    def remove_all(self) -> None:
        """Delete all segments, the newest first, so that a crash leaves a prefix."""
        while self:
            self.pop().remove()
            self.names_changed = True

    def remove_oldest(self, count: int) -> None:
        """Delete the first `count` segments, the oldest first."""
        for segment in self[:count]:
            self.remove(segment)
            segment.remove()

    async def flush(self, recovery_point: int) -> None:
        """Bring everything above the recovery point, and the files' names, to stable storage."""
        for segment in list(self):
            if segment.next_offset > recovery_point or segment.has_unsynced_indexes:
                is_newest = not self or segment is self[-1]
                await segment.flush(with_indexes=not is_newest)
        if self.names_changed:
            await self.sync_names()

    # Moving.

    def relocate(self, directory: str) -> None:
        """Use the files in `directory`, which is the new name of their directory."""
        self.directory = directory
        for segment in self:
            path = f"{directory}/{file_name(segment.base_offset, '')}"
            segment.path = segment.aborted.segment_path = path
            if segment.indexes is not None:
                segment.indexes.path = path

    def take_over(self, copy: "Segments") -> None:
        """Replace the segments by those of `copy`: the same batches in another directory."""
        self.abandon()
        self._files, self.directory = copy._files, copy.directory
        self[:] = copy
        self.has_gaps = self.has_gaps or copy.has_gaps
        self._are_gaps_noted = copy._are_gaps_noted
        self.names_changed = True

    # Compaction.

    def note_gaps(self) -> None:
        """Record on disk that the log has gaps; called before the first gap is made.

        Otherwise a reader would take the gap for damage. The record stays after a restart, and
        after a change of cleanup.policy.
        """
        if self._are_gaps_noted:
            return
        self._are_gaps_noted = self.has_gaps = True
        self.make_directory()
        self._files.replace_small(f"{self.directory}/{GAPS}", b"")
        self.names_changed = True

    def successor(self, of: Sequence[Segment]) -> Segment:
        """Make the segment that will replace neighbouring ones, without adding it to the list."""
        new = Segment(self._files, self.directory, of[0].base_offset)
        new.indexes = None
        new.seen_ms = max(each.seen_ms for each in of)
        return new

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace neighbouring segments by the result of a compaction, stable as `.cleaned`.

        After a crash during this, `compacted.settle` restores either all old segments or the new
        one, if renames within one directory reach the disk in order.
        """
        files, path, at = self._files, new.path, self.index(old[0])
        self.remove_results(but=path)
        files.rename(path + LOG + CLEANED, path + LOG + SWAP)
        for segment in old[:0:-1]:
            segment.remove()
        old[0].close()
        old[0].is_removed = True
        SegmentIndexes.remove(files, path)
        files.remove(path + ABORTED_INDEX)
        files.rename(path + LOG + SWAP, path + LOG)
        if new.aborted.index is not None:
            files.rename(path + ABORTED_INDEX + CLEANED, path + ABORTED_INDEX)
        for suffix in (INDEX, TIME_INDEX):
            files.rename(path + suffix + CLEANED, path + suffix)
        self[at : at + len(old)] = [new]
        self.names_changed = True

    def remove_results(self, *, but: str = "") -> None:
        """Remove `.cleaned` files of abandoned rounds, except those whose path begins with `but`.

        Otherwise they would make a later `.swap` look unfinished.
        """
        for name in self._files.names(self.directory):
            path = f"{self.directory}/{name}"
            if name.endswith(CLEANED) and not (but and path.startswith(but)):
                self._files.remove(path)

    async def sync_names(self) -> None:
        """Bring the current names of the files to stable storage."""
        self.names_changed = False
        # Without this file the partition of the batches would be unknown.
        await self._files.fdatasync_named(f"{self.directory}/{PARTITION_METADATA}")
        await self._files.fsync_directory(self.directory)
        await self._files.fsync_directory(self.directory.rpartition("/")[0] or "/")

    def close(self) -> None:
        """Close the files of all segments."""
        for segment in self:
            segment.close()

    def abandon(self) -> None:
        """Close the files for good: the directory is moved, removed or failed."""
        for segment in self:
            segment.close()
            segment.is_removed = True
