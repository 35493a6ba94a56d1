"""How a consumer hands out what was fetched: polls, raw polls, iterating; one at a time.

Partitions come and go here, between the records of one poll and those of the next.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, Self, cast

from ...protocol.types import TopicPartition
from ..errors import (
    BadRecord,
    ClientClosed,
    ClientError,
    ConcurrentPoll,
    CorruptRecord,
    NothingToRead,
)
from ..group_types import OffsetAndMetadata
from ..milliseconds import check_ms
from ..records import ConsumerRecord, RawRecords, RecordColumns
from ..serialization import Deserializer, K, V
from .chunk import Chunk
from .questions import DEFAULT_TIMEOUT_MS
from .subscribing import Subscribing

COLUMNS_PER_POLL: Final = 10_000


class Polling(Subscribing[K, V], Generic[K, V]):
    """The part of a consumer that reads."""

    _key_deserializer: Deserializer[K] | None
    _value_deserializer: Deserializer[V] | None
    _in_hand: dict[TopicPartition, OffsetAndMetadata]
    """Where each partition of the newest poll's records was before it."""
    _is_closing: bool
    _is_polling: bool

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """Return what has arrived, at most `max_records` (default max_poll_records).

        Waits up to `timeout_ms` for the first record; an empty list after that. Positions move
        behind what is returned. Partitions come and go within polls only, with the calls to the
        listener; those may take longer than `timeout_ms`. Raises, once each: NoOffsetForPartition,
        OffsetOutOfRange, LogTruncated (all only under auto_offset_reset=none), CorruptRecord,
        BadRecord (a deserializer's error), Refused where a broker refuses for good, ClientClosed,
        ConcurrentPoll, NothingToRead where nothing was subscribed to or assigned, TypeError for a
        float: it would be seconds elsewhere.
        """
        most = self.config.max_poll_records if max_records is None else max_records
        taken: list[ConsumerRecord[K, V]] = []
        with self._polling(timeout_ms):
            await self._carry_out_pending()
            while self._iterated and len(taken) < most:
                taken.append(self._iterated.popleft())
            while len(taken) < most:
                chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
                if chunk is None:
                    break
                taken += self._take(chunk, most - len(taken))
                if chunk.is_spent:
                    self._started().buffer.release(chunk)
                elif not taken or len(taken) < most:
                    break  # stopped before a batch that cannot be read: the next poll says so
            for interceptor in self._interceptors:
                taken = interceptor.on_consume(taken)
        return taken

    async def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return what has arrived as whole record batches, neither decoded nor checked.

        Waits up to `timeout_ms` for the first; an empty list after that. Positions move behind
        what is returned. Raises as `poll` does, but never CorruptRecord.
        """
        taken: list[RawRecords] = []
        with self._polling(timeout_ms):
            await self._carry_out_pending()
            chunk = await self._chunk(timeout_ms, may_raise=True)
            while chunk is not None:
                self._note_in_hand(chunk)
                taken.append(chunk.take_raw())
                self._metrics.bytes.record(chunk.size, self._runtime.monotonic_ms())
                self._started().buffer.release(chunk)
                chunk = await self._chunk(0, may_raise=False)
        return taken

    def _check_open(self) -> None:
        self._started()
        if self._is_closing:
            raise ClientClosed("the consumer is closing")

    async def poll_columns(
        self, timeout_ms: int = 0, max_records: int = COLUMNS_PER_POLL
    ) -> list[RecordColumns]:
        """Return what has arrived by columns, one item for each batch: the fastest way to read.

        As `poll`, but keys and values are bytes, deserializers and interceptors are not called, and
        it ends with the batch that reaches `max_records`.
        """
        taken: list[RecordColumns] = []
        count = 0
        with self._polling(timeout_ms):
            await self._carry_out_pending()
            while count < max_records:
                chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
                if chunk is None:
                    break
                self._note_in_hand(chunk)
                try:
                    found = chunk.take_columns(check_crcs=self.config.check_crcs)
                except CorruptRecord:
                    if taken:
                        break  # the next poll says so
                    raise
                if found is not None:
                    taken.append(found)
                    count += len(found.offsets)
                if chunk.is_spent:
                    self._metrics.bytes.record(chunk.size, self._runtime.monotonic_ms())
                    self._started().buffer.release(chunk)
            self._metrics.records.record(count, self._runtime.monotonic_ms())
        return taken

    @contextlib.contextmanager
    def _polling(self, timeout_ms: int) -> Iterator[None]:
        """One poll at a time: two could not both know what the other has taken."""
        check_ms(timeout_ms)
        self._check_open()
        if self._is_polling:
            raise ConcurrentPoll("another task is polling this consumer")
        if not (self._subscription or self._pattern or self._group or self._positions.states):
            raise NothingToRead
        now_ms = self._runtime.monotonic_ms()
        self._metrics.on_poll(now_ms)
        self._in_hand.clear()
        self._commit_if_due(now_ms)
        group, self._is_polling = self._group, True
        if group is not None:
            group.membership.on_poll_begun(now_ms)
            group.on_poll()
        try:
            yield
        finally:
            self._is_polling = False
            if group is not None:
                group.membership.on_poll_ended(self._runtime.monotonic_ms())
                group.on_poll()

    def _note_in_hand(self, chunk: Chunk) -> None:
        state = chunk.state
        before = OffsetAndMetadata(state.position, "", state.position_epoch)
        self._in_hand.setdefault(state.partition, before)

    def _take(self, chunk: Chunk, most: int) -> list[ConsumerRecord[K, V]]:
        self._note_in_hand(chunk)
        found = chunk.take(most, check_crcs=self.config.check_crcs)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.records.record(len(found), now_ms)
        if chunk.is_spent:
            self._metrics.bytes.record(chunk.size, now_ms)
        if self._key_deserializer is None and self._value_deserializer is None:
            return cast("list[ConsumerRecord[K, V]]", found)
        read: list[ConsumerRecord[K, V]] = []
        with self._users_functions(chunk, found, read):
            for record in found:
                read.append(self._deserialized(record))
        return read

    @contextlib.contextmanager
    def _users_functions(
        self, chunk: Chunk, found: Sequence[ConsumerRecord], read: Sequence[object]
    ) -> Iterator[None]:
        """Where deserializers fail: first what could be read, the next poll raises BadRecord."""
        with contextlib.ExitStack() as stack:

            @stack.push
            def on_exit(kind: object, error: BaseException | None, trace: object) -> bool:
                # They may raise anything; what is no Exception (Ctrl-C, cancellation) goes on.
                if not isinstance(error, Exception):
                    return False
                bad = found[len(read)]
                chunk.state.jump(bad.offset, chunk.state.position_epoch)
                if not read:
                    raise BadRecord(bad.topic_partition, bad.offset, error) from error
                return True

            yield

    def _deserialized(self, record: ConsumerRecord[bytes, bytes]) -> ConsumerRecord[K, V]:
        key: Any = record.key
        value: Any = record.value
        if key is not None and self._key_deserializer is not None:
            key = self._key_deserializer(key)
        if value is not None and self._value_deserializer is not None:
            value = self._value_deserializer(value)
        read: Any = record._replace(key=key, value=value)
        return cast("ConsumerRecord[K, V]", read)

    async def _chunk(self, timeout_ms: int, *, may_raise: bool) -> Chunk | None:
        buffer = self._started().buffer
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
            self._check_open()
            await self._carry_out_pending()

    def _raise_errors(self) -> None:
        self._started().buffer.raise_error()
        lost: list[ClientError] = self._positions.lost()
        if lost:
            raise lost[0]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        while not self._iterated:
            try:
                self._iterated.extend(await self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopAsyncIteration from None
        return self._iterated.popleft()
