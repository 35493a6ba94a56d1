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

from ...protocol.errors import ErrorCode
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..admin.topic_types import NewTopic
from ..config import settings_like
from ..errors import (
    AdminError,
    ClientClosed,
    ClientError,
    DeliveryFailed,
    DeliveryTimeout,
    MessageTooLarge,
    RequestTimedOut,
    TransactionAbortable,
    UnknownTopic,
)
from ..group_types import RebalanceListener
from ..producer.delivery import Delivery
from ..producer.producer import Producer
from ..records import ConsumerRecord
from ..refusals import CommitFailed
from ..serialization import K, V
from .polling import Polling
from .retry_batch import Batch, Move, Raw, move_of, smaller
from .retry_headers import Failure
from .retry_policy import RetryPolicy, topics_of

if TYPE_CHECKING:
    from .consumer import Consumer

POLL_MS: Final = 1_000
AGAIN_S: Final = 1.0
"""The pause before records are read again that could not be settled."""
DELIVERY_SLACK_MS: Final = 5_000
"""How much longer than one request a record may take to be written."""
TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
Handler = Callable[[ConsumerRecord[K, V]], Awaitable[object] | object]

log = logging.getLogger(__name__)


class MoveFailed(Exception):
    """Raised if a record cannot be written to the topic it should go to."""

    def __init__(self, move: Move, cause: Exception) -> None:
        super().__init__(str(cause))
        self.move = move
        self.is_too_large = isinstance(cause, MessageTooLarge) or (
            isinstance(cause, DeliveryFailed) and cause.error.code in TOO_LARGE
        )


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
    up, so records of one key may overtake each other. A function that was interrupted by a crash
    is called again with the same record.
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
        self.policy = policy
        self.topics = topics_of(config.group_id)
        self._group_id = config.group_id
        self._consumer = consumer
        self._polling = polling
        self._runtime = runtime
        self._settings = settings_like(config)
        # A record that cannot be written fails before its transaction expires, which would fence
        # the producer.
        delivery_ms = config.request_timeout_ms + DELIVERY_SLACK_MS
        settings = self._settings | {"delivery_timeout_ms": delivery_ms, "linger_ms": 0}
        if policy.is_transactional:
            settings["transactional_id"] = f"{self.topics.retry}-{runtime.rng.randbytes(8).hex()}"
            settings["transaction_timeout_ms"] = 2 * delivery_ms
        self._producer = Producer.from_config(settings, runtime=runtime)
        self._paused_until_ms: dict[TopicPartition, int] = {}
        self._is_stopping = False

    async def start(self) -> Self:
        """Create the topics that are not there, and connect; `async with` does it."""
        if self.policy.creates_topics:
            await self._create_topics()
        await self._producer.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect; the consumer stays open."""
        await self._producer.close()

    async def subscribe(
        self, topics: Sequence[str], *, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, and what comes back from the group's retries."""
        await self._consumer.subscribe(self.with_returning(topics), listener=listener)

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
                try:
                    result = handler(self.read(record))
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:
                    self.on_failed(batch, record, error)
                batch.done(record)
            await self.settle(batch)

    def stop(self) -> None:
        """Have `run` return, and not begin again, once the record in hand is settled."""
        self._is_stopping = True

    # The parts of a turn, which the sync worker calls one by one.

    def is_stopping(self) -> bool:
        """True once `stop` was called."""
        return self._is_stopping

    def with_returning(self, topics: Sequence[str]) -> list[str]:
        """Return these topics, and the one from which records come back."""
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names")
        return [*topics, self.topics.again]

    async def take(self, timeout_ms: int) -> Batch:
        """Poll once; the records are as they were written."""
        now_ms = self._runtime.monotonic_ms()
        for partition, until_ms in [*self._paused_until_ms.items()]:
            if now_ms >= until_ms:
                del self._paused_until_ms[partition]
                if partition in self._consumer.assignment():
                    self._consumer.resume(partition)
        return Batch(await self._polling.poll_undecoded(timeout_ms))

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
        batch.move(move_of(record, failure, self.policy, self.topics, chance))

    async def settle(self, batch: Batch) -> None:
        """Write failed records to their topics, and commit what was handled."""
        while batch.offsets:
            try:
                await self._write(batch)
            except MoveFailed as failed:
                self._on_move_failed(batch, failed)
            except (CommitFailed, TransactionAbortable) as error:
                log.warning("%s: read again: %s", self._group_id, error)
                self._read_again(batch)
                await asyncio.sleep(AGAIN_S)
                return
            else:
                break
        now_ms = self._runtime.monotonic_ms()
        for partition, offset in batch.stuck.items():
            self._consumer.seek(partition, offset)
            self._consumer.pause(partition)
            self._paused_until_ms[partition] = now_ms + self.policy.pause_ms

    def _on_move_failed(self, batch: Batch, failed: MoveFailed) -> None:
        move = failed.move
        if failed.is_too_large and not batch.goes_singly:
            batch.goes_singly = True  # which of those in its batch is it?
            return
        instead = smaller(move, self.topics) if failed.is_too_large else None
        if instead is not None:
            batch.move(instead)
            return
        where, offset = move.partition, move.record.offset
        paused = f"{where.topic}-{where.partition} is paused for {self.policy.pause_ms} ms"
        log.error("offset %d: not written to %s: %s; %s", offset, move.topic, failed, paused)
        batch.stop_before(move)

    def _read_again(self, batch: Batch) -> None:
        """Go back to the first record of each partition that is still assigned."""
        assigned = self._consumer.assignment()
        for partition, offset in batch.begins.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)

    async def _write(self, batch: Batch) -> None:
        if not batch.moves:
            await self._consumer.commit(batch.offsets)
        elif self.policy.is_transactional:
            await self._write_in_transaction(batch)
        else:
            await self._send_all(batch)
            await self._consumer.commit(batch.offsets)

    async def _write_in_transaction(self, batch: Batch) -> None:
        producer = self._producer
        await producer.begin_transaction()
        try:
            await self._send_all(batch)
            await producer.send_offsets(batch.offsets, self._consumer.group_metadata())
            while True:
                try:
                    await producer.commit_transaction()
                    return
                except RequestTimedOut as error:
                    # The outcome is unknown until the coordinator has told it.
                    log.warning("%s: the commit is asked for again: %s", self._group_id, error)
        except BaseException:
            if producer.can_abort:
                await producer.abort_transaction()
            raise

    async def _send_all(self, batch: Batch) -> None:
        moves = batch.moves
        for part in [[move] for move in moves] if batch.goes_singly else [moves]:
            await self._send(part)

    async def _send(self, moves: Sequence[Move]) -> None:
        """Write records, and wait until all are acknowledged; raise MoveFailed for the first."""
        sent: list[tuple[Move, Delivery]] = []
        errors: list[Exception] = []
        for move in moves:
            try:
                await self._producer.drain()
                delivery = self._producer.send(
                    move.topic, move.value, move.record.key, headers=move.headers
                )
            except MessageTooLarge as error:
                errors.append(MoveFailed(move, error))
                break
            except TransactionAbortable as error:
                errors.append(error)
                break
            sent.append((move, delivery))
        for move, delivery in sent:
            try:
                await delivery
            except (DeliveryFailed, DeliveryTimeout, UnknownTopic) as error:
                errors.append(MoveFailed(move, error))
            except ClientError as error:
                errors.append(error)
        if errors:
            # One that failed by itself, rather than with the transaction.
            raise next((each for each in errors if isinstance(each, MoveFailed)), errors[0])

    async def _create_topics(self) -> None:
        topics, policy = self.topics, self.policy
        wanted = {
            topics.again: {},
            topics.dead_letters: {},
            topics.retry: {
                "minikafka.delay.target": topics.again,
                "minikafka.deadletter.topic": topics.dead_letters,
            },
        }
        async with Admin.from_config(self._settings, runtime=self._runtime) as admin:
            present = await admin.list_topics()
            names = dict.fromkeys(each.name for each in present)
            for name, configs in wanted.items():
                if name in names:
                    continue
                topic = NewTopic(
                    name, policy.partitions, policy.replication_factor, configs=configs
                )
                try:
                    await admin.create_topics([topic])
                except AdminError as error:
                    if error.errors[name].code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
