"""Opens a log: trusts its files after a clean shutdown, and recovers them after any other stop.

After a clean shutdown, file sizes and indexes are right. After a crash, every batch is read from
the segment of the recovery point on, and checked by header, order and checksum. The log ends at the
first bad batch: the rest of its segment is cut off and later segments are deleted. So the recovered
log is always a prefix of what was appended. Indexes, leader epochs and producers of the part that
was read are rebuilt. The recovery point never moves forward here.

Checkpoints, snapshots and indexes only save work. One that is missing, torn or corrupt is rebuilt
or replaced by its safest value, and opening continues.

If the caller knows up to which offset the log was stable, damage below that offset cannot be a torn
write. `CutRefused` then reports the damage before anything is cut.
"""

import logging
from dataclasses import dataclass, field
from functools import partial

from ..protocol.records.record_batch import BatchHeader
from ..protocol.types import NO_EPOCH
from ..runtime.errors import CorruptLog
from ..runtime.runtime import Runtime
from .compaction import compacted
from .files import (
    ABORTED_INDEX,
    GAPS,
    LEADER_EPOCHS,
    LOG,
    SEGMENT_SUFFIXES,
    TEMPORARY,
    Files,
    file_name,
    offset_in,
)
from .leader_epochs import LeaderEpochs
from .producer_replay import ProducerReplay, observe_stored
from .producer_snapshots import ProducerSnapshots
from .producer_state import ProducerState
from .scan import WINDOW, Pace, Scan, rebuild_indexes
from .segment import MAX_RELATIVE, Segment
from .segment_indexes import CorruptIndex, SegmentIndexes
from .segment_learning import index_batch, read_tail
from .topic_config import TopicConfig

log = logging.getLogger(__name__)


class CutRefused(CorruptLog):
    """The log is damaged below an offset up to which it was stable, so nothing was cut."""

    def __init__(self, path: str, position: int, why: str, offset: int) -> None:
        super().__init__(path, position, why)
        self.offset = offset
        """The offset below which every batch is good."""


@dataclass(slots=True)
class Opening:
    """A log to be opened, and what the caller knows about it."""

    runtime: Runtime
    files: Files
    directory: str
    config: TopicConfig
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    never_cut_below: int = 0
    """If the log would end before this offset, CutRefused is raised instead."""


@dataclass(slots=True)
class Opened:
    """A log as it was found on disk, after recovery."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    segments: list[Segment] = field(default_factory=list)
    leader_epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    are_epochs_written: bool = True
    are_gaps_noted: bool = False
    names_changed: bool = False
    """True if names in the directory may not be on stable storage."""
    may_be_uncut: bool = False
    """True if a truncation before the crash may be undone by a loss of power."""
    producers: ProducerState = field(default_factory=ProducerState)


async def open_from_disk(opening: Opening) -> Opened:
    """Load the directory's segments, and recover them unless the stop was clean."""
    return await _Loader(opening).load()


