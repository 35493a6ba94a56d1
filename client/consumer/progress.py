"""The user's progress in each partition: what can be committed or read again, and the lag.

Pure. A position is the offset after all records that polls have returned. The user's progress is
behind the position in two cases: some records of a poll wait to be iterated over, or an exception
came before the poll's records were processed.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from ...protocol.types import NO_EPOCH, TopicPartition
from ..group_types import OffsetAndMetadata
from ..metrics import NOTHING
from ..records import ConsumerRecord
from .positions import PartitionState, Positions


class Progress:
    """The user's progress through the assigned partitions."""

    def __init__(self, positions: Positions, *, reads_committed: bool = False) -> None:
        self.unread: deque[ConsumerRecord[Any, Any]] = deque()
        """Records that a poll returned and that iteration has not handed out yet."""
        self.in_hand: dict[TopicPartition, OffsetAndMetadata] = {}
        """The positions before the newest poll, for the partitions from which it took records."""
        self._positions = positions
        self._reads_committed = reads_committed

    def note_in_hand(self, state: PartitionState) -> None:
        """Remember a partition's position before the poll under way takes records from it."""
        before = OffsetAndMetadata(state.position, "", state.position_epoch)
        self.in_hand.setdefault(state.partition, before)

    def forget_in_hand(self) -> None:
        """Move back to before the newest poll, because its records were not processed."""
        for partition, before in self.in_hand.items():
            state = self._positions.states.get(partition)
            if state is not None and state.is_known and state.position >= before.offset:
                state.jump(before.offset, before.leader_epoch)
        self.in_hand.clear()
        self.unread.clear()

    def drop_unread(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Discard the unread records of these partitions; iteration does not hand them out."""
        if self.unread:
            gone: dict[Any, None] = dict.fromkeys(partitions)
            kept = [record for record in self.unread if record[:2] not in gone]
            self.unread.clear()
            self.unread.extend(kept)

    def position_of(self, state: PartitionState) -> int:
        """Return the offset of the next record that the user gets from a partition."""
        unread = self._first_unread() if self.unread else {}
        return unread.get(state.partition, state.position)

    def lag_of(self, state: PartitionState) -> int | None:
        """Return how many offsets the user has still to read; None while that is unknown."""
        end = state.high_watermark
        if self._reads_committed and state.last_stable_offset >= 0:
            end = min(end, state.last_stable_offset)
        if end < 0 or not state.is_known:
            return None
        return max(end - self.position_of(state), 0)

    def measured(self) -> dict[str, float]:
        """Return the assigned partitions' metrics: their number, greatest lag and least lead."""
        states = self._positions.states.values()
        lags = [lag for state in states if (lag := self.lag_of(state)) is not None]
        leads = [
            self.position_of(state) - state.log_start_offset
            for state in states
            if state.is_known and state.log_start_offset >= 0
        ]
        return {
            "records-lag-max": max(lags, default=NOTHING),
            "records-lead-min": max(min(leads, default=NOTHING), 0),
            "assigned-partitions": float(len(states)),
        }

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the user's position in each partition, which can be committed."""
        unread = self._first_unread()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, state in self._positions.states.items():
            if not state.is_known:
                continue
            if partition in unread:
                # The epoch of the record before that offset is not kept; NO_EPOCH skips the check.
                found[partition] = OffsetAndMetadata(unread[partition], "", NO_EPOCH)
            else:
                found[partition] = OffsetAndMetadata(state.position, "", state.position_epoch)
        return found

    def _first_unread(self) -> dict[TopicPartition, int]:
        """Return the lowest offset of each partition among the unread records."""
        first: dict[TopicPartition, int] = {}
        for record in self.unread:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first
