"""The scrub: it reads every complete segment from disk at an interval, and checks it for damage.

The scrub finds damage in segments that nobody reads, while peers still have the batches. It decides
the timing and the rate; storage checks the batches, and repair.py repairs them. The scrub skips the
newest segments, whose bytes are still in memory, and segments that are not flushed. Reads bypass
the page cache, which proves nothing about the disk and which other readers need. They run off the
event loop; the check of one read takes a fraction of a millisecond on the loop
(docs/decisions/0020).
"""

import asyncio
import logging

from ...runtime.errors import LogDirectoryFailed
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..config import BrokerConfig
from ..partition.partition import Partition
from ..partitions import Partitions

log = logging.getLogger(__name__)

FIRST_AFTER_MS = 600_000
"""The longest time, in ms, before the first scrub. A broker that has just started has other work,
but one that is restarted often must be scrubbed too."""


class Scrub:
    """Runs the scrub of one broker."""

    def __init__(self, runtime: Runtime, config: BrokerConfig, partitions: Partitions) -> None:
        self._runtime = runtime
        self._config = config
        self._partitions = partitions
        self._free_at_ms = 0.0
        self._task = OwnedTask(runtime, "scrub")

    def start(self) -> None:
        """Start the scrub, unless its interval is 0."""
        if self._config.log_scrub_interval_ms > 0:
            self._task.start(self._run)

    async def close(self) -> None:
        """Stop the scrub."""
        await self._task.stop()

    async def _run(self) -> None:
        interval_ms = self._config.log_scrub_interval_ms
        await asyncio.sleep(min(interval_ms, FIRST_AFTER_MS) / 1000)
        while True:
            began_ms = self._runtime.monotonic_ms()
            await self.read_all()
            took_ms = self._runtime.monotonic_ms() - began_ms
            await asyncio.sleep(max(interval_ms - took_ms, 0) / 1000)

    async def read_all(self) -> None:
        """Read and check all complete segments once."""
        segment_count = damaged_count = 0
        for partition in list(self._partitions):
            try:
                read, damaged = await self._read(partition)
            except LogDirectoryFailed as error:
                log.error("%s", error)
                continue
            segment_count += read
            damaged_count += damaged
        if segment_count:
            log.info("scrub: %d segments read, %d damaged", segment_count, damaged_count)

    async def _read(self, partition: Partition) -> tuple[int, int]:
        read = damaged = 0
        for segment in list(partition.log.segments[:-1]):
            if partition.offline_because:
                break
            if segment.is_removed or segment.next_offset > partition.log.flushed_offset:
                continue
            read += 1
            damaged += await partition.log.reader.inspect(segment, self._pay) is not None
            if not segment.is_removed and segment.aborted.mend():
                damaged += 1
                log.warning(
                    "%r: %s: its index of aborted transactions was lost", partition, segment
                )
        return read, damaged

    async def _pay(self, count: int) -> None:
        """Wait until the rate permits `count` more bytes to be read."""
        now_ms = self._runtime.monotonic_ms()
        start_ms = max(self._free_at_ms, now_ms)
        self._free_at_ms = start_ms + count * 1000 / self._config.log_scrub_bytes_per_second
        if start_ms > now_ms:
            await asyncio.sleep((start_ms - now_ms) / 1000)
