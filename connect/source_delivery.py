"""Writes the records and offsets of a source task, at least once.

A source offset is committed only when all records before it of the same source partition are
acknowledged. The connector's own offsets topic counts, where it has one; the worker's store gets a
copy.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ..runtime.errors import MinikafkaError
from .offset_store import OffsetStore, TopicOffsets
from .offsets import Pair, Reader, identity
from .source_batches import Polled
from .source_sender import SourceSender
from .submitted import Part, Submitted
from .task_runner import TaskRunner

log = logging.getLogger(__name__)


class SourceDelivery(Protocol):
    """Writes what a source task hands out, and its offsets."""

    async def open(self) -> Reader:
        """Open the producer and return the offsets to start from."""

    async def take(self, polled: Polled) -> None:
        """Send the records of one poll."""

    async def finish(self) -> None:
        """Commit what may be committed, after the last record or the failure."""

    async def close(self, timeout_ms: int) -> None:
        """Close the clients."""


class SourceOffsetsOf:
    """The offsets of one task's connector: in a topic of its own, or in the worker's store."""

    def __init__(self, task: TaskRunner, own: TopicOffsets | None) -> None:
        self._task = task
        self._store = task.around.store
        self._own = None if own is self._store else own
        self.home: OffsetStore = own or self._store
        """The store whose offsets count."""
        self._uncopied: dict[str, Pair] = {}
        self._copying = asyncio.Lock()

    async def read(self) -> Reader:
        """Read both stores to their ends."""
        maps = [self._store.map]
        if self._own is not None:
            await self._own.start()
            maps.insert(0, self._own.map)
            interval_ms = self._task.around.config.offset_flush_interval_ms
            self._task.act_every(interval_ms, self.copy)
        await self._store.refresh()
        return Reader(self._task.id.connector, *maps)

    def committed(self, pairs: Sequence[Pair]) -> None:
        """Take offsets that count, to copy them later."""
        if self._own is not None:
            self._uncopied |= {identity(pair[0]): pair for pair in pairs}

    async def copy(self) -> None:
        """Write offsets to the worker's store too, if that is another one; it may fail."""
        async with self._copying:
            pairs = list(self._uncopied.values())
            self._uncopied.clear()
            if not pairs or self._task.is_abandoned:
                return
            limit_s = self._task.around.config.offset_flush_timeout_ms / 1000
            try:
                async with asyncio.timeout(limit_s):
                    await self._store.write(self._task.id.connector, pairs)
            except (MinikafkaError, TimeoutError) as error:
                why = f"offsets are not copied to the worker's: {error!r}"
                log.warning("task %s: %s", self._task.id, why)

    async def close(self) -> None:
        """Close the connector's own topic."""
        if self._own is not None:
            await self._own.close()


class AtLeastOnce:
    """Sends records, and commits offsets behind them at offset.flush.interval.ms."""

    def __init__(self, task: TaskRunner, own: TopicOffsets | None) -> None:
        self._task = task
        self._offsets = SourceOffsetsOf(task, own)
        self._submitted = Submitted()
        self._committing = asyncio.Lock()
        settings = task.assignment.clients.producer(task.id)
        self._sender = SourceSender(task, settings, self._leaves_out)

    async def open(self) -> Reader:
        """Connect, read the offsets, and begin to commit."""
        await self._sender.producer.start()
        offsets = await self._offsets.read()
        interval_ms = self._task.around.config.offset_flush_interval_ms
        self._task.act_every(interval_ms, self._commit)
        return offsets

    async def take(self, polled: Polled) -> None:
        """Send the records of one poll, and note which offsets they bring."""
        for batch in polled.batches:
            parts = [Part(pair) for pair in batch.places]
            self._submitted.add(parts)
            for send in batch.sends:
                for place in send.places:
                    parts[place].pending += 1
            for send in batch.sends:
                await self._sender.send(send, [parts[place] for place in send.places])
        await self._tell_acknowledged(offsets=False)

    def _leaves_out(self, error: Exception, topic: str) -> bool:
        if self._task.settings["errors.tolerance"] != "all":
            self._task.fail(error)
            return False
        log.error("task %s: records are left out, %s %s", self._task.id, topic, error)
        return True

    async def finish(self) -> None:
        """Wait for what is on its way, and commit."""
        producer = self._sender.producer
        if producer.is_closed or self._task.host is None:
            return
        try:
            await producer.flush(self._task.around.config.offset_flush_timeout_ms)
        except TimeoutError:
            log.error("task %s: records were not acknowledged in time", self._task.id)
        await self._commit()
        await self._offsets.copy()

    async def close(self, timeout_ms: int) -> None:
        """Close the clients."""
        await self._sender.close(timeout_ms)
        await self._offsets.close()

    async def _commit(self) -> None:
        """Commit the offsets that are ready; what cannot be written is tried again later."""
        async with self._committing:
            pairs = self._submitted.committable()
            if self._task.is_abandoned or self._task.host is None:
                return
            if pairs:
                limit_s = self._task.around.config.offset_flush_timeout_ms / 1000
                try:
                    async with asyncio.timeout(limit_s):
                        await self._offsets.home.write(self._task.id.connector, pairs)
                except (MinikafkaError, TimeoutError) as error:
                    log.error("task %s: offsets are not committed: %r", self._task.id, error)
                    return
                self._submitted.committed(pairs)
                self._offsets.committed(pairs)
            await self._tell_acknowledged(offsets=True)

    async def _tell_acknowledged(self, *, offsets: bool) -> None:
        told, self._sender.acknowledged = self._sender.acknowledged, []
        if (told or offsets) and self._task.host is not None:
            await self._task.host.call("commit", told, offsets)
