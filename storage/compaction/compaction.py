"""One round of compaction, run in a worker process: reads segments, writes finished files.

    survey    note the newest offset of each key, from the first dirty offset to the end; if the map
              of keys is full before, the round ends at that batch
    rewrite   group by group, oldest first, write the batches without superseded records, and leave
              all others unchanged; each result is stable, as `.cleaned`, before it is reported

A round is done in steps of bounded size, so that its caller can pace it, give it up, and put each
result in place before the next is begun. Its map of keys stays in the worker between steps. A round
never writes to a file that is in use. These records and batches are removed or kept:

    record    not the newest of its key, or without a key        is removed
              tombstone whose batch's delete horizon is past     is removed
              at or after the end of the round                   is kept
    batch     of an aborted transaction                          loses all its records
              spent marker whose delete horizon is past          is removed
              left without records                               is removed, or kept empty if it is
                                                                 the last of a producer or group
"""

from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass, field

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.record_batch import HEADER_SIZE, BatchHeader, crc_is_valid
from ...protocol.types import Buffer
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...runtime.fs import File, FileSystem
from ..aborted import AbortedIndex, AbortedTransaction
from ..files import ABORTED_INDEX, INDEX, LOG, TIME_INDEX, Files, file_name
from ..integrity import size_of_first
from ..offset_set import OffsetSet
from ..segment import Segment
from ..segment_learning import index_batch
from .compacted import CLEANED
from .key_offsets import KeyOffsets
from .record_walk import Rewrite, Slice, emptied, rewritten, walk
from .transaction_walk import TransactionWalk

