"""The schedule of a source partition on one replica: the fold of its log, the index of what waits.

Its owner calls `fold` when the high watermark has moved. Every replica has a schedule, so that a
new leader has nothing to read again.
"""

import asyncio
import logging
from collections.abc import Callable

from ...protocol.delays import DelayRule
from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import headers
from ...protocol.records.records import records
from ...protocol.types import Buffer
from ...storage.offset_set import OffsetSet
from ..partition.own_reading import behind_gap, read_own
from ..partition.partition import Partition
from .due_index import DueIndex
from .folding import SourceState
from .steps import Step

log = logging.getLogger(__name__)


class Schedule:
    """The schedule of one source partition."""

    def __init__(
        self,
        partition: Partition,
        on_step: Callable[[Step], None],
        on_rewritten: Callable[[], None],
    ) -> None:
        """`on_rewritten` is called when the schedule begins anew, because the log has changed."""
        self.state = SourceState(partition.log_start_offset)
        self.index = DueIndex()
        self.deleted = 0
        """The records that were deleted while they waited, since its owner has set it to 0."""
        self._partition = partition
        self._on_step = on_step
        self._on_rewritten = on_rewritten

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
                self.index.forget(state.is_over)
            if state.folded >= end:
                break
            data = await read_own(partition, state.folded, end)
            rule = partition.log.config.forwarding_rule
            if data is None or rule is None:
                return False
            if not len(data):
                state.skip_to(behind_gap(partition, state.folded, end))
            elif not self._is_rewritten:
                self._fold_batches(data, rule)
                await asyncio.sleep(0)
        return True

    def _fold_batches(self, data: Buffer, rule: DelayRule) -> None:
        state = self.state
        for position, header in headers(data):
            if header.next_offset <= state.folded:
                continue
            try:
                found = records(data, position)
            except RemoteProtocolError as error:
                self._on_unread(header.base_offset, error)
                found = []
            folded = state.fold(header, found, rule, self._on_unread)
            self.index.add(folded.entries)
            if folded.step is not None:
                self.index.forget(state.is_over)
                self._on_step(folded.step)

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
        self._on_rewritten()

    def _on_unread(self, offset: int, error: RemoteProtocolError) -> None:
        log.error("%r: forward: offset %d: %s", self._partition, offset, error)
