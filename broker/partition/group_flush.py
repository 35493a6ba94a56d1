"""Flushes of logs under `flush.policy=group`: off the loop, one at a time for each log.

Whoever appended to a log asks for a flush of it; all that is appended before the flush begins
shares it, and what comes later shares the next. An error is the end of the directory, as always;
those who waited hear of it from there.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from ...runtime.errors import LogDirectoryFailed
from ...runtime.runtime import Runtime

if TYPE_CHECKING:
    from .partition import Partition

log = logging.getLogger(__name__)

LANES = 4
"""Logs flushed at the same time: as many as there are threads that wait for the disk."""


class _Turn(Enum):
    WAITING = "waits for a lane"
    FLUSHING = "is being flushed"
    AGAIN = "is being flushed, and has grown meanwhile"


class GroupFlush:
    """The flushes that writers of one broker wait for."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turns: dict[Partition, _Turn] = {}
        self._waiting: asyncio.Queue[Partition] = asyncio.Queue()
        self._lanes: list[asyncio.Task[None]] = []
        self.on_follower_flushed: Callable[[Partition], None] = lambda partition: None
        """Told when more of one that follows is on stable storage: its leader waits for it."""

    def soon(self, partition: "Partition") -> None:
        """Flush its log as soon as there is a lane, unless it is about to be."""
        turn = self._turns.get(partition)
        if turn is None:
            self._turns[partition] = _Turn.WAITING
            self._waiting.put_nowait(partition)
            if len(self._lanes) < min(LANES, len(self._turns)):
                name = f"group flush {len(self._lanes)}"
                self._lanes.append(self._runtime.spawn(self._work(), name))
        elif turn is _Turn.FLUSHING:
            self._turns[partition] = _Turn.AGAIN

    async def close(self) -> None:
        """Flush no more; closing the logs flushes what is left."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.cancel()
        if lanes:
            await asyncio.wait(lanes)

    async def _work(self) -> None:
        while True:
            partition = await self._waiting.get()
            self._turns[partition] = _Turn.FLUSHING
            await self._flush(partition)
            if self._turns.pop(partition) is _Turn.AGAIN:
                self.soon(partition)

    async def _flush(self, partition: "Partition") -> None:
        if partition.offline_because:
            return
        try:
            await partition.log.flush()
        except LogDirectoryFailed as error:
            log.error("%s", error)  # whoever watches the directory was told
            return
        if partition.offline_because:
            return
        partition.on_flushed()
        if partition.follower is not None:
            self.on_follower_flushed(partition)
