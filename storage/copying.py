"""A log's copy in another data directory, made while the log is still written and read.

The copy is always a prefix of its source, batch by batch and byte by byte: a truncation of the
source truncates the copy first, and damaged batches are never copied. The copy follows the source's
log start. The source is not compacted while it is copied, because the copy would miss what
compaction changes.

An error of the copy's directory never concerns the source: it is kept in `failure`, and the copy
can no longer be used.
"""

from typing import Final

from ..protocol.records.record_batch import headers
from ..runtime.errors import CorruptLog, LogDirectoryFailed
from ..runtime.runtime import Runtime
from .files import LOG, file_name
from .integrity import judge
from .log import Cold, Log, LogSlice, OffsetOutOfRange
from .log_reader import MAX_JUDGED
from .producer_replay import ProducerReplay
from .producer_snapshots import ProducerSnapshots
from .producer_state import ProducerState
from .retention import ended_before

FIRST_BATCH: Final = 1
"""A read of so few bytes returns one batch, whatever its size."""


class Copy:
    """The copy of one log."""

    def __init__(self, runtime: Runtime, source: Log, log: Log) -> None:
        """Prepare to copy `source` to `log`, which is new and empty; `step` copies.

        The source is not compacted from now on until `give_up` or `take_place`.
        """
        self._runtime = runtime
        self._source = source
        self.log = log
        self.failure: LogDirectoryFailed | None = None
        """The error that failed the copy's directory; None while the directory works."""
        self.has_begun = False
        """True once the first step has placed the copy's start; False again after `begin_anew`."""
        source.copy = self

    def __repr__(self) -> str:
        return f"<copy of {self._source} in {self.log.directory}, up to {self.log.log_end_offset}>"

    @property
    def is_whole(self) -> bool:
        """True if the copy holds every batch of the source."""
        return self.has_begun and self.log.log_end_offset == self._source.log_end_offset

    @property
    def is_stable(self) -> bool:
        """True if the copy is stable up to the source's flushed offset, truncations included."""
        is_flushed = self.log.flushed_offset >= self._source.flushed_offset
        return is_flushed and not self.log.durability.may_be_uncut

    @property
    def lag(self) -> int:
        """The number of offsets that are not copied yet."""
        source = self._source
        begun_at = self.log.log_end_offset if self.has_begun else source.log_start_offset
        return max(source.log_end_offset - max(begun_at, source.log_start_offset), 0)

    def give_up(self) -> None:
        """End the copying, and close the copy's files; the source may be compacted again."""
        if self._source.copy is self:
            self._source.copy = None
        self.log.abandon()

    def take_place(self) -> None:
        """Make the copy's files those of the source, which never uses its own files again.

        The copy must be whole and stable, and no flush of the source may be running. Readers of the
        source find its new segments as after a compaction of all of them.
        """
        source, log = self._source, self.log
        source.cuts += 1
        source.copy = None
        source.files = log.files
        source.segments.take_over(log.segments)
        source.epoch_file.take_over(log.files)
        source.durability.take_over(log.durability)

    # What the source tells.

    def cut_to(self, offset: int) -> None:
        """Truncate the copy to `offset`; called before the source is truncated to `offset`."""
        if self.has_begun and self.failure is None:
            try:
                self.log.truncate_to(offset)
            except LogDirectoryFailed as error:
                self.failure = error

    def begin_anew(self) -> None:
        """Make the next step begin the copy again, because the source lost all its batches."""
        self.has_begun = False

    # Copying.

    async def step(self, max_bytes: int, high_watermark: int) -> int:
        """Copy the next batches, about `max_bytes`, and return the number of bytes copied.

        Return 0 also if the copy has just begun, or if the source changed during the read: call
        again until `is_whole`. `high_watermark` is the source's. Raises LogDirectoryFailed if
        either directory has failed, and CorruptLog if the source is damaged at the copy's end.
        """
        source = self._source
        self._check()
        if not self.has_begun or source.log_start_offset > self.log.log_end_offset:
            await self._begin()
            return 0
        cuts, offset = source.cuts, self.log.log_end_offset
        try:
            found = await self._read(offset, max_bytes)
        except OffsetOutOfRange:
            return 0  # The source was cut, or its oldest part deleted.
        self._check()
        is_same = self.has_begun and cuts == source.cuts and source.copy is self
        if not is_same or self.log.log_end_offset != offset:
            return 0
        return self._append(found, high_watermark)

    def catch_up(self, max_bytes: int, high_watermark: int) -> bool:
        """Copy the rest without yielding to other tasks; return True if the copy is then whole.

        Return False if the rest is more than `max_bytes`, or not in the page cache.
        `high_watermark` is the source's.
        """
        source, left = self._source, max_bytes
        self._check()
        while self.has_begun and source.log_start_offset <= self.log.log_end_offset:
            if self.is_whole:
                self._follow_start()
                self.log.epoch_file.become(source.leader_epochs)
                self._save_producers()
                return True
            if left <= 0:
                return False
            offset = self.log.log_end_offset
            try:
                found = source.reader.read(offset, max_bytes=left, up_to=source.log_end_offset)
            except Cold:
                return False
            before = self.log.log_end_offset
            left -= self._append(found, high_watermark)
            if self.log.log_end_offset == before:
                return False
        return False

    async def flush(self) -> None:
        """Bring what was copied to stable storage, and the source's leader epochs with it."""
        self._check()
        if self.has_begun:
            self.log.epoch_file.become(self._source.leader_epochs)
        await self.log.flush()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _begin(self) -> None:
        """Start the copy at the first offset of the batch that holds the source's log start."""
        source, log = self._source, self.log
        cuts, start = source.cuts, source.log_start_offset
        try:
            found = await self._read(start, FIRST_BATCH)
        except OffsetOutOfRange:
            return
        data = self._judged(found, start) if found.data else found.data
        base = min([start, *(header.base_offset for _, header in headers(data))])
        producers = await self._producers_at(base)
        is_same = (cuts, start) == (source.cuts, source.log_start_offset)
        if producers is None or not is_same or source.copy is not self:
            return
        self._check()
        log.segments.make_directory()
        if source.segments.has_gaps:
            log.segments.note_gaps()
        log.truncate_fully_and_start_at(base)
        log.producers = producers
        if base:
            ProducerSnapshots(log.files, log.directory).save(producers, base)
        self.has_begun = True

    async def _producers_at(self, offset: int) -> ProducerState | None:
        """Return the source's producers as of `offset`; None if the oldest segment is replaced."""
        source = self._source
        oldest = list(source.segments[:1])
        replay = ProducerReplay(source.files, source.directory, oldest, self._runtime.wall_ms())
        state = await replay.run_slowly(offset, self._runtime)
        return state if list(source.segments[:1]) == oldest else None

    async def _read(self, offset: int, max_bytes: int) -> LogSlice:
        source = self._source
        try:
            return source.reader.read(offset, max_bytes=max_bytes, up_to=source.log_end_offset)
        except Cold:
            end = source.log_end_offset
            return await source.reader.read_cold(offset, max_bytes=max_bytes, up_to=end)

    def _append(self, found: LogSlice, high_watermark: int) -> int:
        """Append to the copy what was read at its end; return the bytes appended.

        Only the good batches at the front are appended. Raises CorruptLog if the first is damaged.
        """
        log = self.log
        if not found.data:
            return 0
        offset = log.log_end_offset
        data = self._judged(found, offset)
        log.append_run([header for _, header in headers(data)], data)
        log.producers.settle(high_watermark)
        self._take_aborted(found.segment_base, offset)
        self._follow_start()
        return len(data)

    def _judged(self, found: LogSlice, offset: int) -> memoryview:
        """Return the good batches at the front; raise CorruptLog if the first is damaged."""
        source = self._source
        verdict = judge(found.data, offset, source.reader.rules, at_most=MAX_JUDGED)
        if not verdict.size:
            path = f"{source.directory}/{file_name(found.segment_base, LOG)}"
            raise source.reader.damaged(CorruptLog(path, found.position, verdict.problem))
        return found.data[: verdict.size]

    def _take_aborted(self, source_base: int, offset: int) -> None:
        """Copy the source's entries of aborted transactions for what was appended from `offset` on.

        The entries that the copy derives itself differ from the source's if a transaction began
        before the oldest producer snapshot that the source has left.
        """
        log, source = self.log, self._source.segments.beginning_at(source_base)
        if source is None:
            return
        index, end = source.aborted.index, log.log_end_offset
        ended = (
            [] if index is None else [one for one in index.since(offset) if one.last_offset < end]
        )
        for segment in log.segments:
            if segment.next_offset <= offset:
                continue
            own, first = segment.aborted.index, segment.base_offset
            known = [] if own is None else own.since(offset)
            mine = [each for each in ended if first <= each.last_offset < segment.next_offset]
            if known != mine:
                segment.aborted.truncate_to(offset)
                for each in mine:
                    segment.aborted.note(each)
                if segment is not log.segments[-1]:
                    segment.aborted.save()

    def _save_producers(self) -> None:
        """Save a snapshot of the source's producers, for a recovery of the copy.

        The source may know producers whose records are deleted. A snapshot cannot state that a
        marker may still be truncated; while there is such a marker none is saved, and a recovery
        begins with the producers as of the copy's first batch.
        """
        source, log = self._source, self.log
        if source.producers.unsettled is None and log.segments:
            snapshots = ProducerSnapshots(log.files, log.directory)
            snapshots.save(source.producers, source.log_end_offset)

    def _follow_start(self) -> None:
        """Raise the copy's log start to the source's, and delete the segments below it."""
        log, start = self.log, min(self._source.log_start_offset, self.log.log_end_offset)
        if start <= log.log_start_offset:
            return
        log.advance_log_start(start)
        count = ended_before(log.segments, start)
        for segment in log.segments[:count]:
            ProducerSnapshots(log.files, log.directory).remove(segment.base_offset)
        log.segments.remove_oldest(count)
