"""Reports our log ends to a controller that looks for the longest copy of a partition.

A partition in the state `electing` has no leader and no replica in sync; its metadata asks every
live replica for the end of its log. Reports are repeated until the metadata no longer asks, because
a new controller has received none of them. They are idempotent.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from ...protocol.control.messages import LogEnd, ReportLogEnds
from ...protocol.errors import ApiError
from ...protocol.types import NO_EPOCH
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ..control.controller_channel import ControllerChannel
from ..partition.partition import Partition

REPEAT_MS: Final = 250
"""Milliseconds between reports, well within the time for which the controller waits for one."""

log = logging.getLogger(__name__)


class LogEndReports:
    """Reports the ends of logs as long as the metadata asks for them."""

    def __init__(
        self,
        runtime: Runtime,
        channel: ControllerChannel,
        is_electing: Callable[[Partition], bool],
    ) -> None:
        """`is_electing` is true while the newest metadata asks for the partition's log end."""
        self._channel = channel
        self._is_electing = is_electing
        self._asked: dict[Partition, None] = {}
        self._news = asyncio.Event()
        self._task = OwnedTask(runtime, "log end reports")

    def ask(self, partitions: Iterable[Partition]) -> None:
        """Report the log ends of these partitions; call this when such metadata is applied."""
        self._asked.update(dict.fromkeys(partitions))
        if not self._asked:
            return
        self._news.set()
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop reporting."""
        await self._task.stop()

    async def _run(self) -> None:
        while ends := self._ends():
            self._news.clear()
            await self._report(ends)
            await happens_within(self._news, REPEAT_MS)

    def _ends(self) -> tuple[LogEnd, ...]:
        """Return the log end of each partition still asked for, and forget the others."""
        self._asked = {each: None for each in self._asked if self._is_electing(each)}
        return tuple(_end_of(partition) for partition in self._asked)

    async def _report(self, ends: tuple[LogEnd, ...]) -> None:
        channel = self._channel
        request = ReportLogEnds(channel.broker_id, channel.broker_epoch, ends)
        try:
            answer = await channel.call(request)
        except ApiError as error:
            log.debug("log ends: %s", error)
            return
        if answer.error:
            log.info("log ends: %d %s", answer.error, answer.message)


def _end_of(partition: Partition) -> LogEnd:
    log, end = partition.log, partition.log_end_offset
    # If all records were deleted, the epoch of the last one is that of the log's end itself.
    last = max(end - 1, log.log_start_offset)
    return LogEnd(
        topic_id=partition.topic_id,
        partition=partition.index,
        leader_epoch=partition.leader_epoch,
        last_epoch=log.leader_epochs.epoch_for(last) if end else NO_EPOCH,
        log_end_offset=end,
        high_watermark=partition.high_watermark,
    )
