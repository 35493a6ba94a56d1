"""Compaction on the event loop: chooses the part of a log that is due, and puts results in place.

compaction.py does the work in a worker process. A round never covers the newest segment, anything
unflushed, anything at or above the offset that the caller gives (the last stable offset), or
anything younger than min.compaction.lag.ms. A round is given up if the log is truncated, damaged,
removed or copied to another directory while it runs: segments that are already replaced stay
replaced, and the next round begins anew.
"""

import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from ...runtime.config import INT64_MAX
from ...runtime.errors import WorkerLost
from ...runtime.runtime import Runtime
from ..aborted import AbortedIndex, AbortedTransaction
from ..log import Log
from ..offset_set import OffsetSet
from ..producer_snapshots import ProducerSnapshots
from ..segment import MAX_RELATIVE, Segment
from .compaction import Finished, Order, Source, Step, forget, step

log = logging.getLogger(__name__)

STEP_BYTES = 8 << 20
"""Bytes that the worker handles in one step: a fraction of a second."""

Pay = Callable[[int], Awaitable[None]]
"""Awaited with the number of bytes just read and written; it waits to limit the rate."""


@dataclass(frozen=True, slots=True)
class Due:
    """A part of a log that is due for compaction."""

    segments: tuple[Segment, ...]
    """The segments from the log's start to the end of the part."""
    first_dirty: int
    dirty_ratio: float
    """The share of the bytes in `segments` that is not compacted yet, from 0 to 1."""
    is_overdue: bool
    """True if the oldest record that is not compacted is older than max.compaction.lag.ms."""
    finished: OffsetSet | None = None
    """The offsets whose records go, of a delay topic; None of a compacted one."""

    @property
    def urgency(self) -> tuple[bool, float]:
        """The sort key of urgency, the greatest first: overdue parts, then by dirty ratio."""
        return self.is_overdue, self.dirty_ratio


def due(owner: Log, compacted_to: int, up_to: int, now_ms: int) -> Due | None:
    """Choose the part of a log to compact now, or return None.

    The part ends at or before `up_to`. `compacted_to` is the offset up to which earlier rounds
    compacted the log; `now_ms` is wall time.
    """
    config = owner.config
    if not config.is_compacted or len(owner.segments) < 2:
        return None
    bound = min(up_to, owner.flushed_offset)
    youngest = now_ms - config.min_compaction_lag_ms
    segments: list[Segment] = []
    dirty_bytes = clean_bytes = 0
    oldest: Segment | None = None
    for segment in owner.segments[:-1]:
        if segment.next_offset > bound:
            break
        if segment.next_offset <= compacted_to:
            clean_bytes += segment.size
        else:
            if config.min_compaction_lag_ms and segment.newest_ms > youngest:
                break
            oldest = oldest or segment
            dirty_bytes += segment.size
        segments.append(segment)
    if oldest is None:
        return None
    ratio = dirty_bytes / (dirty_bytes + clean_bytes)
    lag_ms = config.max_compaction_lag_ms
    is_overdue = lag_ms < INT64_MAX and now_ms - _oldest(oldest) > lag_ms
    if ratio <= config.min_cleanable_dirty_ratio and not is_overdue:
        return None
    first_dirty = max(compacted_to, owner.segments[0].base_offset)
    return Due(tuple(segments), first_dirty, ratio, is_overdue)


def _oldest(segment: Segment) -> int:
    return segment.first_timestamp if segment.first_timestamp >= 0 else segment.newest_ms


