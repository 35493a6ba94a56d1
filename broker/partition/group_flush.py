"""Flushes of logs under `flush.policy=group`: off the loop, one at a time for each log.

Under it a copy counts only as far as it is on stable storage: acks=1 waits for the leader's own
flush, acks=all for those of all members of the ISR. Whoever appended to a log asks for a flush of
it; all that is appended before the flush begins shares it, and what comes later shares the next.
An error is the end of the directory, as always; those who waited hear of it from there.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...runtime.errors import LogDirectoryFailed
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from .leading import carry_out
from .requests import Appended
from .waiters import CommitWaiters, Waiter

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
    """The flushes that writers of one broker wait for, and the producers among them."""

    def __init__(
        self, runtime: Runtime, on_follower_flushed: Callable[["Partition"], None]
    ) -> None:
        """`on_follower_flushed` is called with a replica whose leader waits for its flush."""
        self._runtime = runtime
        self._turns: dict[Partition, _Turn] = {}
        self._waiting: asyncio.Queue[Partition] = asyncio.Queue()
        self._lanes: list[asyncio.Task[None]] = []
        self._waiters: dict[Partition, CommitWaiters] = {}
        self._on_follower_flushed = on_follower_flushed

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

    def catch_up(self, partition: "Partition") -> None:
        """Flush what is not flushed yet, if the partition's copy counts only as far as it is."""
        log = partition.log
        if partition.role.metadata.group_flush and log.flushed_offset < log.log_end_offset:
            self.soon(partition)

    def when_flushed(
        self,
        partition: "Partition",
        appended: Appended,
        deadline_ms: int,
        done: Callable[[], None],
    ) -> Waiter | None:
        """Call `done` once `appended` is final for acks=1; at once, with None, if it is."""
        if partition.leader is None and not appended.error:
            appended.error = partition.error_without_leader
        offset = appended.last_offset + 1
        if appended.error or offset <= partition.log.flushed_offset:
            done()
            return None
        waiters = self._waiters.get(partition)
        if waiters is None:
            waiters = self._waiters[partition] = CommitWaiters(partition.host.wheel)
        waiter = Waiter(offset, appended, deadline_ms, done)
        waiters.add(waiter)
        return waiter

    def fail(self, partition: "Partition", error: ErrorCode) -> None:
        """Answer waiting producers with an error: role or disk is gone, and records may be lost."""
        waiters = self._waiters.pop(partition, None)
        if waiters is not None:
            waiters.fail(error)

    async def close(self) -> None:
        """Stop flushing; closing the logs flushes what is left."""
        lanes, self._lanes = self._lanes, []
        await end_tasks(lanes)

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
        self._on_flushed(partition)
        if partition.follower is not None:
            self._on_follower_flushed(partition)

    def _on_flushed(self, partition: "Partition") -> None:
        """Answer producers, and tell the leader: more of the log is stable."""
        flushed_offset = partition.log.flushed_offset
        waiters = self._waiters.get(partition)
        if waiters is not None:
            waiters.complete(flushed_offset, ErrorCode.NONE)
        leader = partition.leader
        if leader is not None:
            carry_out(partition, leader.on_flushed(flushed_offset, partition.host.monotonic_ms()))
