"""Runs a source task exactly once: records and their offsets in one transaction (KIP-618).

The transactional id is that of the task, so that a newer run of the task fences an older one
before it reads the offsets. Nothing is tried again within a transaction: it is aborted, and the
task fails.
"""

import asyncio
import logging

from ..client.errors import ClientError, TransactionAborted
from ..client.producer.columns import Columns
from ..client.producer.producer import Producer
from .offset_store import OffsetStore, TopicOffsets
from .offsets import Pair, identity
from .source_batches import Batch, Boundary, Polled
from .source_runner import SourceRunner
from .states import TargetState
from .task_runner import Assignment, Surroundings

log = logging.getLogger(__name__)


class ExactlyOnceRunner(SourceRunner):
    """Runs one source task in transactions."""

    _tells_at_once = False

    def __init__(
        self,
        assignment: Assignment,
        around: Surroundings,
        target: TargetState,
        store: OffsetStore,
        own: TopicOffsets,
    ) -> None:
        """`own` is the offsets topic of the transactions, perhaps the worker's store itself."""
        self._topic = own
        self._begun = False
        self._uncommitted: dict[str, Pair] = {}
        self._sending = asyncio.Lock()
        super().__init__(assignment, around, target, store, own)

    @staticmethod
    def _make_producer(assignment: Assignment, around: Surroundings) -> Producer[bytes, bytes]:
        settings = assignment.clients.transactional(assignment.id)
        return Producer(runtime=around.runtime, **settings)

    async def _open(self) -> None:
        # Fences older runs and ends their transactions; only then are the offsets final.
        await self._producer.start()
        offsets = await self._read_offsets()
        await self._producer.partitions_for(self._topic.topic)
        boundary = self.settings["transaction.boundary"]
        await self._start_task(offsets, boundary == "connector")
        if boundary == "interval":
            interval_ms = self.settings["transaction.boundary.interval.ms"]
            interval_ms = interval_ms or self.around.config.offset_flush_interval_ms
            self._in_background(self._every(interval_ms, self._commit_in_turn))

    async def _take_all(self, polled: Polled) -> None:
        async with self._sending:
            for batch in polled.batches:
                await self._take(batch)
                if batch.boundary is Boundary.COMMIT:
                    await self._commit()
                elif batch.boundary is Boundary.ABORT:
                    await self._abort()
            if self.settings["transaction.boundary"] == "poll" and polled.failure is None:
                await self._commit()

    async def _take(self, batch: Batch) -> None:
        self._uncommitted |= {identity(pair[0]): pair for pair in batch.places}
        if batch.sends:
            await self._begin()
        for send in batch.sends:
            await self._send(send, ())

    async def _begin(self) -> None:
        if not self._begun:
            await self._producer.begin_transaction()
            self._begun = True

    async def _commit_in_turn(self) -> None:
        async with self._sending:
            await self._commit()

    async def _commit(self) -> None:
        """Commit what is sent with the offsets behind it, also where all records were dropped."""
        if self.is_abandoned or not (self._begun or self._uncommitted):
            return
        await self._begin()
        pairs = list(self._uncommitted.values())
        records = self._topic.map.records(self.id.connector, pairs)
        if records:
            keys, values = zip(*records, strict=True)
            self._producer.send_batch(self._topic.topic, Columns(list(values), list(keys)))
        await self._producer.commit_transaction()
        self._begun = False
        self._uncommitted.clear()
        self._topic.take(records)
        await self._copy(pairs)
        await self._tell_acknowledged(offsets=True)

    async def _abort(self) -> None:
        """Abort what is open. Its offsets go into the next commit, so that it is not read again."""
        if self._begun:
            await self._producer.abort_transaction()
            self._begun = False

    def _leaves_out(self, error: Exception, topic: str) -> bool:
        if isinstance(error, TransactionAborted):
            return True
        self._fail(error)
        return False

    async def _finish(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        if self.failure is not None or self.settings.get("transaction.boundary") == "connector":
            if self._begun and self._producer.can_abort:
                try:
                    await self._producer.abort_transaction()
                except ClientError as error:
                    log.warning("task %s: its transaction is not aborted: %s", self.id, error)
        else:
            await self._commit_in_turn()
