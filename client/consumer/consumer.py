"""The asyncio consumer: what users call.

Assignment and positions are the user's; `Fetcher` keeps records coming. There are no groups yet:
`subscribe` reads all partitions of its topics, and nothing is committed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime, SystemRuntime
from ..cluster import Changes
from ..config import ConsumerConfig, ConsumerSettings, Servers, configured
from ..errors import ClientClosed, ClientError, RequestTimedOut
from ..metadata import Metadata, pool_for
from ..records import ConsumerRecord, RawRecords
from .chunk import Chunk
from .fetcher import Fetcher
from .positions import RESETS, PartitionState, Positions, Standing
from .questions import DEFAULT_TIMEOUT_MS, Partition, Questions

log = logging.getLogger(__name__)


class Consumer(Questions):
    """Reads records of topics.

        async with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
            await consumer.subscribe(["flights"])
            async for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Or in batches: `for record in await consumer.poll(timeout_ms=1000): ...`. Records of one
    partition come in order of offset, each once; there is no order across partitions. Reading goes
    on by itself when leaders move. Settings are keyword arguments named as Kafka's, with
    underscores; an unknown one is a ConfigError that names the nearest.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        runtime: Runtime | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config = configured(ConsumerConfig, bootstrap_servers, settings)
        self._runtime = runtime or SystemRuntime("consumer")
        self._pool = pool_for(self._runtime, self.config)
        self._metadata = Metadata(
            self._runtime,
            self.config,
            self._pool,
            auto_create=self.config.allow_auto_create_topics,
        )
        self._positions = Positions(reset=RESETS[self.config.auto_offset_reset])
        self._subscription: tuple[str, ...] = ()
        self._fetcher: Fetcher | None = None
        self._iterated: deque[ConsumerRecord] = deque()
        self._is_closed = self._is_started = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, runtime: Runtime | None = None) -> Self:
        """Make a consumer from a mapping with Kafka's dotted keys."""
        keywords: Any = dict(config)
        return cls(runtime=runtime, **keywords)

    # -- life

    async def start(self) -> Self:
        """Reach the cluster; `async with` does it. BootstrapError after bootstrap_timeout_ms."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._fetcher is None:
            try:
                await self._metadata.start()
            except BaseException:
                await self._pool.close()
                raise
            self._metadata.listen(self._on_metadata)
            self._fetcher = Fetcher(self._runtime, self.config, self._metadata, self._positions)
            self._fetcher.start()
            self._is_started = True
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End; a poll under way raises ClientClosed."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._fetcher is not None:
            self._fetcher.buffer.arrived.set()
            await self._fetcher.close()
        await self._metadata.close()
        await self._pool.close()

    def _started(self) -> Fetcher:
        self._check_usable()
        assert self._fetcher is not None
        return self._fetcher

    # -- what to read

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on.

        Those that were assigned before keep their positions; others start by auto_offset_reset
        unless `seek` says where.
        """
        fetcher = self._started()
        self._subscription = ()
        wanted = [TopicPartition(*partition) for partition in partitions]
        self._positions.assign(wanted, start=self._positions.reset)
        fetcher.on_positions_changed()

    async def subscribe(
        self, topics: Sequence[str], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Read all partitions of these topics from now on, alone (there is no group).

        They start by auto_offset_reset. Partitions added to a topic later are found within
        metadata_max_age_ms and read from their beginning. Raises UnknownTopic where a topic does
        not exist after `timeout_ms`.
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names")
        self._started()
        await self._metadata.wait_for_topics(topics, timeout_ms)
        self._subscription = tuple(topics)
        self._positions.assign(self._subscribed(), start=self._positions.reset)
        self._started().on_positions_changed()

    def _subscribed(self) -> list[TopicPartition]:
        topics = self._metadata.view.topics
        return [
            TopicPartition(name, index)
            for name in self._subscription
            if name in topics
            for index in sorted(topics[name].partitions)
        ]

    def _on_metadata(self, changes: Changes) -> None:
        if not self._subscription or self._fetcher is None:
            return
        found = self._subscribed()
        if any(partition not in self._positions.states for partition in found):
            # A partition added while we read: its first records are news too.
            kept = list(self._positions.states)
            self._positions.assign(dict.fromkeys([*kept, *found]), start=EARLIEST_TIMESTAMP)
            self._fetcher.on_positions_changed()

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return list(self._positions.states)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, without losing the position."""
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, *partitions: Partition) -> None:
        """Include paused partitions again."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._started().on_positions_changed()
        self._started().buffer.arrived.set()

    # -- where to read

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`; one outside the log is handled by auto_offset_reset."""
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        self._state(partition).jump(offset)
        self._jumped()

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record of these partitions, or of all."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Sequence[Partition], timestamp: int) -> None:
        for partition in partitions or self.assignment():
            self._state(partition).look_up(timestamp)
        self._jumped()

    def _jumped(self) -> None:
        self._iterated.clear()
        self._started().on_positions_changed()

    async def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Give the offset of the next record that a poll will return.

        Waits for the offset to be looked up; RequestTimedOut after `timeout_ms`,
        NoOffsetForPartition where auto_offset_reset=none leaves none.
        """
        state = self._state(partition)
        buffer = self._started().buffer
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while state.standing is Standing.UNKNOWN:
                    if state.looking_for is None:
                        buffer.raise_error()
                        raise self._positions.lost()[0]
                    buffer.arrived.clear()
                    await buffer.arrived.wait()
                    self._started()
        except TimeoutError:
            raise RequestTimedOut(f"{partition}: the position is not known yet") from None
        return state.position

    def _state(self, partition: Partition) -> PartitionState:
        state = self._positions.states.get(TopicPartition(*partition))
        if state is None:
            raise ValueError(f"{partition} is not assigned")
        return state

    # -- reading

    async def poll(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Return what has arrived, at most `max_records` (default max_poll_records).

        Waits up to `timeout_ms` for the first record; an empty list after that. Positions move
        behind what is returned. Raises, once each: NoOffsetForPartition, OffsetOutOfRange,
        LogTruncated (all only under auto_offset_reset=none), CorruptRecord, ApiError where a
        broker refuses for good, ClientClosed.
        """
        most = self.config.max_poll_records if max_records is None else max_records
        taken: list[ConsumerRecord] = []
        while len(taken) < most:
            chunk = await self._chunk(0 if taken else timeout_ms, may_raise=not taken)
            if chunk is None:
                break
            taken += chunk.take(most - len(taken), check_crcs=self.config.check_crcs)
            if chunk.is_spent:
                self._started().buffer.release(chunk)
            elif not taken or len(taken) < most:
                break  # stopped before a batch that cannot be read: the next poll says so
        return taken

    async def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return what has arrived as whole record batches, neither decoded nor checked.

        Waits up to `timeout_ms` for the first; an empty list after that. Positions move behind
        what is returned. Raises as `poll` does, but never CorruptRecord.
        """
        taken: list[RawRecords] = []
        chunk = await self._chunk(timeout_ms, may_raise=True)
        while chunk is not None:
            taken.append(chunk.take_raw())
            self._started().buffer.release(chunk)
            chunk = await self._chunk(0, may_raise=False)
        return taken

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
            self._started()

    def _raise_errors(self) -> None:
        self._started().buffer.raise_error()
        lost: list[ClientError] = self._positions.lost()
        if lost:
            raise lost[0]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._iterated:
            try:
                self._iterated.extend(await self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopAsyncIteration from None
        return self._iterated.popleft()

    # -- how far

    def high_watermark(self, partition: Partition) -> int | None:
        """Give the high watermark as of the newest fetch; None before the first."""
        known = self._state(partition).high_watermark
        return None if known < 0 else known

    def lag(self, partition: Partition) -> int | None:
        """Count the records between position and high watermark as of the newest fetch."""
        state = self._state(partition)
        if state.high_watermark < 0 or state.standing is Standing.UNKNOWN:
            return None
        return max(state.high_watermark - state.position, 0)
