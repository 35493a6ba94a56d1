"""Writes a source task's records and offsets exactly once: in transactions (KIP-618).

The transactional id is that of the task, so that a newer run of the task fences an older one
before it reads the offsets. Nothing is tried again within a transaction: it is aborted, and the
task fails.
"""

import asyncio
import logging

from ..client.errors import ClientError, TransactionAborted
from ..client.producer.columns import Columns
from .offset_store import TopicOffsets
from .offsets import Pair, Reader, identity
from .source_batches import Batch, Boundary, Polled
from .source_delivery import SourceOffsetsOf
from .source_sender import SourceSender
from .task_runner import TaskRunner

log = logging.getLogger(__name__)


class ExactlyOnce:
    """Sends records and offsets in transactions, which end as `transaction.boundary` says."""

    def __init__(self, task: TaskRunner, topic: TopicOffsets) -> None:
        """`topic` is the offsets topic of the transactions, perhaps the worker's store itself."""
        self._task = task
        self._topic = topic
        self._offsets = SourceOffsetsOf(task, topic)
        self._begun = False
        self._uncommitted: dict[str, Pair] = {}
        self._sending = asyncio.Lock()
        settings = task.assignment.clients.transactional(task.id)
        self._sender = SourceSender(task, settings, self._leaves_out)
        self._producer = self._sender.producer

    async def open(self) -> Reader:
        """Fence older runs and end their transactions; only then are the offsets final."""
        await self._producer.start()
        offsets = await self._offsets.read()
        await self._producer.partitions_for(self._topic.topic)
        if self._boundary == "interval":
            interval_ms = self._task.settings["transaction.boundary.interval.ms"]
            interval_ms = interval_ms or self._task.around.config.offset_flush_interval_ms
            self._task.act_every(interval_ms, self._commit_in_turn)
        return offsets

    @property
    def _boundary(self) -> str:
        return str(self._task.settings.get("transaction.boundary", "poll"))

    async def take(self, polled: Polled) -> None:
        """Send the records of one poll; commit or abort where a transaction ends."""
        async with self._sending:
            for batch in polled.batches:
                await self._take(batch)
                if batch.boundary is Boundary.COMMIT:
                    await self._commit()
                elif batch.boundary is Boundary.ABORT:
                    await self._abort()
            if self._boundary == "poll" and polled.failure is None:
                await self._commit()

    async def _take(self, batch: Batch) -> None:
        self._uncommitted |= {identity(pair[0]): pair for pair in batch.places}
        if batch.sends:
            await self._begin()
        for send in batch.sends:
            await self._sender.send(send, ())

    async def _begin(self) -> None:
        if not self._begun:
            await self._producer.begin_transaction()
            self._begun = True

    async def _commit_in_turn(self) -> None:
        async with self._sending:
            await self._commit()

    async def _commit(self) -> None:
        """Commit what is sent with the offsets behind it, also where all records were dropped."""
        if self._task.is_abandoned or not (self._begun or self._uncommitted):
            return
        await self._begin()
        pairs = list(self._uncommitted.values())
        records = self._topic.map.records(self._task.id.connector, pairs)
        if records:
            keys, values = zip(*records, strict=True)
            self._producer.send_batch(self._topic.topic, Columns(list(values), list(keys)))
        await self._producer.commit_transaction()
        self._begun = False
        self._uncommitted.clear()
        self._topic.take(records)
        self._offsets.committed(pairs)
        told, self._sender.acknowledged = self._sender.acknowledged, []
        if self._task.host is not None:
            await self._task.host.call("commit", told, True)

    async def _abort(self) -> None:
        """Abort what is open. Its offsets go into the next commit, so that it is not read again."""
        if self._begun:
            await self._producer.abort_transaction()
            self._begun = False

    def _leaves_out(self, error: Exception, topic: str) -> bool:
        if isinstance(error, TransactionAborted):
            return True
        self._task.fail(error)
        return False

    async def finish(self) -> None:
        """Commit the last transaction; abort it if the task has failed, or decides itself."""
        if self._task.failure is None and self._boundary != "connector":
            await self._commit_in_turn()
        elif self._begun and self._producer.can_abort:
            try:
                await self._producer.abort_transaction()
            except ClientError as error:
                log.warning("task %s: its transaction is not aborted: %s", self._task.id, error)
        await self._offsets.copy()

    async def close(self, timeout_ms: int) -> None:
        """Close the clients."""
        await self._sender.close(timeout_ms)
        await self._offsets.close()
