"""Reads a partition of an internal topic from its beginning, record by record, into a state.

Loading reads all records that this broker's log holds when loading begins, and ends once the high
watermark has reached the end of these records. Some of them, from earlier leaders, may not be
committed yet, and no request may be answered before they are.
"""

import asyncio
import logging

from ...protocol.errors import RemoteProtocolError
from ...protocol.records.batch_header import BatchHeader, headers
from ...protocol.records.records import records
from ...protocol.types import Buffer
from ..partition.own_reading import behind_gap, read_own
from ..partition.partition import Partition
from .shard import Shard, State

RETRY_S = 1.0
COMMIT_MARKER = 1

log = logging.getLogger(__name__)


async def load(shard: Shard[State]) -> bool:
    """Fill the state of a shard; return False if the shard was closed meanwhile."""
    partition = shard.partition
    partition.write_staged()
    end = partition.log_end_offset
    offset, count = partition.log_start_offset, 0
    while shard.is_open and offset < end:
        data = await read_own(partition, offset, end)
        if data is None:
            await asyncio.sleep(RETRY_S)  # A damaged log may be under repair; or the disk failed.
            continue
        if not len(data):
            offset = behind_gap(partition, offset, end)
            continue
        for position, header in headers(data):
            count += header.record_count
            _replay(shard, data, position, header)
            offset = header.last_offset + 1
        await asyncio.sleep(0)
    if shard.is_open:
        await _wait_for_commit(shard, end)
    if shard.is_open:
        log.info("%r: %d records loaded, up to offset %d", shard, count, end)
    return shard.is_open


def _replay(shard: Shard[State], data: Buffer, position: int, header: BatchHeader) -> None:
    state = shard.state
    try:
        found = records(data, position)
    except RemoteProtocolError as error:
        log.error("%r: a batch cannot be read: %s", shard, error)
        return
    if header.is_control:
        key = found[0].key or b""
        if len(key) == 4 and key[3] <= COMMIT_MARKER:
            state.replay_marker(header, is_commit=key[3] == COMMIT_MARKER)
        return
    for record in found:
        if record.key is not None:
            unread = state.replay(record.key, record.value, record.offset, header)
            if isinstance(unread, RemoteProtocolError):
                log.error("%r, offset %d: %s", shard, record.offset, unread)
            elif unread is not None:
                log.warning("%r, offset %d: unknown kind %d", shard, record.offset, unread.kind)


async def _wait_for_commit(shard: Shard[State], end: int) -> None:
    """Wait until the high watermark has reached `end`, or the shard is closed."""
    waiter = _CommitWatch()
    shard.partition.data_waiters.add(waiter)
    try:
        while shard.is_open and shard.partition.high_watermark < end:
            waiter.called.clear()
            await waiter.called.wait()
    finally:
        shard.partition.data_waiters.remove(waiter)


class _CommitWatch:
    """A waiter that is called when the high watermark moves or the partition's role changes."""

    is_follower = False

    def __init__(self) -> None:
        self.called = asyncio.Event()

    def on_data(self, partition: Partition) -> None:
        """Wake the loading task, because the high watermark moved or the role changed."""
        self.called.set()

    def note(self, partition: Partition) -> None:
        """Ignore the call, which matters only to fetches."""
