"""Where a consumer reads on: positions, jumps, pauses, and how much is left to read.

Positions are the user's: records that wait to be iterated over count as not read yet.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Generic

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import NO_EPOCH, TopicPartition
from ...runtime.runtime import Runtime
from ..errors import RequestTimedOut
from ..group_types import OffsetAndMetadata
from ..records import ConsumerRecord
from ..serialization import K, V
from .fetcher import Fetcher
from .positions import PartitionState, Positions
from .questions import DEFAULT_TIMEOUT_MS, Partition, Questions


class Seeking(Questions, Generic[K, V]):
    """The part of a consumer that knows where it reads."""

    _runtime: Runtime
    _positions: Positions
    _fetcher: Fetcher | None
    _iterated: deque[ConsumerRecord[K, V]]
    """Returned by a poll and not yet handed out one by one."""

    @property
    def unread(self) -> deque[ConsumerRecord[K, V]]:
        """For the sync consumer, which iterates in a thread of its own while nothing else runs."""
        return self._iterated

    def _started(self) -> Fetcher:
        self._check_usable()
        assert self._fetcher is not None
        return self._fetcher

    def _state(self, partition: Partition) -> PartitionState:
        state = self._positions.states.get(TopicPartition(*partition))
        if state is None:
            raise ValueError(f"{partition} is not assigned")
        return state

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return list(self._positions.states)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, without losing the position.

        A rebalance that leaves a partition here leaves it paused.
        """
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, *partitions: Partition) -> None:
        """Include paused partitions again."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._started().on_positions_changed()
        self._started().buffer.arrived.set()

    def paused(self) -> list[TopicPartition]:
        """List the partitions that are paused."""
        return [at for at, state in self._positions.states.items() if state.is_paused]

    # -- jumps

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`; one outside the log is handled by auto_offset_reset."""
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        self._state(partition).jump(offset)
        self._jumped([partition])

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record of these partitions, or of all."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Sequence[Partition], timestamp: int) -> None:
        chosen = partitions or self.assignment()
        for partition in chosen:
            self._state(partition).look_up(timestamp)
        self._jumped(chosen)

    def _jumped(self, partitions: Iterable[Partition]) -> None:
        self._drop_unread(partitions)
        self._started().on_positions_changed()

    def _drop_unread(self, partitions: Iterable[Partition]) -> None:
        """Nobody will iterate over what waits of these partitions."""
        if self._iterated:
            gone: dict[Any, None] = dict.fromkeys(partitions)
            kept = [record for record in self._iterated if record[:2] not in gone]
            self._iterated.clear()
            self._iterated.extend(kept)

    # -- how far

    async def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Give the offset of the next record that a poll will return.

        Waits for the offset to be looked up; RequestTimedOut after `timeout_ms`,
        NoOffsetForPartition where auto_offset_reset=none leaves none.
        """
        state = self._state(partition)
        buffer = self._started().buffer
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not state.is_known:
                    if self._positions.is_lost(state):
                        buffer.raise_error()
                        raise self._positions.lost()[0]
                    buffer.arrived.clear()
                    await buffer.arrived.wait()
                    self._started()
        except TimeoutError:
            raise RequestTimedOut(f"{partition}: the position is not known yet") from None
        return self._unread().get(state.partition, state.position)

    def _unread(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that waits to be iterated over."""
        first: dict[TopicPartition, int] = {}
        for record in self._iterated:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the user has come in each partition: what can be committed."""
        unread = self._unread()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, state in self._positions.states.items():
            if not state.is_known:
                continue
            if partition in unread:
                # The epoch of the record before it is not kept; without one nothing is checked.
                found[partition] = OffsetAndMetadata(unread[partition], "", NO_EPOCH)
            else:
                found[partition] = OffsetAndMetadata(state.position, "", state.position_epoch)
        return found

    def high_watermark(self, partition: Partition) -> int | None:
        """Give the high watermark as of the newest fetch; None before the first."""
        known = self._state(partition).high_watermark
        return None if known < 0 else known

    def lag(self, partition: Partition | None = None) -> int | None:
        """Count the records still to read in a partition, or in all, as of the newest fetches.

        Up to the high watermark, or under read_committed up to the last stable offset; markers of
        transactions count too. None while it is not known of one of them.
        """
        if partition is not None:
            return self._lag_of(self._state(partition))
        lags = [self._lag_of(state) for state in self._positions.states.values()]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    def _lag_of(self, state: PartitionState) -> int | None:
        end = state.high_watermark
        if self.config.isolation_level == "read_committed" and state.last_stable_offset >= 0:
            end = min(end, state.last_stable_offset)
        if end < 0 or not state.is_known:
            return None
        unread = self._unread() if self._iterated else {}
        return max(end - unread.get(state.partition, state.position), 0)
