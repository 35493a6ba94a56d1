"""The timers of a broker: they checkpoint, shrink ISRs, retire segments and flush.

This module decides the timing only. High watermarks are checkpointed at an interval, because a
restart needs only rough values: followers and leaders learn the exact ones again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ...protocol.types import TopicPartition
from ...runtime.errors import LogDirectoryFailed
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from ...storage.directory import LogDirectory
from ...storage.log import Log
from ..config import BrokerConfig
from ..partition.leading import carry_out
from ..partition.partition import Partition
from ..partitions import Partitions
from ..replica.silence import LOOK_MS

log = logging.getLogger(__name__)

NEVER_MS = 2**62
CLOCK_STEP_MS = 60_000
"""A wall clock that gains more than this between two checks was set, rather than slewed."""
TURN_PARTITIONS = 200
"""The number of partitions to check before other tasks of the event loop get a turn."""


class Upkeep:
    """Runs the recurring work of one broker."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        partitions: Partitions,
        producer_expiration_ms: Callable[[], int],
        note_metadata: Callable[[], Awaitable[None]],
    ) -> None:
        """`producer_expiration_ms` is called at each check, because the setting may change.

        `note_metadata` saves the metadata position; it is called when checkpoints are written.
        """
        self._runtime = runtime
        self._partitions = partitions
        self._producer_expiration_ms = producer_expiration_ms
        checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
        self._works: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("checkpoints", checkpoint_ms, self.checkpoint),
            ("retention", config.log_retention_check_interval_ms, self.retire),
            ("lag check", max(1, config.replica_lag_time_max_ms // 4), self.check_lag),
            ("silence check", LOOK_MS, self.check_silence),
            ("flush", config.log_flush_scheduler_interval_ms, self.flush),
            ("metadata position", checkpoint_ms, note_metadata),
        ]
        self._behind_ms = runtime.wall_ms() - runtime.monotonic_ms()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all recurring work, each at its own interval."""
        for name, interval_ms, work in self._works:
            if interval_ms < NEVER_MS:
                self._tasks.append(self._runtime.spawn(self._repeat(interval_ms, work), name))

    async def close(self) -> None:
        """Stop all recurring work; `close_directories` writes the final checkpoints."""
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    @staticmethod
    async def _repeat(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await work()

    async def checkpoint(self) -> None:
        """Write the checkpoints of each directory in which a high watermark has moved."""
        partitions = self._partitions
        moved, partitions.host.moved = partitions.host.moved, {}
        directories: dict[LogDirectory, None] = {}
        for partition in moved:
            if not partition.offline_because:
                directories[partitions.directory_of(partition)] = None
        for directory in directories:
            try:
                await directory.checkpoint(high_watermarks(partitions, directory))
            except LogDirectoryFailed as error:
                log.error("%s", error)

    async def retire(self) -> None:
        """Delete segments past their retention, and forget producers that are idle for too long."""
        now_ms = self._runtime.wall_ms()
        expire_after_ms = self._producer_expiration_ms()
        set_forward_ms = self._set_forward_ms(now_ms)
        for turn, partition in enumerate(list(self._partitions), start=1):
            if turn % TURN_PARTITIONS == 0:
                await asyncio.sleep(0)
            if set_forward_ms:
                partition.log.producers.postpone_expiry(set_forward_ms, now_ms)
            if not partition.offline_because:
                self._retire(partition, now_ms, expire_after_ms)

    def _set_forward_ms(self, now_ms: int) -> int:
        """Return by how much the wall clock was set forward since the last call; 0 if it was not.

        Machines without a clock of their own begin in the past, and are set by NTP once brokers
        run. Producers whose state expired then could have their last batch doubled.
        """
        behind_ms = now_ms - self._runtime.monotonic_ms()
        step_ms, self._behind_ms = behind_ms - self._behind_ms, behind_ms
        return step_ms if step_ms > CLOCK_STEP_MS else 0

    def _retire(self, partition: Partition, now_ms: int, expire_after_ms: int) -> None:
        partition.write_staged()
        try:
            count = partition.log.delete_old_segments(now_ms, partition.high_watermark)
        except LogDirectoryFailed as error:
            partition.on_storage_error(error)
            return
        if count:
            start = partition.log_start_offset
            log.info("%r: %d old segments deleted, now begins at %d", partition, count, start)
            partition.data_waiters.note_followers(partition)
            self._partitions.fetchers.tell(partition)
        forget_idle_producers(partition, now_ms, expire_after_ms)

    async def check_lag(self) -> None:
        """Propose ISRs without followers that are too far behind."""
        now_ms = self._runtime.monotonic_ms()
        for turn, partition in enumerate(list(self._partitions), start=1):
            if turn % TURN_PARTITIONS == 0:
                await asyncio.sleep(0)
            if partition.leader is not None:
                carry_out(partition, partition.leader.on_lag_check(now_ms))

    async def check_silence(self) -> None:
        """Propose ISRs without followers that have stopped fetching."""
        heard = self._partitions.heard
        now_ms = self._runtime.monotonic_ms()
        for follower in heard.silent(now_ms):
            is_member = False
            for turn, partition in enumerate(list(self._partitions), start=1):
                if turn % TURN_PARTITIONS == 0:
                    await asyncio.sleep(0)
                leader = partition.leader
                if leader is not None and follower in leader.metadata.isr:
                    is_member = True
                    carry_out(partition, leader.on_lag_check(now_ms, silent=follower))
            if not is_member:
                heard.forget(follower)

    async def flush(self) -> None:
        """Flush the logs that have flush.ms set and hold unflushed records."""
        due: list[Log] = [
            partition.log
            for partition in self._partitions
            if partition.log.config.flush_ms < NEVER_MS
            and partition.log.flushed_offset < partition.log_end_offset
            and not partition.offline_because
        ]
        for one in due:
            try:
                await one.flush()
            except LogDirectoryFailed as error:
                log.error("%s", error)


def forget_idle_producers(partition: Partition, now_ms: int, expire_after_ms: int) -> int:
    """Forget producers idle for `expire_after_ms`; return their number. `now_ms` is wall time."""
    since_ms = partition.host.monotonic_ms() - expire_after_ms
    partition.verifications.remove_older(since_ms)
    return partition.log.producers.remove_expired(now_ms, expire_after_ms)


def high_watermarks(partitions: Partitions, directory: LogDirectory) -> dict[TopicPartition, int]:
    """Return the directory's high watermarks; for unclaimed logs those of the last checkpoint."""
    now = {
        TopicPartition(partition.topic, partition.index): partition.high_watermark
        for partition in partitions
        if partitions.directory_of(partition) is directory
    }
    return {name: at for name, at in {**directory.checkpoints.high_watermarks, **now}.items() if at}


async def close_directories(partitions: Partitions, *, broker_epoch: int) -> None:
    """Flush and close every log, write the checkpoints, and mark the stop as clean."""
    partitions.write_staged()
    for directory in partitions.store.directories:
        try:
            await directory.close(high_watermarks(partitions, directory), broker_epoch=broker_epoch)
        except LogDirectoryFailed as error:
            log.error("%s", error)