class _Loader:
    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._runtime = opening.runtime
        self._files = opening.files
        self._directory = opening.directory
        self._interval = opening.config.index_interval_bytes
        self._now_ms = opening.runtime.wall_ms()
        self._pace = Pace(opening.runtime)
        self._segments: list[Segment] = []
        self._damaged_aborted: dict[Segment, None] = {}
        """Segments whose index of aborted transactions is damaged."""
        self._epochs = self._on_file = LeaderEpochs()
        self._are_epochs_written = True
        self._names_changed = False
        self._recovery_point = opening.recovery_point
        self._has_gaps = opening.config.is_compacted

    async def load(self) -> Opened:
        opening, start = self._opening, self._opening.log_start_offset
        self._names_changed = compacted.settle(self._files, self._directory)
        is_noted = self._files.exists(f"{self._directory}/{GAPS}")
        self._has_gaps = is_noted or opening.config.is_compacted
        self._segments = self._find_segments()
        producers = await self._load_segments()
        if self._end() < self._recovery_point and not opening.is_clean:
            # Stable data is missing: the recovery point is wrong, or the disk lost a write.
            log.warning(
                "%s ends at %d, below its recovery point %d: all of it is read",
                *(self, self._end(), self._recovery_point),
            )
            self._recovery_point = 0
            producers = await self._load_segments()
        segments, end = self._segments, self._end()
        where = segments[-1].path + LOG if segments else self._directory
        self._refuse_cut(where, segments[-1].size if segments else 0, end, "the log ends there")
        if segments:
            start = max(start, segments[0].base_offset)
        if end < start:
            log.warning("%s ends at %d, before its start: begun anew at %d", self, end, start)
            self._drop_from(0)
            producers, end = ProducerState(), start
            self._epochs, self._are_epochs_written = LeaderEpochs(), False
        elif not segments or end == segments[0].base_offset:
            # A log of which all records were deleted still ends in the epoch of its last record.
            epoch = self._on_file.epoch_for(end) if end else NO_EPOCH
            self._epochs = LeaderEpochs([(epoch, start)])
            self._are_epochs_written = list(self._epochs) == list(self._on_file)
        elif self._epochs.truncate_from_end(end) or self._epochs.truncate_from_start(start):
            self._are_epochs_written = False
        snapshots = ProducerSnapshots(self._files, self._directory)
        snapshots.remove_above(end)
        snapshots.remove_strays(segments)
        for segment in segments:
            segment.close()
        return Opened(
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=end if opening.is_clean else min(self._recovery_point, end),
            segments=segments,
            leader_epochs=self._epochs,
            are_epochs_written=self._are_epochs_written and opening.is_clean,
            # After a crash partition.metadata may be in the page cache only, so the next flush
            # syncs it. If it were written anew, a loss of power until then could lose it, and the
            # whole log with it.
            names_changed=self._names_changed or not opening.is_clean,
            may_be_uncut=not opening.is_clean and bool(segments),
            are_gaps_noted=is_noted,
            producers=producers,
        )

    def _refuse_cut(self, path: str, position: int, offset: int, why: str) -> None:
        """Raise CutRefused if `offset`, where the log would end, is below `never_cut_below`."""
        if offset < self._opening.never_cut_below:
            for segment in self._segments:
                segment.close()
            raise CutRefused(path, position, why, offset)

    def _end(self) -> int:
        return self._segments[-1].next_offset if self._segments else self._opening.log_start_offset

    def __str__(self) -> str:
        return self._directory

    def _find_segments(self) -> list[Segment]:
        names = self._files.names(self._directory)
        bases = [base for name in names if (base := offset_in(name, LOG)) is not None]
        known, known_names = dict.fromkeys(bases), dict.fromkeys(names)
        for name in names:
            owner = [offset_in(name, suffix) for suffix in SEGMENT_SUFFIXES[1:]]
            is_orphan = any(base is not None and base not in known for base in owner)
            if is_orphan or name.endswith(TEMPORARY):
                self._files.remove(f"{self._directory}/{name}")
        segments = [Segment(self._files, self._directory, base) for base in bases]
        for at, segment in enumerate(segments):
            with self._files.guard:
                segment.size = segment.doubt_below = segment.file().size()
            segment.close()
            segment.indexes = None
            segment.seen_ms = self._now_ms
            if at + 1 < len(segments):
                segment.next_offset = segments[at + 1].base_offset
            if file_name(segment.base_offset, ABORTED_INDEX) in known_names:
                self._load_aborted(segment)
        return segments

    def _load_aborted(self, segment: Segment) -> None:
        end = segment.next_offset if segment.next_offset > segment.base_offset else None
        if not segment.aborted.load(segment.base_offset, end):
            self._damaged_aborted[segment] = None

    async def _load_segments(self) -> ProducerState:
        """Load the segments that can be trusted, recover the rest, and return the producers."""
        doubtful = self._first_doubtful()
        for at, segment in enumerate(self._segments[:doubtful]):
            # Flushed while it was the newest, and completed later: its batches are safe, but
            # perhaps not the index files that were written when it was completed.
            is_just_complete = (
                at + 1 == doubtful < len(self._segments)
                and segment.next_offset >= self._recovery_point
            )
            await self._trust(at, with_indexes=not is_just_complete)
        if doubtful == len(self._segments) and self._segments:
            last = self._segments[-1]
            try:
                if not last.load_indexes(is_end_known=False):
                    raise CorruptIndex(f"{last.path}: no usable index")
                read_tail(last)
            except CorruptIndex as error:
                log.warning("%s; reading the segment", error)
                doubtful -= 1
        await self._load_epochs(doubtful)
        producers = await self._producers_before(doubtful)
        for at in range(doubtful, len(self._segments)):
            if not await self._recover(at, producers, is_first=at == doubtful):
                break
        return producers

    def _first_doubtful(self) -> int:
        if self._opening.is_clean:
            return len(self._segments)
        at = 0
        for segment in self._segments[1:]:
            if segment.base_offset > self._recovery_point:
                break
            at += 1
        return at

    async def _trust(self, at: int, *, with_indexes: bool) -> None:
        """Load a segment that was flushed; its batches are trusted, its indexes may be rebuilt."""
        segment, newest = self._segments[at], None
        has_markers = segment in self._damaged_aborted
        if with_indexes:
            newest = SegmentIndexes.newest_timestamp(self._files, segment.path, segment.base_offset)
        if newest is None:
            log.info("%s gets new indexes", segment.path)
            rebuilt = await rebuild_indexes(
                self._pace, self._files, segment, self._interval, partial(self._scan_of, at)
            )
            has_markers = has_markers or rebuilt.has_markers
            if rebuilt.has_stale_tail:
                # The segment was cut there and a loss of power undid the cut; later batches are
                # elsewhere.
                log.warning("%s.log ends at byte %d", segment.path, rebuilt.end_position)
                self._cut(segment, rebuilt.end_position)
            segment.close()
        else:
            segment.max_timestamp, segment.max_timestamp_offset = newest
        if has_markers:
            await self._find_aborted(at)

    def _scan_of(self, at: int) -> Scan:
        """Scan a segment whose headers can be trusted, up to the start of the next segment."""
        segment = self._segments[at]
        is_newest = at + 1 == len(self._segments)
        end_offset = None if is_newest else segment.next_offset
        return Scan(self._files, segment, has_gaps=self._has_gaps, end_offset=end_offset)

    def _cut(self, segment: Segment, position: int) -> None:
        """Cut the segment's file at `position`; the next flush makes the cut stable."""
        self._files.truncate(segment.file(), position)
        segment.size = position
        self._recovery_point = min(self._recovery_point, segment.base_offset)

    async def _find_aborted(self, at: int) -> None:
        """Rebuild a segment's index of aborted transactions from its and earlier batches."""
        segment = self._segments[at]
        log.info("%s: its aborted transactions are looked up", segment.path)
        before = self._segments[:at]
        replay = ProducerReplay(self._files, self._directory, before, self._now_ms)
        await replay.find_aborted(segment, self._runtime)
        segment.save_indexes()
        segment.close()

    async def _load_epochs(self, doubtful: int) -> None:
        """Read the leader-epoch file for the trusted segments; later epochs come from batches."""
        data = self._files.read_small(f"{self._directory}/{LEADER_EPOCHS}")
        known = LeaderEpochs.decode(data) if data is not None else None
        self._on_file = LeaderEpochs(known or ())
        trusted, later = self._segments[:doubtful], self._segments[doubtful:]
        self._are_epochs_written = not (later if known is not None else self._segments)
        if known is not None and later:
            # Entries of the later segments are added again while their batches are recovered.
            known.truncate_from_end(later[0].base_offset)
        self._epochs, entries = LeaderEpochs(), list(known or ())
        if trusted:
            # The file is cut at the log start, and may be newer than the checkpoint of log starts.
            start = max(self._opening.log_start_offset, trusted[0].base_offset)
            up_to = entries[0][1] if entries else trusted[-1].next_offset
            if up_to > start:
                self._are_epochs_written = False
                self._epochs = await _epochs_in(self._files, trusted, up_to, self._pace)
        for epoch, start in entries:
            self._epochs.assign(epoch, start)

    async def _producers_before(self, doubtful: int) -> ProducerState:
        if not self._segments:
            return ProducerState()
        trusted = self._segments[:doubtful]
        end = trusted[-1].next_offset if trusted else self._segments[0].base_offset
        if doubtful < len(self._segments):
            # A later snapshot may date from before a truncation.
            ProducerSnapshots(self._files, self._directory).remove_above(end)
        replay = ProducerReplay(self._files, self._directory, trusted, self._now_ms)
        return await replay.run_slowly(end, self._runtime)

    async def _recover(self, at: int, producers: ProducerState, *, is_first: bool) -> bool:
        """Check and index one segment; return False if the log ends in it or before it.

        Later segments are then deleted.
        """
        segment = self._segments[at]
        before = self._segments[at - 1].next_offset if at else segment.base_offset
        if segment.base_offset < before or (not is_first and self._is_hole(before, segment)):
            # A hole means that the tail of the previous segment never reached the disk.
            why = f"offset {segment.base_offset} where {before} is due"
            self._refuse_cut(segment.path + LOG, 0, before, why)
            log.warning("%s: %s does not follow %d: dropped", self, segment, before)
            self._drop_from(at)
            return False
        segment.forget_indexes()
        segment.aborted.forget()
        segment.next_offset = segment.base_offset
        scan = Scan(
            self._files,
            segment,
            check_crc=True,
            has_gaps=self._has_gaps,
            least_epoch=self._epochs.latest_epoch,
        )
        dubious = 0
        while window := scan.next_window():
            for position, header in window:
                index_batch(segment, header, position, self._interval)
                if header.next_offset <= self._recovery_point:
                    dubious = position + header.size
                _note_epoch(self._epochs, header)
                aborted = observe_stored(producers, (position, header), scan, self._now_ms)
                if aborted is not None:
                    segment.aborted.note(aborted)
            # Everything below the recovery point was below the high watermark.
            producers.settle(self._recovery_point)
            await self._pace.step()
        if scan.problem is not None:
            why = scan.problem
            self._refuse_cut(segment.path + LOG, scan.position, scan.next_offset, why)
            log.warning(
                "%s.log at byte %d of %d: %s: cut off here, the log ends at %d",
                *(segment.path, scan.position, segment.size, scan.problem, scan.next_offset),
            )
            self._cut(segment, scan.position)
            self._drop_from(at + 1)
        await self._write_again(segment, dubious)
        if at + 1 < len(self._segments):
            segment.save_indexes()
        return scan.problem is None

    async def _write_again(self, segment: Segment, position: int) -> None:
        """Write all bytes from `position` on again, so that the next flush writes them to disk."""
        while position < segment.size:
            size = min(WINDOW, segment.size - position)
            view = self._files.read_some(segment.file(), position, size)
            self._files.write(segment.file(), [view], position, len(view))
            position += size
            await self._pace.step()

    def _is_hole(self, before: int, segment: Segment) -> bool:
        # Compaction leaves gaps within segments, never between them, except for the widest gaps.
        gap = segment.base_offset - before
        return gap != 0 and not (self._has_gaps and gap > MAX_RELATIVE)

    def _drop_from(self, at: int) -> None:
        while len(self._segments) > at:
            self._segments.pop().remove()
            self._names_changed = True


async def _epochs_in(files: Files, segments: list[Segment], up_to: int, pace: Pace) -> LeaderEpochs:
    """Return the leader epochs of the batches whose base offset is below `up_to`."""
    epochs = LeaderEpochs()
    for segment in segments:
        scan = Scan(files, segment)
        while window := scan.next_window():
            for _, header in window:
                if header.base_offset >= up_to:
                    return epochs
                _note_epoch(epochs, header)
            await pace.step()
    return epochs


def _note_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.leader_epoch > epochs.latest_epoch:
        epochs.assign(header.leader_epoch, header.base_offset)
