"""Compacts the logs of a broker: the dirtiest first, one at a time, within a rate.

`Compaction` decides the timing and the rate, and checkpoints the offset up to which each log is
compacted. Storage decides which part of a log is due, and compacts that part in a worker process.
Leaders and followers alike compact their logs, up to the last stable offset that they know.
"""

import asyncio
import logging
from collections.abc import Callable

from ...protocol.types import TopicPartition
from ...runtime.config import MiB, config_table, setting
from ...runtime.errors import LogDirectoryFailed
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ...storage.compaction.compactor import Compactor, Due, due
from ...storage.compaction.finished import due_of_finished, needed_in
from ..partition.partition import Partition
from ..partitions import Partitions

log = logging.getLogger(__name__)

TURN_PARTITIONS = 200
PUT_OFF_MS = 60_000
"""Milliseconds of pause after a round that was given up, so that damage is repaired or the disk
gets room."""


@config_table
class CompactionConfig:
    """The settings of log compaction."""

    log_cleaner_enable: bool = setting(
        "log.cleaner.enable",
        True,
        doc="Whether logs are compacted. If not, compacted topics grow without bound, "
        "__consumer_offsets among them.",
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        at_least=0,
        dynamic=True,
        doc="How long to wait, if no log needs compaction, before the logs are checked again.",
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size",
        128 * MiB,
        at_least=1024,
        dynamic=True,
        doc="Memory for the keys of one round, some 200 bytes each; more keys take more rounds.",
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        at_least=1,
        dynamic=True,
        doc="The most bytes a second that compaction reads and writes, both together.",
    )


class Compaction:
    """Runs the log compaction of one broker."""

    def __init__(
        self, runtime: Runtime, settings: Callable[[], CompactionConfig], partitions: Partitions
    ) -> None:
        """`settings` returns the present settings; call `on_settings` after a change."""
        self._runtime = runtime
        self._settings = settings
        self._config = settings()
        self._resettled = asyncio.Event()
        self._partitions = partitions
        map_bytes = self._config.log_cleaner_dedupe_buffer_size
        self._compactor = Compactor(runtime, map_bytes, self._pay)
        self._free_at_ms = 0.0
        self._put_off: dict[Partition, int] = {}
        self._left: dict[Partition, dict[int, int]] = {}
        """The number of records left in segments of delay topics that were rewritten."""
        self._task = OwnedTask(runtime, "compaction")

    def start(self) -> None:
        """Start compaction, if `log.cleaner.enable` is set."""
        if self._config.log_cleaner_enable:
            self._task.start(self._run)

    async def close(self) -> None:
        """Stop. A round in progress is given up, and its unfinished files are removed later."""
        await self._task.stop()

    def on_settings(self) -> None:
        """Apply changed settings, which end a running pause."""
        config = self._settings()
        if config != self._config:
            self._config = config
            self._compactor.map_bytes = config.log_cleaner_dedupe_buffer_size
            self._resettled.set()

    async def _run(self) -> None:
        while True:
            while not await self._pause(max(self._config.log_cleaner_backoff_ms, 1)):
                pass
            while await self.compact_one():
                pass

    async def _pause(self, pause_ms: float) -> bool:
        """Wait for `pause_ms`; return False as soon as the settings change."""
        self._resettled.clear()
        return not await happens_within(self._resettled, pause_ms)

    async def compact_one(self) -> bool:
        """Compact the log that needs it most; return False if no log needs it."""
        found = await self._dirtiest()
        if found is None:
            return False
        partition, part = found
        try:
            await self._compact(partition, part)
        except LogDirectoryFailed as error:
            partition.on_storage_error(error)
        return True

    async def _dirtiest(self) -> tuple[Partition, Due] | None:
        now_ms, monotonic_ms = self._runtime.wall_ms(), self._runtime.monotonic_ms()
        self._put_off = {
            each: until
            for each, until in self._put_off.items()
            if until > monotonic_ms and not each.offline_because
        }
        self._left = {each: left for each, left in self._left.items() if not each.offline_because}
        most: tuple[Partition, Due] | None = None
        for turn, partition in enumerate(list(self._partitions), start=1):
            if turn % TURN_PARTITIONS == 0:
                await asyncio.sleep(0)
            owner = partition.log
            config = owner.config
            is_candidate = config.is_compacted or config.delay.is_on
            if not is_candidate or partition.offline_because or partition in self._put_off:
                continue
            if len(owner.segments) < 2 or owner.copy is not None:
                continue  # A copy would miss the older records that a tombstone has outlived.
            compacted_to = self._partitions.directory_of(partition).compacted.of(_name(partition))
            if config.is_compacted:
                part = due(owner, compacted_to, partition.last_stable_offset, now_ms)
            else:
                left = self._left.get(partition, {})
                part = due_of_finished(owner, left, partition.last_stable_offset, now_ms)
            if part is not None and (most is None or part.urgency > most[1].urgency):
                most = partition, part
        return most

    async def _compact(self, partition: Partition, part: Due) -> None:
        owner, directory = partition.log, self._partitions.directory_of(partition)
        end = await self._compactor.compact(owner, part)
        if end is None:
            self._put_off[partition] = self._runtime.monotonic_ms() + PUT_OFF_MS
        elif part.finished is not None:
            segment = part.segments[0]
            left = self._left.setdefault(partition, {})
            left[segment.base_offset] = needed_in(segment, part.finished)
        elif owner.is_in_use and self._partitions.directory_of(partition) is directory:
            await directory.compacted.note(_name(partition), end)

    async def _pay(self, count: int) -> None:
        """Wait until the rate permits `count` more bytes to be read and written."""
        now_ms = self._runtime.monotonic_ms()
        took_ms = count * 1000 / self._config.log_cleaner_io_max_bytes_per_second
        self._free_at_ms = max(self._free_at_ms, now_ms) + took_ms
        if self._free_at_ms > now_ms and not await self._pause(self._free_at_ms - now_ms):
            self._free_at_ms = 0.0  # The rate may have changed: the rest of the wait is dropped.


def _name(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)
