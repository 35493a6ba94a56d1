"""What can be read of a log, whoever writes it: by offset, by timestamp, warm or cold.

Holds the log's bounds and segments for its writer, `Log`, and changes none of them but for
indexes that turn out to be wrong, which are made anew.
"""

from ..runtime.errors import StorageError
from ..runtime.runtime import Runtime
from .epoch_file import EpochFile
from .files import Files
from .leader_epochs import LeaderEpochs
from .lookup import TimestampOffset, first_at_or_after, greatest
from .reading import EMPTY, Cold, LogSlice, Wanted, read, warm
from .scan import rebuild_indexes
from .segment import Segment
from .segment_indexes import CorruptIndex
from .segments import Segments
from .topic_config import TopicConfig


class OffsetOutOfRange(StorageError):
    """The log holds nothing at this offset."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(offset, start, end)
        self.offset = offset

    def __str__(self) -> str:
        offset, start, end = self.args
        return f"offset {offset} is not within {start}..{end}"


class LogView:
    """The readable side of a log."""

    __slots__ = (
        "_epoch_file",
        "_files",
        "_runtime",
        "_truncations",
        "config",
        "log_end_offset",
        "log_start_offset",
        "segments",
    )

    def __init__(
        self, runtime: Runtime, files: Files, config: TopicConfig, segments: Segments
    ) -> None:
        self._runtime = runtime
        self._files = files
        self.config = config
        self.segments = segments
        self._epoch_file = EpochFile(files, segments.directory)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self._truncations = 0
        """Tells whoever waited whether what it saw may be gone."""

    def __repr__(self) -> str:
        return f"<log {self.directory} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def directory(self) -> str:
        """Where its files are, or will be."""
        return self.segments.directory

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """To be read; `assign_epoch` and appending change them."""
        return self._epoch_file.epochs

    @property
    def topic_id(self) -> bytes | None:
        """Whose partition this is."""
        return self.segments.topic_id

    @property
    def size_bytes(self) -> int:
        """Bytes of batches, all segments together."""
        return self.segments.size_bytes

    def read(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True
    ) -> LogSlice:
        """Whole batches from the one that holds `offset`, all below `up_to`.

        The first batch comes even if it is larger than `max_bytes`, unless not `at_least_one`.
        Ends with its segment at the latest. Raises OffsetOutOfRange, and Cold where the disk
        would have to be waited for: then await `read_cold`.
        """
        segment = self._segment_of(offset)
        if segment is None or offset >= up_to:
            return LogSlice(EMPTY, -1, -1)
        try:
            return read(segment, Wanted(offset, max_bytes, up_to, at_least_one))
        except CorruptIndex:
            segment.drop_indexes()
            raise Cold from None

    async def read_cold(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True
    ) -> LogSlice:
        """`read`, off the loop. Check roles and epochs again after it: time has passed."""
        while True:
            segment = self._segment_of(offset)
            if segment is None or offset >= up_to:
                return LogSlice(EMPTY, -1, -1)
            truncations = self._truncations
            await self.ready(segment)
            await warm(segment, offset, max_bytes)
            if segment.is_removed or truncations != self._truncations:
                continue
            try:
                return read(segment, Wanted(offset, max_bytes, up_to, at_least_one, wait=True))
            except (CorruptIndex, Cold):
                segment.drop_indexes()

    async def ready(self, segment: Segment) -> None:
        """The segment's indexes are in memory on return."""
        if not segment.is_removed and not segment.load_indexes():
            interval = self.config.index_interval_bytes
            await rebuild_indexes(self._runtime, self._files, segment, interval)

    def _segment_of(self, offset: int) -> Segment | None:
        """The segment that holds `offset`; None at the end of the log."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        return self.segments.holding(offset) if offset < self.log_end_offset else None

    async def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record, by offset, with at least this timestamp; it may be uncommitted."""
        return await first_at_or_after(self, self._runtime, self._files, timestamp)

    async def max_timestamp(self) -> TimestampOffset | None:
        """The first of the records with the greatest timestamp; it may be uncommitted."""
        return await greatest(self, self._runtime, self._files)
