"""The progress of the user in each partition: what can be committed, and what would come again.

Pure. A position lies after all that polls have returned. The user has not come as far while some
of a poll's records wait to be iterated over, or if an exception comes before they are dealt with.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from ...protocol.types import NO_EPOCH, TopicPartition
from ..group_types import OffsetAndMetadata
from ..records import ConsumerRecord
from .positions import PartitionState, Positions


class Progress:
    """The user's progress through the assigned partitions."""

    def __init__(self, positions: Positions) -> None:
        self.unread: deque[ConsumerRecord[Any, Any]] = deque()
        """Records that a poll returned and that iterating has not handed out yet."""
        self.in_hand: dict[TopicPartition, OffsetAndMetadata] = {}
        """The position of each partition of the newest poll's records, as it was before that poll.
        """
        self._positions = positions

    def note_in_hand(self, state: PartitionState) -> None:
        """Remember where a partition is, before the poll under way takes records of it."""
        before = OffsetAndMetadata(state.position, "", state.position_epoch)
        self.in_hand.setdefault(state.partition, before)

    def forget_in_hand(self) -> None:
        """Go back to before the newest poll: the user has not dealt with its records."""
        for partition, before in self.in_hand.items():
            state = self._positions.states.get(partition)
            if state is not None and state.is_known and state.position >= before.offset:
                state.jump(before.offset, before.leader_epoch)
        self.in_hand.clear()
        self.unread.clear()

    def drop_unread(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Hand out none of the records of these partitions that wait to be iterated over."""
        if self.unread:
            gone: dict[Any, None] = dict.fromkeys(partitions)
            kept = [record for record in self.unread if record[:2] not in gone]
            self.unread.clear()
            self.unread.extend(kept)

    def position_of(self, state: PartitionState) -> int:
        """Give the offset of the next record that the user gets of a partition."""
        unread = self._first_unread() if self.unread else {}
        return unread.get(state.partition, state.position)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Say how far the user has come in each partition: this is what can be committed."""
        unread = self._first_unread()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, state in self._positions.states.items():
            if not state.is_known:
                continue
            if partition in unread:
                # No epoch is kept of the record before that offset; without one nothing is checked.
                found[partition] = OffsetAndMetadata(unread[partition], "", NO_EPOCH)
            else:
                found[partition] = OffsetAndMetadata(state.position, "", state.position_epoch)
        return found

    def _first_unread(self) -> dict[TopicPartition, int]:
        """Give the lowest offset of each partition among the unread records."""
        first: dict[TopicPartition, int] = {}
        for record in self.unread:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first
