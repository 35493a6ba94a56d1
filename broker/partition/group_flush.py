"""Flushes logs under `flush.policy=group`, off the event loop, one flush at a time for each log.

Under this policy a replica counts only up to its flushed offset: acks=1 waits for the leader's own
flush, acks=all for the flushes of all members of the ISR. Each append requests a flush of its log.
Appends before a flush begins share that flush; later appends share the next one. If a flush fails,
the directory goes offline, and its producers are answered with that error.
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
"""The most logs flushed at the same time, as many as there are threads that wait for the disk."""


class _Turn(Enum):
    WAITING = "waits for a lane"
    FLUSHING = "is being flushed"
    AGAIN = "is being flushed, and has grown meanwhile"


class GroupFlush:
    """Runs the flushes of one broker's logs, and keeps the producers with acks=1 that wait."""

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
        """Queue a flush of the partition's log; if a flush is running, another one follows."""
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
        """Queue a flush if the log is under `flush.policy=group` and is not flushed to its end."""
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
        """Call `done` once `appended` is flushed or has failed; return None if that is so now.

        Otherwise return the waiter, which fails at `deadline_ms` (monotonic).
        """
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
        """Answer waiting producers with an error: the role has ended or the disk has failed."""
        waiters = self._waiters.pop(partition, None)
        if waiters is not None:
            waiters.fail(error)

    async def close(self) -> None:
        """Stop flushing; the logs are flushed once more when they are closed."""
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
            log.error("%s", error)  # the directory itself reports its failure to `Failing`
            return
        if partition.offline_because:
            return
        self._on_flushed(partition)
        if partition.follower is not None:
            self._on_follower_flushed(partition)

    def _on_flushed(self, partition: "Partition") -> None:
        """Answer producers whose records are flushed; tell a follower's leader the new offset."""
        flushed_offset = partition.log.flushed_offset
        waiters = self._waiters.get(partition)
        if waiters is not None:
            waiters.complete(flushed_offset, ErrorCode.NONE)
        leader = partition.leader
        if leader is not None:
            carry_out(partition, leader.on_flushed(flushed_offset, partition.host.monotonic_ms()))