def groups_of(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Group neighbouring segments that fit into `max_bytes` even if no record is removed."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups:
            group = groups[-1]
            size = sum(each.size for each in group) + segment.size
            reach = segment.next_offset - 1 - group[0].base_offset
            if size <= max_bytes and reach <= MAX_RELATIVE:
                group.append(segment)
                continue
        groups.append([segment])
    return groups


class Compactor:
    """Runs rounds of compaction in a worker process, one after the other."""

    def __init__(self, runtime: Runtime, map_bytes: int, pay: Pay) -> None:
        self._runtime = runtime
        self.map_bytes = map_bytes
        """The memory, in bytes, for the keys of a round."""
        self._pay = pay

    async def compact(self, owner: Log, part: Due) -> int | None:
        """Compact a part and return the offset up to which the log is compacted, on stable storage.

        Return None if the round was given up. Raises LogDirectoryFailed.
        """
        groups = groups_of(part.segments, owner.config.segment_bytes)
        largest = max(sum(each.size for each in group) for group in groups)
        if owner.files.space()[1] <= largest:
            log.warning("%r is not compacted: that could take %d bytes more", owner, largest)
            return None
        order = Order(
            directory=owner.directory,
            groups=tuple(tuple(_source(each) for each in group) for group in groups),
            first_dirty=part.first_dirty,
            now_ms=self._runtime.wall_ms(),
            delete_retention_ms=owner.config.delete_retention_ms,
            index_interval_bytes=owner.config.index_interval_bytes,
            map_bytes=self.map_bytes,
            finished=part.finished,
            aborted=_aborted(owner),
            producers={
                producer_id: tuple(batch.last_offset for batch in producer.batches)
                for producer_id, producer in owner.producers
            },
        )
        token = self._runtime.rng.randbytes(16)
        try:
            return await self._run(owner, groups, order, token)
        except WorkerLost as error:
            log.warning("%r is not compacted: %s", owner, error)
            return None
        finally:
            if owner.is_in_use:
                owner.segments.remove_results()

    async def _run(
        self, owner: Log, groups: list[list[Segment]], order: Order, token: bytes
    ) -> int | None:
        cuts, left = owner.cuts, groups
        given: Order | None = order
        while True:
            done = await self._runtime.offload(step, self._runtime.fs, token, given, STEP_BYTES)
            given = None
            if not owner.is_in_use or owner.cuts != cuts or owner.copy is not None:
                await self._runtime.offload(forget, token)
                return None
            if done.failure is not None and any(each.is_removed for each in chain(*left)):
                return None  # Retention has deleted a segment before it was read.
            if _is_given_up(owner, done):
                return None
            if done.finished is not None:
                group = groups[done.finished.group]
                left = groups[done.finished.group + 1 :]
                if any(each.is_removed for each in group):
                    await self._runtime.offload(forget, token)
                    return None  # Retention has deleted a segment.
                if done.finished.is_changed:
                    put_in_place(owner, group, done.finished)
                    await owner.segments.sync_names()
            if done.end_offset >= 0:
                return done.end_offset
            await self._pay(done.byte_count)


def put_in_place(owner: Log, group: Sequence[Segment], made: Finished) -> None:
    """Replace a group of segments with its result in one step, for readers and on the disk.

    Await `Segments.sync_names` afterwards; until then a loss of power may undo the replacement.
    """
    segments = owner.segments
    segments.note_gaps()
    new = segments.successor(group)
    new.size = new.doubt_below = made.size
    new.next_offset = made.next_offset
    new.first_timestamp = made.first_timestamp
    new.max_timestamp = made.max_timestamp
    new.max_timestamp_offset = made.max_timestamp_offset
    if made.aborted:
        new.aborted.index = AbortedIndex.decode(made.aborted, new.base_offset, new.next_offset)
    before = sum(each.size for each in group)
    segments.replace(group, new)
    snapshots = ProducerSnapshots(owner.files, owner.directory)
    for each in group[1:]:
        snapshots.remove(each.base_offset)
    log.info("%r: %d bytes compacted to %d", owner, before, made.size)


def _is_given_up(owner: Log, done: Step) -> bool:
    if done.failure is not None:
        raise owner.files.fail(OSError(errno.EIO, done.failure.why))
    if done.damage is not None:
        log.warning("%r is not compacted: %s", owner, owner.reader.damaged(done.damage))
    return done.is_lost or done.damage is not None


def _aborted(owner: Log) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions of the whole log, because markers may be after the part."""
    indexes = [each.aborted.index for each in owner.segments if each.aborted.index is not None]
    return tuple(index[at] for index in indexes for at in range(len(index)))


def _source(segment: Segment) -> Source:
    return Source(segment.base_offset, segment.next_offset, segment.size)
