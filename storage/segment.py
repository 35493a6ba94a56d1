"""One segment of a log: a file of batches with its indexes, appended to and truncated.

The log decides when to roll and what to delete. A segment never reads records. segment_file.py
handles its file, reading.py reads from it, and segment_learning.py derives its end, timestamps and
indexes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..protocol.records.record_batch import BatchHeader
from ..protocol.types import Buffer
from ..runtime.errors import InvariantViolation, LogDirectoryFailed
from .files import ABORTED_INDEX, INDEX, TIME_INDEX, Files, file_name
from .indexes import OFFSET_ENTRY, TIME_ENTRY
from .reading import PREFIX, PREFIX_SIZE, locate
from .segment_aborted import AbortedFile
from .segment_file import SegmentFile
from .segment_indexes import SegmentIndexes
from .segment_learning import load_or_start_indexes, read_tail
from .topic_config import TopicConfig

_HINTS = 64
MAX_RELATIVE = 2**31 - 1
"""The greatest distance of an offset in a segment from the segment's base offset."""

Batch = tuple[BatchHeader, Buffer]


class Limits(NamedTuple):
    """The bounds at which a segment is full, and how far apart the entries of its indexes are."""

    segment_bytes: int
    segment_ms: int
    max_index_entries: int
    max_time_entries: int
    index_interval_bytes: int


