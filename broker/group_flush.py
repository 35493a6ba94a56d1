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

from ..runtime.errors import LogDirectoryFailed
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from .flushed_replica import FlushedReplica

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
        self._turns: dict[FlushedReplica, _Turn] = {}
        self._waiting: asyncio.Queue[FlushedReplica] = asyncio.Queue()
        self._lanes: list[asyncio.Task[None]] = []
        self.on_follower_flushed: Callable[[FlushedReplica], None] = lambda replica: None
        """Told when a replica that follows has more on stable storage: its leader waits for it."""

    def soon(self, replica: "FlushedReplica") -> None:
        """Flush its log as soon as there is a lane, unless it is about to be."""
        turn = self._turns.get(replica)
        if turn is None:
            self._turns[replica] = _Turn.WAITING
            self._waiting.put_nowait(replica)
            if len(self._lanes) < min(LANES, len(self._turns)):
                name = f"group flush {len(self._lanes)}"
                self._lanes.append(self._runtime.spawn(self._work(), name))
        elif turn is _Turn.FLUSHING:
            self._turns[replica] = _Turn.AGAIN

    async def close(self) -> None:
        """Flush no more; closing the logs flushes what is left."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.cancel()
        if lanes:
            await asyncio.wait(lanes)

    async def _work(self) -> None:
        while True:
            replica = await self._waiting.get()
            self._turns[replica] = _Turn.FLUSHING
            await self._flush(replica)
            if self._turns.pop(replica) is _Turn.AGAIN:
                self.soon(replica)

    async def _flush(self, replica: "FlushedReplica") -> None:
        if replica.offline_because:
            return
        try:
            await replica.log.flush()
        except LogDirectoryFailed as error:
            log.error("%s", error)  # whoever watches the directory was told
            return
        if replica.offline_because:
            return
        replica.on_flushed()
        if replica.follower is not None:
            self.on_follower_flushed(replica)