WINDOW = 1 << 20
MAX_ROUNDS = 64
"""The most rounds remembered. If there are more, the oldest is dropped: its broker must have ended
without `forget`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A segment that gets no more batches, as it was when the round began."""

    base_offset: int
    next_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The instructions for one round: its segments and its settings."""

    directory: str
    groups: tuple[tuple[Source, ...], ...]
    """Groups of neighbouring segments, each of which becomes one segment, from the log's start
    on."""
    first_dirty: int
    """The offset below which the log was compacted by earlier rounds."""
    now_ms: int
    """Wall time, in ms: delete horizons are compared with it and counted from it."""
    delete_retention_ms: int
    index_interval_bytes: int
    map_bytes: int
    finished: OffsetSet | None = None
    """The offsets whose records go, of a delay topic. Then keys do not count, and every control
    batch stays."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """All aborted transactions that may have records in the segments of the round."""
    producers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By producer id, the last offsets of its newest batches in the log, as far as they are
    known."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One result on disk that waits to replace its group of segments."""

    group: int
    size: int
    next_offset: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bytes
    """The result's index of aborted transactions: those whose marker is in the result."""
    is_changed: bool
    """False if the result equals the only segment of its group, which it then need not replace."""


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of one step."""

    byte_count: int
    """Bytes read and written."""
    finished: Finished | None = None
    end_offset: int = -1
    """The offset below which the log is compacted, once the round is over; -1 before."""
    failure: LogDirectoryFailed | None = None
    damage: CorruptLog | None = None
    is_lost: bool = False
    """True if the worker does not know the round, because it was restarted since the round
    began."""


_rounds: OrderedDict[bytes, "Round"] = OrderedDict()


def step(fs: FileSystem, token: bytes, order: Order | None, budget: int) -> Step:
    """Process about `budget` bytes of the round named `token`.

    The first call of a round passes its order, the later ones None.
    """
    if order is not None:
        _rounds[token] = Round(order)
        while len(_rounds) > MAX_ROUNDS:
            _rounds.popitem(last=False)
    current = _rounds.get(token)
    if current is None:
        return Step(0, is_lost=True)
    files = Files(fs, current.order.directory)
    try:
        done = current.step(files, budget)
    except CorruptLog as error:
        done = Step(0, damage=error)
    except LogDirectoryFailed as error:
        done = Step(0, failure=error)
    if done.end_offset >= 0 or done.damage is not None or done.failure is not None:
        forget(token)
    return done


def forget(token: bytes) -> None:
    """Drop the state of a round that is over or was given up."""
    _rounds.pop(token, None)


class Round:
    """The state of a round between its steps."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._keys = KeyOffsets(order.map_bytes)
        self._dirty = [
            source
            for group in order.groups
            for source in group
            if source.next_offset > order.first_dirty
        ]
        self._end = self._dirty[-1].next_offset if self._dirty else order.first_dirty
        self._last_offsets: dict[int, int] = {}
        """By producer id, the last offset of the newest batch that the survey has read."""
        self._surveyed = TransactionWalk(order.aborted)
        self._met = TransactionWalk(order.aborted)
        self._at = (0, 0)
        """The index in its group of the source that is read, and the position in that file."""
        self._group = 0
        self._made: Made | None = None

    def step(self, files: Files, budget: int) -> Step:
        """Survey or rewrite about `budget` bytes more."""
        if self._dirty:
            return self._survey(files, budget)
        if self._group == len(self.order.groups):
            return Step(0, end_offset=self._end)
        return self._rewrite(files, budget)

    # The survey.

    def _survey(self, files: Files, budget: int) -> Step:
        count = 0
        while self._dirty and count < budget:
            source, position = self._dirty[0], self._at[1]
            with closing(Reader(files, self.order.directory, source)) as reader:
                for header, view in reader.window(position):
                    if not self._note(reader, header, view):
                        self._dirty.clear()
                        break
                    position += header.size
                    count += header.size
            self._at = (0, position)
            if position >= source.size and self._dirty:
                del self._dirty[0]
                self._at = (0, 0)
        if not self._dirty:
            self._at = (0, 0)
        return Step(count)

    def _note(self, reader: "Reader", header: BatchHeader, view: memoryview) -> bool:
        """Record a batch's keys; return False if the map is full, which ends the round here."""
        if header.producer_id >= 0 and not header.is_control:
            self._last_offsets[header.producer_id] = header.last_offset
        if header.is_control or self._surveyed.is_aborted(header):
            return True
        if header.next_offset <= self.order.first_dirty:
            return True
        for each in reader.walk(header, view)[1]:
            offset = header.base_offset + each.offset_delta
            if each.key is None or offset < self.order.first_dirty:
                continue
            if not self._keys.put(each.key, offset):
                self._end = offset
                return False
        return True

    # The rewriting.

    def _rewrite(self, files: Files, budget: int) -> Step:
        group = self.order.groups[self._group]
        if group[0].base_offset >= self._end:
            self._group = len(self.order.groups)
            return Step(0)
        made = self._made
        if made is None:
            made = self._made = Made(files, self.order, group)
        count = made.size
        with closing(made.open(files)) as file:
            read = self._rewrite_some(files, made, budget)
            made.write(files, file)
            count = read + made.size - count
            if self._at[0] < len(group):
                return Step(count)
            finished = made.finish(files, file, self._group)
        self._group += 1
        self._at, self._made = (0, 0), None
        return Step(count, finished)

    def _rewrite_some(self, files: Files, made: "Made", budget: int) -> int:
        group, count = made.group, 0
        while self._at[0] < len(group) and count < budget:
            at, position = self._at
            with closing(Reader(files, self.order.directory, group[at])) as reader:
                for header, view in reader.window(position):
                    position += header.size
                    count += header.size
                    is_last = at + 1 == len(group) and position == group[at].size
                    made.add(header, self._decided(made, reader, (header, view), is_last=is_last))
            self._at = (at + 1, 0) if position >= group[at].size else (at, position)
        return count

    def _decided(
        self,
        made: "Made",
        reader: "Reader",
        found: tuple[BatchHeader, memoryview],
        *,
        is_last: bool,
    ) -> Buffer | None:
        """Return what is kept of a batch: all its bytes, a smaller batch, or None for nothing."""
        header, view = found
        if self.order.finished is not None:
            return self._unfinished(reader, found, self.order.finished, is_last=is_last)
        if header.is_control:
            spent = self._met.is_spent(header)
            body, slices = reader.walk(header, view) if spent else (b"", [])
            if not spent or header.base_offset >= self._end:
                return view
            kept: list[Slice] = [] if self._is_past(header) else slices
            has_deletes = bool(slices)
        else:
            is_aborted = self._met.is_aborted(header)
            if header.base_offset >= self._end:
                return view
            body, slices = reader.walk(header, view)
            kept = [] if is_aborted else self._newest(header, slices)
            has_deletes = any(not each.has_value for each in kept)
        if not kept and header.is_control and is_last:
            return view  # Readers expect a record in every control batch.
        if not kept:
            made.spent[header.base_offset] = None
            if not (is_last or self._is_last_of_producer(header)):
                return None
            return view if not header.record_count else emptied(header)
        horizon_ms = None
        if has_deletes and not header.has_delete_horizon and header.next_offset <= self._end:
            horizon_ms = self.order.now_ms + self.order.delete_retention_ms
        if len(kept) == header.record_count and horizon_ms is None:
            return view
        return rewritten(header, body, Rewrite(kept, horizon_ms))

    def _unfinished(
        self,
        reader: "Reader",
        found: tuple[BatchHeader, memoryview],
        finished: OffsetSet,
        *,
        is_last: bool,
    ) -> Buffer | None:
        """Return what is kept of a batch of a delay topic."""
        header, view = found
        if header.is_control or not header.record_count:
            return view
        body, slices = reader.walk(header, view)
        base = header.base_offset
        kept = [each for each in slices if base + each.offset_delta not in finished]
        if len(kept) == header.record_count:
            return view
        if kept:
            return rewritten(header, body, Rewrite(kept))
        return emptied(header) if is_last or self._is_last_of_producer(header) else None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """True if this is, or may be, its producer's last batch below the end of the round.

        Batches at or after the end of the round may still be truncated, so they do not count.
        """
        known = self.order.producers.get(header.producer_id)
        if not known or header.is_control:
            return False
        last = self._last_offsets.get(header.producer_id)
        if last is None:
            last = max((each for each in known if each < self._end), default=None)
        # If the last batch is not known, any batch may be the last.
        return last is None or header.last_offset == last

    def _newest(self, header: BatchHeader, slices: list[Slice]) -> list[Slice]:
        end, base, is_past = self._end, header.base_offset, self._is_past(header)
        return [
            each
            for each in slices
            if base + each.offset_delta >= end
            or (
                each.key is not None
                and (each.has_value or not is_past)
                and self._keys.is_newest(each.key, base + each.offset_delta)
            )
        ]

    def _is_past(self, header: BatchHeader) -> bool:
        """True if the batch's delete horizon is past: its tombstones or marker may be removed."""
        return header.has_delete_horizon and header.base_timestamp <= self.order.now_ms


