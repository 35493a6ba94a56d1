"""Seeks and pauses of a consumer, and its positions and lag.

Records of a poll that iteration has not handed out yet count as unread.
"""

import asyncio
from collections.abc import Iterable, Sequence

from ...protocol.types import TopicPartition
from ..errors import RequestTimedOut
from .engine import Engine
from .positions import PartitionState
from .questions import Partition


class Seeking:
    """Moves and pauses the assigned partitions, and returns their positions and lag."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._positions = engine.positions
        self._progress = engine.progress
        self._fetcher = engine.fetcher

    def _state(self, partition: Partition) -> PartitionState:
        state = self._positions.states.get(TopicPartition(*partition))
        if state is None:
            raise ValueError(f"{partition} is not assigned")
        return state

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Leave these partitions out of polls, without losing the position."""
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Include paused partitions in polls again."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._engine.check_usable()
        self._fetcher.on_positions_changed()
        self._fetcher.buffer.arrived.set()

    def paused(self) -> list[TopicPartition]:
        """List the partitions that are paused."""
        return [at for at, state in self._positions.states.items() if state.is_paused]

    # -- jumps

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at `offset`; the broker checks the offset when it is fetched.

        Raise ValueError if `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        self._state(partition).jump(offset)
        self._on_jumped([partition])

    def seek_to(self, partitions: Sequence[Partition], timestamp: int) -> None:
        """Continue at the offset that a lookup of `timestamp` finds.

        If `partitions` is empty, this applies to all assigned partitions.
        """
        chosen = partitions or list(self._positions.states)
        for partition in chosen:
            self._state(partition).look_up(timestamp)
        self._on_jumped(chosen)

    def _on_jumped(self, partitions: Iterable[Partition]) -> None:
        self._progress.drop_unread(partitions)
        self._engine.check_usable()
        self._fetcher.on_positions_changed()

    # -- how far

    async def position(self, partition: Partition, timeout_ms: int) -> int:
        """Return the offset of the next record for the user, once it is looked up.

        Raise RequestTimedOut if it is not known within `timeout_ms`.
        """
        state = self._state(partition)
        self._engine.check_usable()
        buffer = self._fetcher.buffer
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not state.is_known:
                    if self._positions.is_lost(state):
                        buffer.raise_error()
                        raise self._positions.lost()[0]
                    buffer.arrived.clear()
                    await buffer.arrived.wait()
                    self._engine.check_usable()
        except TimeoutError:
            raise RequestTimedOut(f"{partition}: the position is not known yet") from None
        return self._progress.position_of(state)

    def high_watermark(self, partition: Partition) -> int | None:
        """Return the high watermark that the newest fetch reported; None before the first."""
        known = self._state(partition).high_watermark
        return None if known < 0 else known

    def lag(self, partition: Partition | None) -> int | None:
        """Return the lag of a partition, or of all; None while the lag of any is unknown."""
        if partition is not None:
            return self._progress.lag_of(self._state(partition))
        lags = [self._progress.lag_of(state) for state in self._positions.states.values()]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None