@lru_cache(maxsize=64)
def limits_of(config: TopicConfig) -> Limits:
    """Return the limits of a configuration; most logs share one configuration, so it is cached."""
    segment_ms = config.segment_ms
    if config.is_compacted:
        # The newest segment is never compacted, so the log must roll before its records are
        # overdue.
        segment_ms = min(segment_ms, config.max_compaction_lag_ms)
    return Limits(
        config.segment_bytes,
        segment_ms,
        max(config.segment_index_bytes // OFFSET_ENTRY, 1),
        max(config.segment_index_bytes // TIME_ENTRY - 1, 1),
        config.index_interval_bytes,
    )


class Segment(SegmentFile):
    """The batches from `base_offset` up to the next segment's base offset."""

    __slots__ = (
        "_are_indexes_unsynced",
        "aborted",
        "base_offset",
        "first_timestamp",
        "hints",
        "indexes",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "seen_ms",
    )

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        super().__init__(files, f"{directory}/{file_name(base_offset, '')}")
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp = -1
        """The greatest timestamp of the first batch, in ms, from which segment.ms counts."""
        self.seen_ms = 0
        """Wall time, in ms, of creation or loading; used if records have no timestamps."""
        self.jitter_ms = 0
        self.indexes: SegmentIndexes | None = SegmentIndexes(files, self.path, base_offset)
        """The indexes; None while they are on disk only."""
        self.aborted = AbortedFile(files, self.path)
        self._are_indexes_unsynced = False
        self.hints: dict[int, int] = {}
        """The exact positions of offsets at which a reader is likely to continue."""

    def __repr__(self) -> str:
        return f"<segment {self.base_offset}..{self.next_offset}, {self.size} bytes>"

    def remove(self) -> None:
        """Delete the files, the log file first: index files without a log file are ignored."""
        super().remove()
        self.aborted.remove()
        SegmentIndexes.remove(self._files, self.path)

    def forget(self) -> None:
        """Drop the indexes from memory, now that the file is closed, if they can be read again."""
        if self.indexes is not None and self.indexes.is_saved:
            self.indexes = None
            self.hints.clear()

    @property
    def newest_ms(self) -> int:
        """The greatest timestamp, in ms; `seen_ms` if the records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.seen_ms

    @property
    def has_unsynced_indexes(self) -> bool:
        """True if the index files were written since they were last on stable storage."""
        return self._are_indexes_unsynced or self.aborted.is_unsynced

    async def flush(self, *, with_indexes: bool) -> None:
        """Bring the batches to stable storage, and the index files too if `with_indexes`."""
        if self.is_removed:
            return
        await self._files.fdatasync(self.file())
        if with_indexes and self.has_unsynced_indexes:
            self._are_indexes_unsynced = self.aborted.is_unsynced = False
            for suffix in (INDEX, TIME_INDEX, ABORTED_INDEX):
                if not self.is_removed:
                    await self._files.fdatasync_named(self.path + suffix)

    # Appending.

    def append(self, batches: Sequence[Batch], start: int, limits: Limits) -> int:
        """Append the batches from `batches[start]` on that fit, in one write.

        Return the index after the last one. If the write fails, the segment is unchanged and the
        directory has failed.
        """
        indexes = self.indexes
        assert indexes is not None, "load the indexes first"
        before = (
            self.size,
            self.next_offset,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_timestamp,
        )
        buffers: list[Buffer] = []
        end = self._take(batches, start, limits, buffers)
        if not buffers:
            return end
        position = before[0]
        try:
            self._files.write(self._file or self.file(), buffers, position, self.size - position)
        except LogDirectoryFailed:
            self.size, self.next_offset, *times = before
            self.max_timestamp, self.max_timestamp_offset, self.first_timestamp = times
            indexes.truncate_to(position, self.next_offset)
            self._files.cut_back(self._file, position)
            raise
        # A reader at the end of the log goes on where this write began.
        self.hint(batches[start][0].base_offset, position)
        indexes.is_saved = False
        self.was_used = True
        return end

    def _take(
        self, batches: Sequence[Batch], start: int, limits: Limits, buffers: list[Buffer]
    ) -> int:
        """Count and index the batches that fit, and collect their buffers, in local variables."""
        indexes = self.indexes
        assert indexes is not None
        segment_bytes, segment_ms, max_offsets, max_times, interval = limits
        largest_offset = self.base_offset + MAX_RELATIVE
        position, next_offset, since = self.size, self.next_offset, indexes.since_entry
        max_timestamp, max_timestamp_offset = self.max_timestamp, self.max_timestamp_offset
        roll_after = self.first_timestamp + segment_ms - self.jitter_ms
        if self.first_timestamp < 0:
            roll_after = MAX_RELATIVE << 32
        end = start
        for header, buffer in batches[start:] if start else batches:
            size = header.size
            timestamp = header.max_timestamp
            base_offset = header.base_offset
            last_offset = base_offset + header.last_offset_delta
            if position == 0:
                self.first_timestamp = timestamp
                if timestamp >= 0:
                    roll_after = timestamp + segment_ms - self.jitter_ms
            elif position + size > segment_bytes or timestamp > roll_after or indexes.is_full:
                break
            if last_offset > largest_offset:
                break
            if base_offset < next_offset:
                raise InvariantViolation(f"{header!r} appended at {next_offset} of {self.path}")
            if timestamp > max_timestamp:
                max_timestamp, max_timestamp_offset = timestamp, last_offset
            if since > interval:
                indexes.add(last_offset, position, (max_timestamp, max_timestamp_offset))
                indexes.is_full = indexes.reaches(max_offsets, max_times)
                since = 0
            buffers.append(buffer)
            position += size
            since += size
            next_offset = last_offset + 1
            end += 1
        self.size, self.next_offset, indexes.since_entry = position, next_offset, since
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset
        return end

    def hint(self, offset: int, position: int) -> None:
        """Remember that the batch beginning at `offset` is, or will be, at `position`."""
        hints = self.hints
        if len(hints) >= _HINTS:
            hints.clear()
        hints[offset] = position

    # Truncation and indexes.

    def truncate_to(self, offset: int) -> None:
        """Remove batches that hold `offset` or anything later."""
        load_or_start_indexes(self)
        self.cut(locate(self, offset, wait=True))
        self.next_offset = max(min(offset, self.next_offset), self.base_offset)

    def cut(self, position: int) -> None:
        """Remove everything from the batch boundary `position` on."""
        assert self.indexes is not None
        next_offset = self.next_offset
        prefix = self.read_some(position, PREFIX_SIZE)
        if len(prefix) == PREFIX_SIZE:
            next_offset = PREFIX.unpack_from(prefix)[0]
        self._files.truncate(self.file(), position)
        self.size = position
        self.doubt_below = min(self.doubt_below, position)
        self.next_offset = next_offset
        self.hints.clear()
        self.indexes.truncate_to(position, next_offset)
        self.aborted.truncate_to(next_offset)
        read_tail(self)

    def forget_indexes(self) -> None:
        """Replace the indexes by empty ones."""
        self.indexes = SegmentIndexes(self._files, self.path, self.base_offset)
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self.hints.clear()

    def drop_indexes(self) -> None:
        """Drop the indexes in memory and on disk, because they may be wrong."""
        self.indexes = None
        self.hints.clear()
        SegmentIndexes.remove(self._files, self.path)

    def save_indexes(self) -> None:
        """Write the index files unless they are up to date.

        The file of aborted transactions is written first: it is complete if the others are.
        """
        self.aborted.save()
        if self.indexes is not None and not self.indexes.is_saved:
            self.indexes.save((self.max_timestamp, self.max_timestamp_offset))
            self._are_indexes_unsynced = True

    def load_indexes(self, *, is_end_known: bool = True) -> bool:
        """Read the index files if the indexes are not in memory; False if they do not fit."""
        if self.indexes is None:
            end = self.next_offset if is_end_known else None
            self.indexes = SegmentIndexes.load(
                self._files, self.path, self.base_offset, size=self.size, next_offset=end
            )
        return self.indexes is not None
