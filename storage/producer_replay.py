"""Rebuilds producer state and aborted transactions by walking the batches on disk.

The walk begins at a snapshot and reads batch headers, and the contents of transaction markers only.
It is used when a log is opened or copied, after a truncation beyond what memory holds, and when an
index of aborted transactions is lost.
"""

from collections.abc import Iterator, Sequence

from ..protocol.records.batch_header import CONTROL_BIT
from ..protocol.records.record_batch import HEADER_SIZE, BatchHeader
from ..protocol.types import Buffer
from ..runtime.runtime import Runtime
from .aborted import AbortedTransaction
from .files import Files
from .markers import read_marker
from .producer_snapshots import ProducerSnapshots
from .producer_state import ProducerState
from .scan import Pace, Scan
from .segment import Batch, Segment


def observe_control(
    producers: ProducerState, header: BatchHeader, batch: Buffer, now_ms: int
) -> AbortedTransaction | None:
    """Record a control batch in `producers`; return the transaction that it aborts, if any."""
    marker = read_marker(header, batch)
    if marker is None:
        return None
    return producers.observe_marker(marker, header.base_offset, now_ms)


def observe_appended(
    producers: ProducerState,
    segment: Segment,
    appended: Sequence[Batch],
    runtime: Runtime,
    is_done: bool,
) -> None:
    """Record batches just appended to `segment` in `producers`, and their aborts in `segment`.

    If `is_done`, `producers` already recorded the data batches, so only markers are recorded.
    """
    now_ms = -1
    for header, buffer in appended:
        if header.producer_id < 0 or (is_done and not header.attributes & CONTROL_BIT):
            continue
        now_ms = now_ms if now_ms >= 0 else runtime.wall_ms()
        if not header.attributes & CONTROL_BIT:
            producers.observe(header, now_ms)
        elif aborted := observe_control(producers, header, buffer, now_ms):
            segment.aborted.note(aborted)


def observe_stored(
    producers: ProducerState, found: tuple[int, BatchHeader], scan: Scan, now_ms: int
) -> AbortedTransaction | None:
    """Record a batch that a scan has found; return the transaction that it aborts, if any."""
    position, header = found
    if header.producer_id < 0:
        return None
    if header.attributes & CONTROL_BIT:
        return observe_control(producers, header, scan.batch(position, header), now_ms)
    producers.observe(header, now_ms)
    return None


class ProducerReplay:
    """Rebuilds the state of producers as of some offset from a snapshot and later batches."""

    def __init__(self, files: Files, directory: str, segments: list[Segment], now_ms: int) -> None:
        self._files = files
        self._snapshots = ProducerSnapshots(files, directory)
        self._segments = segments
        self._now_ms = now_ms

    def run(self, end_offset: int, before: ProducerState) -> ProducerState:
        """Return the producers as of `end_offset`, without yielding to other tasks.

        Other tasks must not see an outdated state. The replay begins before the first unsettled
        change of `before`, because a snapshot does not say which markers may still be truncated.
        """
        start, state = self._snapshots.newest(before.first_unsettled(end_offset), self._now_ms)
        for _ in self._observe(state, start, end_offset):
            pass
        return state

    async def run_slowly(self, end_offset: int, runtime: Runtime) -> ProducerState:
        """Return the producers as of `end_offset`, replayed in steps while other tasks run."""
        start, state = self._snapshots.newest(end_offset, self._now_ms)
        pace = Pace(runtime)
        for _ in self._observe(state, start, end_offset):
            await pace.step()
        return state

    async def find_aborted(self, segment: Segment, runtime: Runtime) -> None:
        """Rebuild a segment's aborted transactions from its batches, in memory only."""
        state = await self.run_slowly(segment.base_offset, runtime)
        pace = Pace(runtime)
        scan = Scan(self._files, segment)
        segment.aborted.forget()
        while window := scan.next_window():
            for found in window:
                aborted = observe_stored(state, found, scan, self._now_ms)
                if aborted is not None:
                    segment.aborted.note(aborted)
            await pace.step()

    def _observe(self, state: ProducerState, start: int, end: int) -> Iterator[None]:
        """Record batches with base offsets from `start` up to, not including, `end`.

        Yields after each window.
        """
        for segment in self._segments:
            if segment.next_offset > start and segment.base_offset < end:
                scan = Scan(self._files, segment, self._position_for(segment, start))
                while window := [] if segment.is_removed else scan.next_window():
                    for found in window:
                        if start <= found[1].base_offset < end:
                            observe_stored(state, found, scan, self._now_ms)
                    yield

    def _position_for(self, segment: Segment, offset: int) -> int:
        """Return the position of the last indexed batch that ends at or before `offset`, or 0."""
        entry = None if segment.indexes is None else segment.indexes.offsets.entry_before(offset)
        if entry is None:
            return 0
        last_offset, position = entry
        head = self._files.read_some(segment.file(), position, HEADER_SIZE)
        is_true = len(head) == HEADER_SIZE and BatchHeader(head).last_offset == last_offset
        return position if is_true else 0
