"""The results of `send` and `send_batch`, to be awaited or queried.

A future is made only when a result is awaited, so that an unused result costs little.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ClientError
from ..records import BatchMetadata, RecordMetadata
from .accumulator import Accumulator
from .batch import Acknowledged, Batch


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """The result of sending one record. Awaiting it returns its RecordMetadata or raises its error.

    Cancelling a task that awaits it does not cancel the sending.
    """

    _timestamp_ms: int
    _batch: Batch | None = None
    _index: int = -1
    _error: ClientError | None = field(init=False, default=None)
    _watchers: list[Callable[[], None]] | None = field(init=False, default=None)

    def done(self) -> bool:
        """True once the record is acknowledged or has failed."""
        if self._batch is not None:
            return self._batch.outcome is not None
        return self._error is not None

    def error(self) -> ClientError | None:
        """Return the error if the record has failed, else None."""
        if self._batch is None:
            return self._error
        outcome = self._batch.outcome
        return outcome if isinstance(outcome, ClientError) else None

    def result(self) -> RecordMetadata:
        """Return the record's metadata, or raise its error; InvalidStateError before it is done."""
        error = self.error()
        if error is not None:
            raise error
        batch = self._batch
        if batch is None or not isinstance(batch.outcome, Acknowledged):
            raise asyncio.InvalidStateError("the record is not acknowledged yet")
        base, append_time_ms = batch.outcome.base_offset, batch.outcome.log_append_time_ms
        offset = base if base < 0 else base + self._index
        timestamp_ms = self._timestamp_ms if append_time_ms < 0 else append_time_ms
        return RecordMetadata(*batch.partition, offset, timestamp_ms)

    def when_done(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` on the loop when the record is settled, or now if it is already."""
        if self.done():
            watcher()
        elif self._batch is not None:
            self._batch.when_done(lambda _: watcher())
        elif self._watchers is None:
            self._watchers = [watcher]
        else:
            self._watchers.append(watcher)

    def bind(self, batch: Batch, index: int) -> None:
        """Note that the record is number `index` of `batch`, counted from 0.

        Its watchers wait for the batch from here on.
        """
        self._batch, self._index = batch, index
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            self.when_done(watcher)

    def fail(self, error: ClientError) -> None:
        """Settle the record with an error, before it got into a batch."""
        self._error = error
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from _until(self.when_done).__await__()
        return self.result()


@dataclass(slots=True, eq=False, repr=False)
class BatchDelivery:
    """The result of `send_batch`. Awaiting it returns a BatchMetadata for each run of records.

    If any record failed, awaiting raises the error of the first failed run, once all records are
    settled.
    """

    _deliveries: Sequence[tuple[Delivery, int]]
    """The delivery of each run's first record, and the number of records in that run."""

    def done(self) -> bool:
        """True once every record is acknowledged or has failed."""
        return all(delivery.done() for delivery, _ in self._deliveries)

    def result(self) -> list[BatchMetadata]:
        """Return each run's metadata; raise the first error, or InvalidStateError before done."""
        runs: list[BatchMetadata] = []
        for delivery, count in self._deliveries:
            first = delivery.result()
            runs.append(BatchMetadata(first.topic, first.partition, first.offset, count))
        return runs

    def when_done(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` on the loop when all records are settled, or now if they already are."""
        left = len(self._deliveries)
        if not left:
            watcher()
            return

        def on_one() -> None:
            nonlocal left
            left -= 1
            if not left:
                watcher()

        for delivery, _ in self._deliveries:
            delivery.when_done(on_one)

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        if not self.done():
            yield from _until(self.when_done).__await__()
        return self.result()


async def _until(when_done: Callable[[Callable[[], None]], None]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    when_done(lambda: None if future.done() else future.set_result(None))
    await future


async def until_settled(accumulator: Accumulator) -> None:
    """Wait until every record that the accumulator holds now is acknowledged or has failed."""
    for topic in list(accumulator.parked):
        for parked in list(accumulator.parked.get(topic, ())):
            await _until(parked.claim.when_done)
    batches = [
        batch for queue in accumulator.busy.values() for batch in (*queue.in_flight, *queue.waiting)
    ]
    for batch in batches:
        if batch.outcome is None:
            await _until(partial(_when_done, batch))


def _when_done(batch: Batch, watcher: Callable[[], None]) -> None:
    batch.when_done(lambda _: watcher())