class Reader:
    """Reads the batches of one source, and checks the CRC of each."""

    def __init__(self, files: Files, directory: str, source: Source) -> None:
        self._files = files
        self._source = source
        self._path = f"{directory}/{file_name(source.base_offset, LOG)}"
        self._position = 0
        with files.guard:
            self._file = files.fs.open(self._path)

    def window(self, position: int) -> list[tuple[BatchHeader, memoryview]]:
        """Return the batches of the window that begins at `position`: whole ones, at least one.

        Raises CorruptLog if a batch is damaged.
        """
        size = min(WINDOW, self._source.size - position)
        view = self._files.read_some(self._file, position, size)
        first = size_of_first(view)
        if first > len(view):
            view = self._files.read_some(self._file, position, first)
        found: list[tuple[BatchHeader, memoryview]] = []
        at = 0
        while (size := size_of_first(view[at : at + HEADER_SIZE])) and at + size <= len(view):
            header = BatchHeader(view, at)
            if not crc_is_valid(view, at, header):
                raise CorruptLog(self._path, position + at, f"crc {header.crc:#010x} is wrong")
            found.append((header, view[at : at + size]))
            at += size
        if not found:
            raise CorruptLog(self._path, position, "no batch")
        self._position = position
        return found

    def walk(self, header: BatchHeader, view: memoryview) -> tuple[bytes, list[Slice]]:
        """Return the batch's records, decompressed, and a slice for each.

        Raise CorruptLog if the batch is damaged.
        """
        try:
            return walk(view, 0, header)
        except RemoteProtocolError as error:
            raise CorruptLog(self._path, self._position, str(error)) from error

    def close(self) -> None:
        """Close the source's file."""
        self._file.close()


class Made:
    """The new segment for one group while it is written: a file of batches and its indexes."""

    def __init__(self, files: Files, order: Order, group: tuple[Source, ...]) -> None:
        self.group = group
        self._directory = order.directory
        self._interval = order.index_interval_bytes
        self._aborted = order.aborted
        self._segment = Segment(files, order.directory, group[0].base_offset)
        self._waiting: list[Buffer] = []
        self._is_changed = len(group) > 1
        self.spent: dict[int, None] = {}
        """Base offsets of the batches, markers among them, that were left without records."""
        self.size = 0

    def open(self, files: Files) -> File:
        """Open the new segment's file, and empty it before the first batches are written."""
        with files.guard:
            file = files.fs.open(self._segment.path + LOG + CLEANED, create=True, write=True)
            if not self.size:
                file.truncate(0)
        return file

    def add(self, before: BatchHeader, batch: Buffer | None) -> None:
        """Add a batch in place of the one with header `before`; None if nothing is left of it."""
        if batch is None:
            self._is_changed = True
            return
        header = before
        if not isinstance(batch, memoryview):
            header, self._is_changed = BatchHeader(batch), True
        index_batch(self._segment, header, self._segment.size, self._interval)
        self._segment.size += header.size
        self._waiting.append(batch)

    def write(self, files: Files, file: File) -> None:
        """Write the batches that were added."""
        waiting, self._waiting = self._waiting, []
        size = self._segment.size
        if waiting:
            files.write(file, waiting, self.size, size - self.size)
        self.size = size

    def finish(self, files: Files, file: File, group: int) -> Finished:
        """Complete the new segment's files: on stable storage on return, named `.cleaned`."""
        made, indexes = self._segment, self._segment.indexes
        assert indexes is not None
        with files.guard:
            file.fdatasync_wait()
        indexes.times.maybe_append(made.max_timestamp, made.max_timestamp_offset)
        aborted = self._still_aborted().encode()
        for suffix, data in (
            (ABORTED_INDEX, aborted),
            (INDEX, indexes.offsets.encode()),
            (TIME_INDEX, indexes.times.encode()),
        ):
            if data or suffix != ABORTED_INDEX:
                files.replace_now(made.path + suffix + CLEANED, data)
        return Finished(
            group,
            self.size,
            made.next_offset,
            made.first_timestamp,
            made.max_timestamp,
            made.max_timestamp_offset,
            aborted,
            self._is_changed,
        )

    def _still_aborted(self) -> AbortedIndex:
        index = AbortedIndex()
        start, end = self.group[0].base_offset, self._segment.next_offset
        for each in self._aborted:
            if start <= each.last_offset < end and each.last_offset not in self.spent:
                index.add(each)
        return index
