"""Writes what is settled of a batch: moved records, blocked keys and offsets, in one transaction.

Never decides what is written; `RetryWorker` does, and what happens if it cannot be.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...protocol.errors import ErrorCode
from ...runtime.runtime import Runtime
from ..errors import (
    ClientError,
    DeliveryFailed,
    DeliveryTimeout,
    MessageTooLarge,
    RequestTimedOut,
    TransactionAbortable,
    UnknownTopic,
)
from ..producer.delivery import Delivery
from ..producer.producer import Producer
from .retry_batch import Batch, Move
from .retry_order import Changes
from .retry_policy import RetryTopics

if TYPE_CHECKING:
    from .consumer import Consumer

DELIVERY_SLACK_MS: Final = 5_000
"""How much longer than one request a record may take to be written."""
TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

REFUSED: Final = (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
"""The delay topic refuses a record for its headers, such as a time to live that is no number."""

log = logging.getLogger(__name__)


class MoveFailed(Exception):
    """Raised if a record cannot be written to the topic it should go to."""

    def __init__(self, move: Move, cause: Exception) -> None:
        super().__init__(str(cause))
        self.move = move
        code = cause.error.code if isinstance(cause, DeliveryFailed) else ErrorCode.NONE
        self.is_too_large = isinstance(cause, MessageTooLarge) or code in TOO_LARGE
        self.is_refused = code in REFUSED
        """True if the topic does not take this record as it is, and another one may."""


class KeysNotWritten(Exception):
    """Raised if it cannot be written which keys are blocked."""


class RetryWriter:
    """The producer of one worker, and its consumer's commits."""

    def __init__(
        self,
        consumer: "Consumer[Any, Any]",
        runtime: Runtime,
        settings: Mapping[str, Any],
        topics: RetryTopics,
        *,
        is_transactional: bool,
    ) -> None:
        self._consumer = consumer
        self._topics = topics
        self._is_transactional = is_transactional
        # A record that cannot be written fails before its transaction expires, which would fence
        # the producer.
        delivery_ms = consumer.config.request_timeout_ms + DELIVERY_SLACK_MS
        settings = {**settings, "delivery_timeout_ms": delivery_ms, "linger_ms": 0}
        if is_transactional:
            settings["transactional_id"] = f"{topics.retry}-{runtime.rng.randbytes(8).hex()}"
            settings["transaction_timeout_ms"] = 2 * delivery_ms
        self._producer = Producer.from_config(settings, runtime=runtime)

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._producer.close()

    async def write(self, batch: Batch, changes: Changes) -> None:
        """Write the failed records of a batch and the keys that change, and commit its offsets.

        Raise MoveFailed for the first record that cannot be written, KeysNotWritten, and what
        commits and transactions raise; then nothing of it is committed.
        """
        if not batch.moves and not changes:
            await self._consumer.commit(batch.offsets)
        elif self._is_transactional:
            await self._write_in_transaction(batch, changes)
        else:
            await self._send_all(batch)
            await self._consumer.commit(batch.offsets)

    async def _write_in_transaction(self, batch: Batch, changes: Changes) -> None:
        producer = self._producer
        await producer.begin_transaction()
        try:
            await self._send_all(batch)
            await self._send_keys(changes)
            await producer.send_offsets(batch.offsets, self._consumer.group_metadata())
            while True:
                try:
                    await producer.commit_transaction()
                    return
                except RequestTimedOut as error:
                    # The outcome is unknown until the coordinator has told it.
                    log.warning("%s: the commit is asked for again: %s", self._topics.retry, error)
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
                    move.topic,
                    move.value,
                    move.record.key,
                    partition=move.lane,
                    headers=move.headers,
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

    async def _send_keys(self, changes: Changes) -> None:
        """Write which keys are blocked from now on; raise KeysNotWritten."""
        sent: list[Delivery] = []
        for (lane, key), blocked in changes.items():
            await self._producer.drain()
            value = None if blocked is None else blocked.to_value()
            sent.append(self._producer.send(self._topics.blocked, value, key, partition=lane))
        try:
            for each in sent:
                await each
        except (DeliveryFailed, DeliveryTimeout, UnknownTopic) as error:
            raise KeysNotWritten(f"{self._topics.blocked}: {error}") from error
