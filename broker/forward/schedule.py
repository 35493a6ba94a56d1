"""The schedule of a source partition on one replica: the fold of its log, the index of what waits.

Its owner calls `fold` when the high watermark has moved. Every replica has a schedule, so that a
new leader has nothing to read again.
"""

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from ...protocol.delays import SAID, DelayRule
from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import BatchHeader, headers
from ...protocol.records.records import Opened, Record
from ...protocol.types import Buffer
from ...runtime.errors import LogDirectoryFailed, WorkerLost
from ...storage.files import FORWARD_SCHEDULE
from ...storage.framed_file import DamagedFrames, read_frames, write_frames
from ...storage.offset_set import OffsetSet
from ..partition.own_reading import behind_gap, read_own
from ..partition.partition import Partition
from .due_index import DueIndex, Entry
from .folding import SourceState
from .opening import TURN_RECORDS, Offload, Turn, open_batch
from .snapshot import OtherSnapshot, Restoring, frames_of
from .steps import Step

STALE_SHARE: Final = 2
STALE_LEAST: Final = 10_000
"""The index is purged when it has more entries than so many times what waits, and this many."""
SAVE_SHARE: Final = 16
"""As many times may what waits be more than what is folded between two snapshots."""

log = logging.getLogger(__name__)


class Schedule:
    """The schedule of one source partition."""

    save_after = 50_000
    """The least number of offsets that are folded between two snapshots."""

    def __init__(
        self,
        partition: Partition,
        on_step: Callable[[Step], None],
        on_rewritten: Callable[[], None],
        offload: Offload,
    ) -> None:
        """`on_rewritten` is called when the schedule begins anew, because the log has changed."""
        self.state = SourceState(partition.log_start_offset)
        self.index = DueIndex()
        self.deleted = 0
        """The records that were deleted while they waited, since its owner has set it to 0."""
        self._partition = partition
        self._on_step = on_step
        self._on_rewritten = on_rewritten
        self._offload = offload
        self._turn = Turn()
        self._saved = self.state.folded
        """The offset of the newest snapshot."""

    def count(self, start: int, end: int) -> int:
        """Return about how many records from `start` on, below `end`, are over."""
        return self.state.settled.count(start, end)

    def part(self, start: int, end: int) -> OffsetSet:
        """Return the offsets from `start` on, below `end`, whose records are over."""
        return self.state.finished(start, end)

    async def fold(self) -> bool:
        """Fold the log up to the high watermark; return False if it cannot be read for now."""
        partition = self._partition
        while not partition.offline_because:
            self._check_history()
            state, end = self.state, partition.high_watermark
            deleted = state.skip_to(min(partition.log_start_offset, end))
            if deleted:
                self.deleted += deleted
            if state.folded >= end:
                break
            data = await read_own(partition, state.folded, end)
            rule = partition.log.config.forwarding_rule
            if data is None or rule is None:
                return False
            if not len(data):
                state.pass_gap(min(behind_gap(partition, state.folded, end), end))
            else:
                try:
                    await self._fold_batches(data, rule)
                except WorkerLost as error:
                    log.warning("%r: forward: %s", partition, error)
                    return False
                await asyncio.sleep(0)
        if len(self.index) > STALE_SHARE * self.state.waiting + STALE_LEAST:
            for _ in self.index.purge(self.state.is_over):
                await asyncio.sleep(0)
        return True

    # Snapshots.

    @property
    def is_save_due(self) -> bool:
        """True if a start of the broker would have to fold much."""
        folded = self.state.folded - self._saved
        return folded >= max(self.save_after, self.state.waiting // SAVE_SHARE)

    async def load(self) -> None:
        """Begin with the newest snapshot, if there is a good one of this log."""
        rule = self._partition.log.config.forwarding_rule
        if rule is None:
            return
        files, restoring = self._partition.log.files, Restoring(rule)
        try:
            async with aclosing(read_frames(files, self._path)) as frames:
                async for frame in frames:
                    restoring.add(frame)
        except (DamagedFrames, OtherSnapshot) as error:
            log.warning("%r: forward: all is read: %s", self._partition, error)
        except LogDirectoryFailed as error:
            self._partition.on_storage_error(error)
        else:
            if restoring.is_whole:
                self.state, self.index = restoring.state, restoring.index
                self._saved = self.state.folded

    async def save(self, taken: Sequence[Entry] = (), shelves: Iterable[DueIndex] = ()) -> None:
        """Write a snapshot, unless the newest is of now.

        `taken` and what is in `shelves` waits, too, and is not in the index.

        Nothing must be folded or taken meanwhile.
        """
        partition, state = self._partition, self.state
        rule = partition.log.config.forwarding_rule
        if rule is None or state.folded == self._saved or partition.offline_because:
            return
        frames = frames_of(state, (self.index, *shelves), taken, rule)
        try:
            await write_frames(partition.log.files, self._path, frames)
        except LogDirectoryFailed as error:
            partition.on_storage_error(error)
        self._saved = state.folded

    @property
    def _path(self) -> str:
        return f"{self._partition.log.directory}/{FORWARD_SCHEDULE}"

    # Folding.

    async def _fold_batches(self, data: Buffer, rule: DelayRule) -> None:
        """Fold batches that were read, with turns for others in between, also inside of a batch.

        The fold may stop after any record, as after one below which DeleteRecords has deleted all:
        no record of a batch depends on another one, because a marker decides about transactions.
        """
        for position, header in headers(data):
            if header.next_offset <= self.state.folded:
                continue
            batch = await self._open(data, position, header)
            for part, found in self._parts(header, batch):
                if not self._holds(header):
                    return
                if part.next_offset <= self.state.folded:
                    continue
                await self._fold_part(part, found, rule)
                if self._turn.is_over(records=len(found)):
                    await asyncio.sleep(0)

    async def _open(self, data: Buffer, position: int, header: BatchHeader) -> Opened | None:
        try:
            batch = await open_batch(self._offload, data, position, header)
        except RemoteProtocolError as error:
            self._on_unread(header.base_offset, error)
            return None
        if self._turn.is_over(size=batch.size):
            await asyncio.sleep(0)
        return batch

    def _parts(
        self, header: BatchHeader, batch: Opened | None
    ) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Yield a batch as batches of TURN_RECORDS; where they end follows from the batch alone.

        What cannot be read has no records.
        """
        rest, left = copy.copy(header), header.record_count
        found: list[Record] = []
        try:
            for found in () if batch is None else batch.parts(TURN_RECORDS, SAID):
                left -= len(found)
                if left > 0:
                    part = copy.copy(rest)
                    part.last_offset_delta = found[-1].offset - part.base_offset
                    rest.base_offset = part.next_offset
                    rest.last_offset_delta = header.last_offset - rest.base_offset
                    yield part, found
        except RemoteProtocolError as error:
            self._on_unread(rest.base_offset, error)
            found = []
        yield rest, found

    async def _fold_part(self, header: BatchHeader, found: list[Record], rule: DelayRule) -> None:
        folded = self.state.fold(header, found, rule, self._on_unread)
        entries, added = folded.entries, 0
        try:
            # The end of a transaction decides about all its records.
            while len(entries) - added > TURN_RECORDS:
                self.index.add(entries[added : added + TURN_RECORDS])
                added += TURN_RECORDS
                await asyncio.sleep(0)
        finally:
            # Also when the broker stops: a snapshot must not lack what the state says is folded.
            self.index.add(entries[added:])
        if folded.step is not None:
            self.index.forget(self.state.is_over)
            self._on_step(folded.step)

    def _holds(self, header: BatchHeader) -> bool:
        """Return False if an unclean election has taken a batch out of the log meanwhile."""
        known = self._partition.log
        if header.next_offset > known.log_end_offset:
            return False
        is_last = known.leader_epochs.epoch_for(header.next_offset - 1) == header.leader_epoch
        return is_last or header.next_offset <= self._partition.log_start_offset

    @property
    def _is_rewritten(self) -> bool:
        known, start = self._partition.log, self._partition.log_start_offset
        return not self.state.is_part_of(start, known.log_end_offset, known.leader_epochs)

    def _check_history(self) -> None:
        """Begin anew if an unclean election has replaced batches that were folded."""
        if not self._is_rewritten:
            return
        folded = self.state.folded
        log.warning("%r: forward: the log was cut below offset %d", self._partition, folded)
        self.state, self.index = SourceState(self._partition.log_start_offset), DueIndex()
        self._saved = self.state.folded
        self._on_rewritten()

    def _on_unread(self, offset: int, error: RemoteProtocolError) -> None:
        log.error("%r: forward: offset %d: %s", self._partition, offset, error)
