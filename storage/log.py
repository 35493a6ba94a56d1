"""The log of one partition: append, roll, truncate, flush; where it begins and ends.

One event loop owns a log; only its async methods let other tasks run. Batches passed to a log are
already checked and carry their offsets. A log knows nothing of roles, high watermarks or clients.
Its directory is made with the first file, as a rule at the first append. Segment files are opened
when needed, and `Files` may close them again. Code that only reads uses the log's `reader`. The
log's `durability` knows how much of the log is on stable storage.

Files are written in this order: partition.metadata, then the leader-epoch entry, then an epoch's
first batch. A producer snapshot is written at each roll. Recovery does not trust what was not
flushed: see recovery.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..protocol.records.record_batch import BatchHeader
from ..protocol.types import Buffer, OffsetAndEpoch
from ..runtime.errors import InvariantViolation
from ..runtime.runtime import Runtime
from .durability import Durability
from .epoch_file import EpochFile
from .files import Files
from .log_reader import LogReader, OffsetOutOfRange
from .lookup import TimestampOffset
from .producer_replay import ProducerReplay, observe_appended
from .producer_snapshots import ProducerSnapshots
from .producer_state import ProducerState
from .reading import Cold, LogSlice
from .recovery import Opened, Opening, open_from_disk
from .retention import deletable
from .segment import MAX_RELATIVE, Batch, Segment, limits_of
from .segment_learning import load_or_start_indexes
from .segments import Segments
from .topic_config import TopicConfig

if TYPE_CHECKING:
    from .copying import Copy

__all__ = ["Batch", "Cold", "Log", "LogSlice", "OffsetOutOfRange", "TimestampOffset"]


class Log:
    """The batches of one partition replica. A new log needs no `open`."""

    __slots__ = (
        "_limits",
        "_runtime",
        "config",
        "copy",
        "cuts",
        "durability",
        "epoch_file",
        "files",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "on_flush_due",
        "on_truncating",
        "producers",
        "reader",
        "segments",
    )

    def __init__(
        self,
        runtime: Runtime,
        files: Files,
        directory: str,
        config: TopicConfig,
        topic_id: bytes | None = None,
        *,
        found: Opened | None = None,
    ) -> None:
        """Make a log of `found`, as read from `directory`; a new and empty one if None."""
        found = found or Opened(0, 0, 0)
        self._runtime = runtime
        self.files = files
        self.segments = Segments(files, directory, topic_id)
        self.segments.load(found)
        self.log_start_offset, self.log_end_offset = found.log_start_offset, found.log_end_offset
        self.leader_epochs = found.leader_epochs
        """The epochs, for reading only; `assign_epoch`, appending and truncating change them."""
        self.epoch_file = EpochFile(
            files, self.segments, found.leader_epochs, is_written=found.are_epochs_written
        )
        self.producers = found.producers
        self.cuts = int(found.may_be_uncut)
        """A number that changes with every truncation, so that a waiting task can notice one."""
        self.durability = Durability(self, self.epoch_file, found.recovery_point)
        self.reader = LogReader(self, runtime)
        self.on_flush_due: Callable[[Log], None] | None = None
        """Called when a segment is complete or flush.messages is reached, to request a flush."""
        self.on_truncating: Callable[[Log, int], None] | None = None
        """Called with the log and an offset before everything from that offset on is removed."""
        self.copy: Copy | None = None
        """The copy of this log that is being made in another directory, or None."""
        self.reconfigure(config)

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        config: TopicConfig,
        *,
        files: Files | None = None,
        topic_id: bytes | None = None,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        never_cut_below: int = 0,
    ) -> "Log":
        """Open the log in `directory`, which need not exist; recover it unless `clean`.

        `recovery_point` and `log_start_offset` come from the checkpoints, and are 0 if unknown.
        Logs of one data directory share its `files`. Raises CutRefused if recovery would cut the
        log below `never_cut_below`.
        """
        place = (runtime, files or Files(runtime.fs, directory), directory, config)
        points = (recovery_point, log_start_offset, never_cut_below)
        found = await open_from_disk(Opening(*place, clean, *points))
        return cls(*place, topic_id, found=found)

    def __repr__(self) -> str:
        return f"<log {self.directory} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def directory(self) -> str:
        """The directory that holds or will hold the log's files."""
        return self.segments.directory

    @property
    def size_bytes(self) -> int:
        """Bytes of batches, all segments together."""
        return self.segments.size_bytes

    @property
    def flushed_offset(self) -> int:
        """The offset below which everything survives a loss of power.

        Truncation lowers it to the base offset of the segment that was cut, or further.
        """
        return self.durability.flushed_offset

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log, or -1."""
        return self.leader_epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        """Return the newest epoch that is at most `epoch`, and its end offset; None if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def is_in_use(self) -> bool:
        """True if the log was not abandoned and its data directory has not failed."""
        return not self.durability.is_abandoned and self.files.failure is None

    def reconfigure(self, config: TopicConfig) -> None:
        """Replace the log's configuration."""
        self.config = config
        self._limits = limits_of(config)
        self.segments.obey(config)

    # Appending.

    def append(self, batches: Sequence[Batch], *, are_observed: bool = False) -> int:
        """Append batches that carry their offsets and epochs, in order, in one write per segment.

        The headers must describe the buffers: code that stamps a buffer sets its header too.
        `are_observed` is True if `producers` already recorded the batches, except markers, when the
        batches were staged. Return the size of the batches in bytes. If LogDirectoryFailed is
        raised, the segment that was being written has none of the batches.
        """
        if not batches:
            return 0
        if self.files.failure is not None:
            raise self.files.failure
        first, epoch_file = batches[0][0], self.epoch_file
        segments, durability = self.segments, self.durability
        if first.base_offset < self.log_end_offset:
            raise InvariantViolation(f"{first!r} appended at {self.log_end_offset}")
        newest_epoch = batches[-1][0].leader_epoch
        if newest_epoch != epoch_file.epochs.latest_epoch or not epoch_file.is_written:
            epoch_file.note(batches)
            epoch_file.write()
        if segments and not durability.rolls_next:
            segment = segments[-1]
        else:
            segment = self._roll(_base_for(first, self.log_end_offset))
        if segment.indexes is None:
            load_or_start_indexes(segment)
        start = size = 0
        while True:
            size -= segment.size
            end = segment.append(batches, start, self._limits)
            size += segment.size
            self.log_end_offset = segment.next_offset
            # Before a roll: its snapshot must cover everything below it.
            appended = batches if end - start == len(batches) else batches[start:end]
            observe_appended(self.producers, segment, appended, self._runtime, are_observed)
            if end == len(batches):
                if self.log_end_offset - durability.flushed_offset >= self.config.flush_messages:
                    self._flush_is_due()
                return size
            start = end
            segment = self._roll(_base_for(batches[start][0], segment.next_offset))

    def append_run(self, headers: Sequence[BatchHeader], data: Buffer) -> None:
        """Append batches that follow each other in `data`, as a follower receives them."""
        batches, has_gaps = _split(headers, data, self.log_end_offset)
        if has_gaps:
            self.segments.note_gaps()
        self.append(batches)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record where a leader epoch begins; its entry is written before its first batch."""
        self.epoch_file.changed(self.leader_epochs.assign(epoch, start_offset))

    def roll(self) -> None:
        """Begin a new segment, unless the newest is empty."""
        if self.segments and self.segments[-1].size:
            self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> Segment:
        had_batches = bool(self.segments) and self.segments[-1].size > 0
        self.durability.rolls_next = False
        segment = self.segments.begin(base_offset, self._runtime.wall_ms())
        if self.config.segment_jitter_ms:
            jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
            segment.jitter_ms = self._runtime.rng.randrange(jitter + 1)
        if had_batches:
            self._snapshots().save(self.producers, base_offset)
            self._flush_is_due()
        return segment

    def _flush_is_due(self) -> None:
        if self.on_flush_due is not None:
            self.on_flush_due(self)

    # Truncation.

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that holds `offset` or anything later.

        The leader epochs from `offset` on go, even if there is no batch to remove (KAFKA-10706).
        """
        if offset < self.log_end_offset:
            if not self.segments or offset < self.segments[0].base_offset:
                self.truncate_fully_and_start_at(offset)
                return
            if self.on_truncating is not None:
                self.on_truncating(self, offset)
            if self.copy is not None:
                self.copy.cut_to(offset)
            end = self.segments.cut_to(offset)
            self.durability.rolls_next = True
            # The cut is not on stable storage yet, so the next flush must include its segment.
            self._end_at(end, self.segments[-1].base_offset)
            if not self.producers.truncate_to(self.log_end_offset):
                # A producer has lost all known batches, so older ones must be read.
                now_ms = self._runtime.wall_ms()
                replay = ProducerReplay(self.files, self.directory, self.segments, now_ms)
                self.producers = replay.run(self.log_end_offset, self.producers)
        self.epoch_file.changed(self.leader_epochs.truncate_from_end(max(offset, 0)))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all batches and epochs; the log then begins and ends at `offset`."""
        if self.on_truncating is not None:
            self.on_truncating(self, offset)
        if self.copy is not None:
            self.copy.begin_anew()
        self.segments.remove_all()
        self.producers = ProducerState()
        self.epoch_file.changed(self.leader_epochs.clear())
        self.log_start_offset = offset
        self._end_at(offset, 0)
        if offset > 0 or self.files.exists(self.directory):
            self._roll(offset)

    def _end_at(self, offset: int, stable_below: int) -> None:
        self.cuts += 1
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self._snapshots().remove_above(offset)
        self.durability.flushed_offset = min(self.flushed_offset, stable_below)

    def _snapshots(self) -> ProducerSnapshots:
        return ProducerSnapshots(self.files, self.directory)

    # Durability.

    async def flush(self) -> None:
        """Bring all that was appended before the call to stable storage."""
        await self.durability.flush()

    async def close(self) -> None:
        """Save a producer snapshot and the indexes, flush, and close the files."""
        if self.files.failure is None and self.segments:
            newest = self.segments[-1]
            self._snapshots().save_last(self.producers, self.log_end_offset)
            newest.save_indexes()
            self.segments.names_changed = True
            await self.flush()
            await newest.flush(with_indexes=True)
        self.segments.close()

    def abandon(self) -> None:
        """Close the files without saving anything: the directory is moved, removed or failed."""
        self.cuts += 1
        self.durability.is_abandoned = True
        self.segments.abandon()

    # Retention.

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments that time, size or the log start allow; return their number.

        `now_ms` is wall time. A segment that reaches the high watermark is not deleted.
        """
        count = deletable(self, now_ms, high_watermark)
        if not count:
            return 0
        for segment in self.segments[:count]:
            self._snapshots().remove(segment.base_offset)
        if count == len(self.segments):
            self._roll(self.log_end_offset)
        self.segments.remove_oldest(count)
        self.advance_log_start(max(self.segments[0].base_offset, self.log_start_offset))
        return count

    def advance_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`: records before it can no longer be read.

        Retention later deletes the segments below it. The caller makes sure that `offset` is not
        above the high watermark. Raises OffsetOutOfRange if `offset` is above the log end offset.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        self.log_start_offset = max(offset, self.log_start_offset)
        self.epoch_file.changed(self.leader_epochs.truncate_from_start(self.log_start_offset))


def _base_for(header: BatchHeader, end: int) -> int:
    """Return the base offset of the new segment that begins with this batch.

    This is the log end offset even if the batch begins later, because recovery takes a gap between
    segments for lost records. It is the batch's own base offset only if the gap is too wide for
    relative offsets.
    """
    return end if header.last_offset - end <= MAX_RELATIVE else header.base_offset


def _split(headers: Sequence[BatchHeader], data: Buffer, due: int) -> tuple[list[Batch], bool]:
    """Return the batches in `data`, and True if offsets are missing before or between them.

    `due` is the offset at which the first batch should begin.
    """
    view, at, has_gaps = memoryview(data), 0, False
    batches: list[Batch] = []
    for header in headers:
        batches.append((header, view[at : at + header.size]))
        at += header.size
        has_gaps = has_gaps or header.base_offset > due
        due = header.next_offset
    return batches, has_gaps
