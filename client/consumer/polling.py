"""Polls: one at a time, they hand out what was fetched as records, raw batches or columns.

Polls also carry out rebalances, before they return records.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final, Generic, cast

from ..errors import ClientError, ConcurrentPoll, CorruptRecord, NothingToRead
from ..milliseconds import check_ms
from ..records import ConsumerRecord, RawRecords, RecordColumns
from ..serialization import K, V
from .chunk import Chunk
from .committing import Committing
from .engine import Engine
from .rebalancing import Rebalancing
from .subscribing import Subscribing
from .user_functions import UserFunctions

COLUMNS_PER_POLL: Final = 10_000


class Polling(Generic[K, V]):
    """Runs one poll at a time: carries out rebalances, then takes chunks out of the buffer."""

    def __init__(
        self,
        engine: Engine,
        functions: UserFunctions[K, V],
        subscribing: Subscribing,
        rebalancing: Rebalancing,
        committing: Committing,
    ) -> None:
        self._engine = engine
        self._config = engine.config
        self._runtime = engine.runtime
        self._metrics = engine.metrics
        self._positions = engine.positions
        self._progress = engine.progress
        self._unread = engine.progress.unread
        self._buffer = engine.fetcher.buffer
        self._functions = functions
        self._subscribing = subscribing
        self._rebalancing = rebalancing
        self._committing = committing
        self._is_polling = False

    def read(self, record: ConsumerRecord[bytes, bytes]) -> ConsumerRecord[K, V]:
        """Deserialize a record of `poll_undecoded`; raise what the deserializer raises."""
        return self._functions.read(record)

    async def poll_undecoded(self, timeout_ms: int) -> list[ConsumerRecord[bytes, bytes]]:
        """Return records as `poll` does, but as they were written; interceptors do not see them."""
        most = self._config.max_poll_records
        taken: list[ConsumerRecord[bytes, bytes]] = []
        with self._polling(timeout_ms):
            await self._rebalancing.carry_out_pending()
            while len(taken) < most:
                chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
                if chunk is None:
                    break
                taken += self._take_undecoded(chunk, most - len(taken))
                if chunk.is_spent:
                    self._buffer.release(chunk)
                elif len(taken) < most:
                    break  # the next batch cannot be read: the next poll raises why
        return taken

    async def poll(self, timeout_ms: int, max_records: int | None) -> list[ConsumerRecord[K, V]]:
        """Return records that have arrived, at most `max_records`; see `Consumer.poll`."""
        most = self._config.max_poll_records if max_records is None else max_records
        taken: list[ConsumerRecord[K, V]] = []
        with self._polling(timeout_ms):
            await self._rebalancing.carry_out_pending()
            while self._unread and len(taken) < most:
                taken.append(self._unread.popleft())
            while len(taken) < most:
                chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
                if chunk is None:
                    break
                taken += self._take(chunk, most - len(taken))
                if chunk.is_spent:
                    self._buffer.release(chunk)
                elif not taken or len(taken) < most:
                    break  # the next batch cannot be read: the next poll raises why
            for interceptor in self._functions.interceptors:
                taken = interceptor.on_consume(taken)
        return taken

    async def poll_raw(self, timeout_ms: int) -> list[RawRecords]:
        """Return the batches that have arrived, whole, neither decoded nor checked."""
        taken: list[RawRecords] = []
        with self._polling(timeout_ms):
            await self._rebalancing.carry_out_pending()
            chunk = await self._chunk(timeout_ms, may_raise=True)
            while chunk is not None:
                self._progress.note_in_hand(chunk.state)
                taken.append(chunk.take_raw())
                self._metrics.bytes.record(chunk.size, self._runtime.monotonic_ms())
                self._buffer.release(chunk)
                chunk = await self._chunk(0, may_raise=False)
        return taken

    async def poll_columns(self, timeout_ms: int, max_records: int) -> list[RecordColumns]:
        """Return the arrived batches as columns, up to the batch that reaches `max_records`."""
        taken: list[RecordColumns] = []
        count = 0
        with self._polling(timeout_ms):
            await self._rebalancing.carry_out_pending()
            while count < max_records:
                chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
                if chunk is None:
                    break
                self._progress.note_in_hand(chunk.state)
                try:
                    found = chunk.take_columns(check_crcs=self._config.check_crcs)
                except CorruptRecord:
                    if taken:
                        break  # the next poll raises it
                    raise
                if found is not None:
                    taken.append(found)
                    count += len(found.offsets)
                if chunk.is_spent:
                    self._metrics.bytes.record(chunk.size, self._runtime.monotonic_ms())
                    self._buffer.release(chunk)
            self._metrics.records.record(count, self._runtime.monotonic_ms())
        return taken

    @contextlib.contextmanager
    def _polling(self, timeout_ms: int) -> Iterator[None]:
        """Begin and end a poll; raise ConcurrentPoll if another poll is under way.

        Raise NothingToRead if nothing is subscribed to or assigned. Before the poll, start an
        automatic commit if one is due.
        """
        check_ms(timeout_ms)
        self._engine.check_pollable()
        if self._is_polling:
            raise ConcurrentPoll("another task is polling this consumer")
        if not self._positions.states and self._subscribing.is_empty:
            raise NothingToRead
        now_ms = self._runtime.monotonic_ms()
        self._metrics.on_poll(now_ms)
        self._progress.in_hand.clear()
        self._committing.commit_if_due(now_ms)
        group, self._is_polling = self._rebalancing.group, True
        if group is not None:
            group.membership.on_poll_begun(now_ms)
            group.on_poll()
        try:
            yield
        finally:
            self._is_polling = False
            now_ms = self._runtime.monotonic_ms()
            self._metrics.on_poll_ended(now_ms)
            if group is not None:
                group.membership.on_poll_ended(now_ms)
                group.on_poll()

    def _take(self, chunk: Chunk, most: int) -> list[ConsumerRecord[K, V]]:
        found = self._take_undecoded(chunk, most)
        if not self._functions.has_deserializers:
            return cast("list[ConsumerRecord[K, V]]", found)
        return self._functions.deserialize(chunk.state, found)

    def _take_undecoded(self, chunk: Chunk, most: int) -> list[ConsumerRecord[bytes, bytes]]:
        self._progress.note_in_hand(chunk.state)
        found = chunk.take(most, check_crcs=self._config.check_crcs)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.records.record(len(found), now_ms)
        if chunk.is_spent:
            self._metrics.bytes.record(chunk.size, now_ms)
        return found

    async def _chunk(self, timeout_ms: int, *, may_raise: bool) -> Chunk | None:
        self._engine.check_usable()
        buffer = self._buffer
        deadline_ms = self._runtime.monotonic_ms() + timeout_ms
        while True:
            chunk = buffer.next_chunk()
            if chunk is not None:
                return chunk
            if may_raise:
                self._raise_errors()
            left_ms = deadline_ms - self._runtime.monotonic_ms()
            if left_ms <= 0:
                return None
            buffer.arrived.clear()
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await buffer.arrived.wait()
            except TimeoutError:
                pass
            self._engine.check_pollable()
            await self._rebalancing.carry_out_pending()

    def _raise_errors(self) -> None:
        self._buffer.raise_error()
        lost: list[ClientError] = self._positions.lost()
        if lost:
            raise lost[0]
