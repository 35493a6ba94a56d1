"""The asyncio consumer: what users call.

Each method hands on to the part that does it: `Polling` reads, `Subscribing` and `Rebalancing` know
what, `Seeking` from where, `Committing` what is committed. They work on one `Engine`, which keeps
records coming.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from re import Pattern
from typing import Any, Generic, Self, Unpack

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import ConsumerConfig, ConsumerSettings, Servers, configured
from ..errors import ClientClosed
from ..group_types import ConsumerGroupMetadata, OffsetAndMetadata, RebalanceListener
from ..milliseconds import check_ms
from ..records import ConsumerRecord, OffsetAndTimestamp, RawRecords, RecordColumns
from ..serialization import Deserializer, K, V
from . import questions
from .committing import Committing, P, ToCommit
from .engine import Engine
from .interceptors import ConsumerInterceptor
from .polling import COLUMNS_PER_POLL, Polling
from .questions import DEFAULT_TIMEOUT_MS, Partition
from .rebalancing import Rebalancing
from .seeking import Seeking
from .subscribing import CLOSE_TIMEOUT_MS, Subscribing
from .user_functions import UserFunctions


class Consumer(Generic[K, V]):
    """Reads records of topics.

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            await consumer.subscribe(["flights"])
            async for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Or in batches: `for record in await consumer.poll(timeout_ms=1000): ...`. Records of one
    partition come in order of offset, each once; there is no order across partitions. Reading goes
    on by itself when leaders move. Settings are keyword arguments named as Kafka's, with
    underscores; an unknown one is a ConfigError that names the nearest.

    With group_id, members share the partitions and go on where the group has committed. By default
    polling commits what earlier polls returned: a crash has records read again, none is skipped.
    Leaving the block commits too, unless an exception leaves it: then what the last poll returned
    is read again.

    Keys and values are bytes, or what `key_deserializer` and `value_deserializer` make of them.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        interceptors: Sequence[ConsumerInterceptor[K, V]] = (),
        runtime: Runtime | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config = configured(ConsumerConfig, bootstrap_servers, settings)
        self._engine = Engine(runtime or SystemRuntime("consumer"), self.config)
        functions = UserFunctions(key_deserializer, value_deserializer, interceptors)
        self._seeking = Seeking(self._engine)
        self._committing = Committing(self._engine, functions)
        self._rebalancing = Rebalancing(self._engine, self._committing)
        self._subscribing = Subscribing(self._engine, self._rebalancing)
        self._polling = Polling(
            self._engine, functions, self._subscribing, self._rebalancing, self._committing
        )
        self.unread: deque[ConsumerRecord[K, V]] = self._engine.progress.unread
        """The records a poll returned and iteration has not handed out yet.

        The sync consumer takes them from its own thread, while nothing runs on the loop."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a consumer from a mapping with Kafka's dotted keys, and arguments as above."""
        return cls(**dict(config), **arguments)

    # -- life

    async def start(self) -> Self:
        """Reach the cluster; `async with` does it. BootstrapError after bootstrap_timeout_ms."""
        if await self._engine.start():
            self._committing.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.forget_in_hand()
        await self.close()

    def forget_in_hand(self) -> None:
        """Have closing not commit what the newest poll returned: it was not dealt with."""
        self._engine.progress.forget_in_hand()

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """End: commit what polls returned (where that is automatic), leave the group, disconnect.

        A poll under way raises ClientClosed. Takes `timeout_ms` at most where the coordinator
        cannot be reached.
        """
        check_ms(timeout_ms)
        engine = self._engine
        if engine.is_closing:
            return
        engine.end_polls()
        try:
            if engine.is_started:
                await self._rebalancing.leave(timeout_ms)
        finally:
            engine.is_closed = True
            await self._committing.stop()
            await engine.disconnect()

    # -- what to read

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on, whoever else reads them.

        Those that were assigned before keep their positions; others start where the group has
        committed, or by auto_offset_reset, unless `seek` says where.
        """
        self._subscribing.assign(partitions)

    async def subscribe(
        self,
        topics: Sequence[str] | Pattern[str],
        *,
        listener: RebalanceListener | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Read these topics from now on, or all whose whole name matches a pattern.

        With group_id the partitions are shared with the other members of the group: the first poll
        joins it, and `listener` hears of what comes and goes. Topics that do not exist yet are
        read when they do. Without group_id all partitions are read, alone, and UnknownTopic is
        raised where a topic does not exist after `timeout_ms`.

        Partitions start where the group has committed, or by auto_offset_reset. Those added to a
        topic later are found within metadata_max_age_ms; alone, they are read from the beginning.
        """
        await self._subscribing.subscribe(topics, listener, timeout_ms)

    async def unsubscribe(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Read nothing from now on; what polls returned is committed, and the group is left."""
        await self._subscribing.unsubscribe(timeout_ms)

    def subscription(self) -> list[str]:
        """List the topics subscribed to, or matched by the pattern so far."""
        return list(self._subscribing.topics)

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return list(self._engine.positions.states)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, without losing the position.

        A rebalance that leaves a partition here leaves it paused.
        """
        self._seeking.pause(partitions)

    def resume(self, *partitions: Partition) -> None:
        """Include paused partitions in polls again."""
        self._seeking.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """List the partitions that are paused."""
        return self._seeking.paused()

    # -- reading

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
        return await self._polling.poll(timeout_ms, max_records)

    async def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return what has arrived as whole record batches, neither decoded nor checked.

        Waits up to `timeout_ms` for the first; an empty list after that. Positions move behind
        what is returned. Raises as `poll` does, but never CorruptRecord.
        """
        return await self._polling.poll_raw(timeout_ms)

    async def poll_columns(
        self, timeout_ms: int = 0, max_records: int = COLUMNS_PER_POLL
    ) -> list[RecordColumns]:
        """Return what has arrived by columns, one item for each batch: the fastest way to read.

        As `poll`, but keys and values are bytes, deserializers and interceptors are not called, and
        it ends with the batch that reaches `max_records`.
        """
        return await self._polling.poll_columns(timeout_ms, max_records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        while not self.unread:
            try:
                self.unread.extend(await self.poll(DEFAULT_TIMEOUT_MS))
            except ClientClosed:
                raise StopAsyncIteration from None
        return self.unread.popleft()

    # -- where to read

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`; one outside the log is handled by auto_offset_reset."""
        self._seeking.seek(partition, offset)

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._seeking.seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record of these partitions, or of all."""
        self._seeking.seek_to(partitions, LATEST_TIMESTAMP)

    async def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Give the offset of the next record that a poll will return.

        Waits for the offset to be looked up; RequestTimedOut after `timeout_ms`,
        NoOffsetForPartition where auto_offset_reset=none leaves none.
        """
        return await self._seeking.position(partition, timeout_ms)

    # -- what is committed

    async def commit(
        self, offsets: ToCommit[P] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit how far the group has come: `offsets`, or all that polls have returned.

        An offset is that of the next record to read; OffsetAndMetadata may say more beside it.
        Waits for a rebalance under way. Raises CommitFailed where the group went on without this
        consumer (its records are read again by others: at least once), Refused where a broker will
        not have it, RequestTimedOut after `timeout_ms` (default default_api_timeout_ms).
        """
        await self._committing.commit(offsets, timeout_ms)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Ask how far the group has come in these partitions, or in those assigned; None: nothing.

        Raises as `commit` does.
        """
        return await self._committing.committed(partitions, timeout_ms)

    async def group_lag(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Count what the whole group has still to read: behind its commits, in each partition."""
        return await self._committing.group_lag(timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Say who this member is, for `Producer.send_offsets`."""
        return self._committing.group_metadata()

    # -- how far

    async def partitions_for(
        self, topic: str, *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> list[int]:
        """List a topic's partitions; UnknownTopic if it does not exist after `timeout_ms`."""
        return await questions.partitions_for(self._engine, topic, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the first offset of each partition; does not move positions."""
        return await questions.offsets_at(self._engine, partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Look up the offset behind the last readable record of each partition.

        That is the high watermark, or under read_committed the last stable offset.
        """
        return await questions.offsets_at(self._engine, partitions, LATEST_TIMESTAMP, timeout_ms)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first record at or after each time, in ms since the epoch.

        None where a partition has none so late.
        """
        return await questions.offsets_for_times(self._engine, times, timeout_ms)

    def high_watermark(self, partition: Partition) -> int | None:
        """Give the high watermark as of the newest fetch; None before the first."""
        return self._seeking.high_watermark(partition)

    def lag(self, partition: Partition | None = None) -> int | None:
        """Count the records still to read in a partition, or in all, as of the newest fetches.

        Up to the high watermark, or under read_committed up to the last stable offset; markers of
        transactions count too. None while it is not known of one of them.
        """
        return self._seeking.lag(partition)

    def metrics(self) -> dict[str, float]:
        """Give what the consumer has counted, by the names Kafka's consumer uses.

        Totals since it was made; rates, averages and maxima are of the last 30 to 60 seconds, NaN
        where there was nothing.
        """
        now_ms = self._engine.runtime.monotonic_ms()
        return self._engine.metrics.snapshot(now_ms) | self._seeking.metrics()
