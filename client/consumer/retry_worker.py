"""Handles the records of a group, tries those that fail again later, and buries the rest.

`RetryPolicy` and `Batch` decide. What a poll returned is settled as a whole: failed records are
written to their topics and the offsets are committed, in one transaction unless the policy says
otherwise. So a record is lost nowhere, and moved only once.
"""

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, Self

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..config import settings_like
from ..errors import ClientClosed, TransactionAbortable
from ..group_types import RebalanceListener
from ..records import ConsumerRecord
from ..refusals import CommitFailed
from ..serialization import K, V
from .polling import Polling
from .retry_batch import Batch, Raw, buried, move_behind, move_of, smaller
from .retry_headers import Failure, attempt_of
from .retry_lanes import Lanes
from .retry_policy import RetryPolicy, topics_of
from .retry_topics import prepare
from .retry_writer import KeysNotWritten, MoveFailed, RetryWriter

if TYPE_CHECKING:
    from .consumer import Consumer

POLL_MS: Final = 1_000
AGAIN_S: Final = 1.0
"""The pause before records are read again that could not be settled."""
Handler = Callable[[ConsumerRecord[K, V]], Awaitable[object] | object]

log = logging.getLogger(__name__)


class RetryWorker(Generic[K, V]):
    """Handles the records of a group by a function of the user's.

        async with Consumer(
            "localhost:9092", group_id="billing", enable_auto_commit=False
        ) as consumer, consumer.with_retries(RetryPolicy(backoff_ms=(1_000, 60_000))) as worker:
            await worker.subscribe(["orders"])
            await worker.run(bill)

    A record for which the function raises an exception waits in the delay topic `<group>.retry`,
    and is handled again once it is due. The last failure, an exception in `not_retried`, and a
    record that no deserializer can read make it a dead letter in `dlq.<group>`. Others are not held
    up, so records of one key may overtake each other, unless the policy has `order="key"`. A
    function that was interrupted by a crash is called again with the same record.
    """

    def __init__(
        self,
        consumer: "Consumer[K, V]",
        polling: Polling[K, V],
        runtime: Runtime,
        policy: RetryPolicy,
    ) -> None:
        config = consumer.config
        if config.group_id is None:
            raise ConfigError("group.id", None, "retries need a group")
        if config.enable_auto_commit:
            raise ConfigError("enable.auto.commit", True, "retries commit themselves: set false")
        is_ordered, strategy = policy.order == "key", config.partition_assignment_strategy
        if is_ordered and strategy != ("range",):
            why = 'order="key" needs range: a member has partition n of all topics'
            raise ConfigError("partition.assignment.strategy", ",".join(strategy), why)
        self.policy = policy
        self.topics = topics_of(config.group_id)
        self._group_id = config.group_id
        self._consumer = consumer
        self._polling = polling
        self._runtime = runtime
        self._settings = settings_like(config)
        self._writer = RetryWriter(
            consumer, runtime, self._settings, self.topics, is_transactional=policy.is_transactional
        )
        self._lanes: Lanes | None = None
        if is_ordered:
            self._lanes = Lanes(consumer, runtime, self._settings, self.topics, policy)
        self._paused_until_ms: dict[TopicPartition, int] = {}
        self._is_stopping = False

    async def start(self) -> Self:
        """Create the topics that are not there, and connect; `async with` does it."""
        if self._lanes is None:
            await self._prepare([])
        await self._writer.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect; the consumer stays open."""
        if self._lanes is not None:
            await self._lanes.close()
        await self._writer.close()

    async def subscribe(
        self, topics: Sequence[str], *, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, and what comes back from the group's retries.

        With `order="key"` create the topics that are not there; raise ConfigError if they do not
        fit together.
        """
        await self._consumer.subscribe(await self.with_returning(topics), listener=listener)

    async def run(self, handler: Handler[K, V]) -> None:
        """Handle records until `stop` is called, or the consumer is closed.

        Raise what polls raise, and ProducerFenced or TransactionFailed if the producer can do no
        more; then what was not committed is read again.
        """
        while not self.is_stopping():
            try:
                batch = await self.take(POLL_MS)
            except ClientClosed:
                return
            for record in batch.records:
                if self.is_stopping():
                    break
                if self.is_turn(batch, record):
                    try:
                        result = handler(self.read(record))
                        if inspect.isawaitable(result):
                            await result
                    except Exception as error:
                        self.on_failed(batch, record, error)
                self.on_done(batch, record)
            await self.settle(batch)

    def stop(self) -> None:
        """Have `run` return, and not begin again, once the record in hand is settled."""
        self._is_stopping = True

    # The parts of a turn, which the sync worker calls one by one.

    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._is_stopping

    async def with_returning(self, topics: Sequence[str]) -> list[str]:
        """Return these topics, and the one from which records come back."""
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names")
        if self._lanes is not None:
            await self._prepare(topics)
        return [*topics, self.topics.again]

    async def take(self, timeout_ms: int) -> Batch:
        """Poll once; the records are as they were written."""
        now_ms = self._runtime.monotonic_ms()
        for partition, until_ms in [*self._paused_until_ms.items()]:
            if now_ms >= until_ms:
                del self._paused_until_ms[partition]
                if partition in self._consumer.assignment():
                    self._consumer.resume(partition)
        records = await self._polling.poll_undecoded(timeout_ms)
        lanes = self._lanes
        if lanes is None:
            return Batch(records)
        if await lanes.follow_group():
            self._paused_until_ms.clear()
        return Batch(lanes.admit(records), has_lanes=True)

    def is_turn(self, batch: Batch, record: Raw) -> bool:
        """Return whether a record is handled now; else it is moved, or left to be read again."""
        lanes = self._lanes
        if lanes is None:
            return True
        if batch.is_left(record):
            return False
        due_ms = lanes.waits_until(batch, record)
        if due_ms is None:
            return True
        place = batch.place_of(record)
        assert place is not None
        batch.move(move_behind(record, self._group_id, due_ms, self.topics, place))
        return False

    def on_done(self, batch: Batch, record: Raw) -> None:
        """Note that a record was handled, or that it is moved or left."""
        batch.done(record)
        if self._lanes is not None and not batch.is_left(record):
            self._lanes.note(batch.draft, batch, record)

    def read(self, record: Raw) -> ConsumerRecord[K, V]:
        """Deserialize a record; raise what the deserializer raises."""
        return self._polling.read(record)

    def on_failed(self, batch: Batch, record: Raw, error: Exception) -> None:
        """Decide what becomes of a record that was not handled."""
        failure = Failure(
            *record[:3],
            group=self._group_id,
            at_ms=self._runtime.wall_ms(),
            error=error,
            stacktrace="".join(traceback.format_exception(error))
            if self.policy.has_stacktraces
            else "",
        )
        chance = self._runtime.rng.random()
        wait_ms = self.policy.wait_ms(attempt_of(record.headers), error, chance)
        lanes = self._lanes
        if lanes is not None and wait_ms is not None and not lanes.has_room(batch, record):
            log.error(
                "%s-%d offset %d: too many keys are blocked: paused for %d ms",
                *(*record[:3], self.policy.pause_ms),
            )
            batch.stop_before(record)
            return
        batch.move(move_of(record, failure, wait_ms, self.topics, batch.place_of(record)))

    async def settle(self, batch: Batch) -> None:
        """Write failed records to their topics, and commit what was handled."""
        while batch.offsets:
            try:
                changes = {} if self._lanes is None else self._lanes.changes(batch)
                await self._writer.write(batch, changes)
            except MoveFailed as failed:
                self._on_move_failed(batch, failed)
            except (CommitFailed, TransactionAbortable, KeysNotWritten) as error:
                log.warning("%s: read again: %s", self._group_id, error)
                self._read_again(batch)
                await asyncio.sleep(AGAIN_S)
                return
            else:
                if self._lanes is not None:
                    self._lanes.order.adopt(changes)
                break
        now_ms, assigned = self._runtime.monotonic_ms(), self._consumer.assignment()
        for partition, offset in batch.stuck.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)
        for partition in batch.held:
            if partition not in assigned:
                continue
            self._consumer.pause(partition)
            self._paused_until_ms[partition] = now_ms + self.policy.pause_ms

    def _on_move_failed(self, batch: Batch, failed: MoveFailed) -> None:
        move = failed.move
        if (failed.is_too_large or failed.is_refused) and not batch.goes_singly:
            batch.goes_singly = True  # which of those in its batch is it?
            return
        instead = None
        if failed.is_too_large:
            instead = smaller(move, self.topics)
        elif failed.is_refused:
            instead = buried(move, self.topics)
        if instead is not None:
            batch.move(instead)
            return
        where, offset = move.partition, move.record.offset
        if move.is_dead and move.failure is not None and self.policy.on_dlq_failure == "log":
            origin = "%s-%d offset %d: given up, and not written to %s: %s; it had failed with %r"
            log.error(origin, *where, offset, move.topic, failed, move.failure.error)
            batch.drop(move)
            return
        paused = f"{where.topic}-{where.partition} is paused for {self.policy.pause_ms} ms"
        log.error("offset %d: not written to %s: %s; %s", offset, move.topic, failed, paused)
        batch.stop_before(move.record)

    def _read_again(self, batch: Batch) -> None:
        """Go back to the first record of each partition that is still assigned."""
        assigned = self._consumer.assignment()
        for partition, offset in batch.begins.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)

    async def _prepare(self, read: Sequence[str]) -> None:
        if self._lanes is not None or self.policy.creates_topics:
            async with Admin.from_config(self._settings, runtime=self._runtime) as admin:
                await prepare(admin, self.topics, self.policy, read)
