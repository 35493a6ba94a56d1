"""The two indexes of one segment, which are extended, saved and loaded together.

This module knows the files' names and when their contents are valid; it knows nothing of batches.
"""

from .files import INDEX, TIME_INDEX, Files
from .indexes import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex


class CorruptIndex(Exception):
    """An index points at a batch that is not there, so it must be rebuilt."""


class SegmentIndexes:
    """The indexes of the segment whose files begin with `path`."""

    __slots__ = (
        "_files",
        "is_full",
        "is_saved",
        "offsets",
        "path",
        "since_entry",
        "times",
    )

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self._files = files
        self.path = path
        """The path of the files without their suffixes."""
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self.since_entry = 0
        """Bytes of log since the newest entry."""
        self.is_full = False
        """True if an index has reached its greatest size; set when an entry is added."""
        self.is_saved = False
        """True if the files hold all entries in memory."""

    def add(self, last_offset: int, position: int, newest: tuple[int, int]) -> None:
        """Add the batch at `position`; `newest` is the greatest timestamp so far and its offset."""
        self.offsets.append(last_offset, position)
        self.times.maybe_append(*newest)
        self.since_entry = 0

    def truncate_to(self, position: int, offset: int) -> None:
        """Forget batches from `position` on; `offset` is the first offset there."""
        self.offsets.truncate_to(position)
        self.times.truncate_to(offset)
        self.is_full = self.is_saved = False

    def reaches(self, offset_entries: int, time_entries: int) -> bool:
        """True if either index has as many entries as it may have."""
        return len(self.offsets) >= offset_entries or len(self.times) >= time_entries

    def save(self, newest: tuple[int, int]) -> None:
        """Write the files unless they are up to date, after adding `newest` to the time index."""
        if self.is_saved:
            return
        self.times.maybe_append(*newest)
        self._files.replace_small(self.path + INDEX, self.offsets.encode())
        self._files.replace_small(self.path + TIME_INDEX, self.times.encode())
        self.is_saved = True

    @classmethod
    def load(
        cls, files: Files, path: str, base_offset: int, *, size: int, next_offset: int | None
    ) -> "SegmentIndexes | None":
        """Read the files; None if one is missing or does not fit such a segment."""
        offsets = files.read_small(path + INDEX)
        times = files.read_small(path + TIME_INDEX)
        if offsets is None or times is None:
            return None
        loaded = cls(files, path, base_offset)
        by_offset = OffsetIndex.decode(offsets, base_offset, size)
        by_time = TimeIndex.decode(times, base_offset, next_offset)
        if by_offset is None or by_time is None:
            return None
        loaded.offsets, loaded.times, loaded.is_saved = by_offset, by_time, True
        loaded.since_entry = size - (by_offset.positions[-1] if by_offset.positions else 0)
        return loaded

    @staticmethod
    def newest_timestamp(files: Files, path: str, base_offset: int) -> tuple[int, int] | None:
        """Return the last entry of the time index without reading the rest.

        Return None if the files cannot be right.
        """
        with files.guard:
            if not (files.fs.exists(path + INDEX) and files.fs.exists(path + TIME_INDEX)):
                return None
        # Records have timestamps, so an empty time index has lost its entries.
        times = files.read_tail(path + TIME_INDEX, TIME_ENTRY)
        if not times or files.read_tail(path + INDEX, OFFSET_ENTRY) is None:
            return None
        index = TimeIndex.decode(times, base_offset, None)
        return index.last() if index is not None else None

    @staticmethod
    def remove(files: Files, path: str) -> None:
        """Delete the index files whose names begin with `path`."""
        files.remove(path + INDEX)
        files.remove(path + TIME_INDEX)
