"""The asyncio consumer: what users call.

Each method delegates to a part of the consumer. `Polling` hands out records, `Subscribing` and
`Rebalancing` choose the partitions, `Seeking` moves positions and `Committing` commits offsets. All
parts share one `Engine`, which fetches.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from ...protocol.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime, SystemRuntime
from ..config import ConsumerConfig, ConsumerSettings, Servers, configured
from ..errors import ClientClosed
from ..group_types import ConsumerGroupMetadata, OffsetAndMetadata, RebalanceListener
from ..methods import made_like
from ..milliseconds import check_ms
from ..records import ConsumerRecord, RawRecords, RecordColumns
from ..serialization import Deserializer, K, V
from . import questions
from .committing import Committing, P, ToCommit
from .engine import Engine
from .interceptors import ConsumerInterceptor
from .polling import COLUMNS_PER_POLL, Polling
from .questions import DEFAULT_TIMEOUT_MS, Partition
from .rebalancing import Rebalancing
from .retry_policy import RetryPolicy
from .seeking import Seeking
from .subscribing import CLOSE_TIMEOUT_MS, NamePattern, Subscribing
from .user_functions import UserFunctions

if TYPE_CHECKING:
    from .retry_worker import RetryWorker

Q = ParamSpec("Q")
T = TypeVar("T")


def asked(
    question: Callable[Concatenate[Engine, Q], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Consumer[Any, Any]", Q], Coroutine[Any, Any, T]]:
    """Make a method of Consumer that awaits `question`, with its parameters and docstring."""

    async def method(self: "Consumer[Any, Any]", /, *args: Q.args, **kwargs: Q.kwargs) -> T:
        return await question(self._engine, *args, **kwargs)

    return made_like(question, method)


class Consumer(Generic[K, V]):
    """Reads records from topics.

        async with Consumer("localhost:9092", group_id="billing") as consumer:
            await consumer.subscribe(["flights"])
            async for record in consumer:
                print(record.partition, record.offset, record.key, record.value)

    Or in batches: `for record in await consumer.poll(timeout_ms=1000): ...`. Records of one
    partition come in order of offset, each once; there is no order across partitions. Reading goes
    on by itself when leaders move. Settings are keyword arguments named as Kafka's, with
    underscores. An unknown setting raises a ConfigError that names the most similar one.

    With group_id, members share the partitions and start where the group has committed. By default
    polling commits what earlier polls returned. After a crash some records are therefore read
    again, and none is skipped. Leaving the block commits too; if an exception leaves it, the
    records of the last poll are not committed and are read again.

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
        """The records that a poll returned and that iteration has not handed out yet.

        The sync consumer takes them from its own thread, while nothing runs on the loop."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make a consumer from settings under Kafka's dotted names, such as `group.id`.

        The keyword arguments are those of `__init__`.
        """
        return cls(**dict(config), **arguments)

    # -- life

    async def start(self) -> Self:
        """Connect to the cluster, as `async with` does.

        Raise BootstrapError after bootstrap_timeout_ms.
        """
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
        """Move back to before the newest poll, so that `close` does not commit its records."""
        self._engine.progress.forget_in_hand()

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit what polls returned (if commits are automatic), leave the group and disconnect.

        A poll under way raises ClientClosed. If the coordinator cannot be reached, the commit and
        the leaving each take `timeout_ms` at most.
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
            await engine.disconnect(timeout_ms)

    @property
    def is_closed(self) -> bool:
        """True once `close` has ended, or the start has failed."""
        return self._engine.metadata.pool.is_closed

    # -- what to read

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read exactly these partitions from now on, without membership in the group.

        Partitions that were assigned before keep their positions. The new ones start where the
        group has committed, or by auto_offset_reset, unless `seek` is called. Raise ValueError
        while subscribed with a group_id.
        """
        self._subscribing.assign(partitions)

    async def subscribe(
        self,
        topics: Sequence[str] | NamePattern,
        *,
        listener: RebalanceListener | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Read these topics from now on, or all topics whose whole name matches a pattern.

        A pattern is one compiled by `re` or `re2`.

        With group_id the partitions are shared with the other members of the group. The first poll
        joins the group, and `listener` is called when partitions are assigned or taken away. Topics
        that do not exist yet are read once they exist. Without group_id this consumer reads all
        partitions, and UnknownTopic is raised if a topic does not exist after `timeout_ms`.

        Partitions start where the group has committed, or by auto_offset_reset. Those added to a
        topic later are found within metadata_max_age_ms, and without group_id they are read from
        the beginning.
        """
        await self._subscribing.subscribe(topics, listener, timeout_ms)

    async def unsubscribe(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Read nothing from now on: commit (if automatic), then leave the group."""
        await self._subscribing.unsubscribe(timeout_ms)

    def subscription(self) -> list[str]:
        """List the topics subscribed to by name, or the topics that match the pattern so far."""
        return list(self._subscribing.topics)

    def assignment(self) -> list[TopicPartition]:
        """List the partitions being read."""
        return list(self._engine.positions.states)

    def pause(self, *partitions: Partition) -> None:
        """Leave these partitions out of polls, and keep their positions.

        A rebalance keeps a partition paused only if this consumer owns the partition throughout.
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
        """Return the records that have arrived, at most `max_records` (default max_poll_records).

        Waits up to `timeout_ms` for the first record, and returns an empty list if none comes.
        Positions move behind the returned records. Partitions are assigned and taken away only
        within polls, which call the listener; that may take longer than `timeout_ms`. Raises
        NoOffsetForPartition, OffsetOutOfRange or LogTruncated (all only under
        auto_offset_reset=none), CorruptRecord, BadRecord (a deserializer's error), ApiError if a
        broker refuses for good, ClientClosed, ConcurrentPoll, NothingToRead if nothing was
        subscribed to or assigned, TypeError for a float, which other clients take as seconds.
        """
        return await self._polling.poll(timeout_ms, max_records)

    async def poll_raw(self, timeout_ms: int = 0) -> list[RawRecords]:
        """Return the record batches that have arrived, whole, neither decoded nor checked.

        Waits up to `timeout_ms` for the first batch, and returns an empty list if none comes.
        Positions move behind the returned batches. Raises as `poll` does, but not BadRecord.
        """
        return await self._polling.poll_raw(timeout_ms)

    async def poll_columns(
        self, timeout_ms: int = 0, max_records: int = COLUMNS_PER_POLL
    ) -> list[RecordColumns]:
        """Return the records that have arrived as columns, one item for each batch.

        This is the fastest way to get decoded records. It works as `poll`, but keys and values are
        bytes, deserializers and interceptors are not called, and the last batch is returned whole,
        even if that exceeds `max_records`.
        """
        return await self._polling.poll_columns(timeout_ms, max_records)

    def with_retries(self, policy: RetryPolicy | None = None) -> "RetryWorker[K, V]":
        """Handle records by a function; those that fail are tried again later (RetryWorker)."""
        from .retry_worker import RetryWorker

        worker = RetryWorker(self, self._polling, self._engine.runtime, policy or RetryPolicy())
        # What came back while nobody read it, or is being settled, is neither lost nor doubled.
        self._engine.positions.from_start = worker.topics.again
        self._engine.needs_stable_offsets = True
        return worker

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
        """Continue at `offset`; if the log does not hold it, auto_offset_reset applies."""
        self._seeking.seek(partition, offset)

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue at the first record of these partitions, or of all if none is named."""
        self._seeking.seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue behind the last record of these partitions, or of all if none is named."""
        self._seeking.seek_to(partitions, LATEST_TIMESTAMP)

    async def position(self, partition: Partition, *, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Return the offset of the next record that a poll will return.

        Waits until the offset is looked up. Raises RequestTimedOut after `timeout_ms`, and
        NoOffsetForPartition if under auto_offset_reset=none the group has committed no offset.
        """
        return await self._seeking.position(partition, timeout_ms)

    # -- what is committed

    async def commit(
        self, offsets: ToCommit[P] | None = None, *, timeout_ms: int | None = None
    ) -> None:
        """Commit `offsets`; if it is None, all that polls have returned.

        A committed offset is that of the next record to read; OffsetAndMetadata adds a text and a
        leader epoch. Waits for a rebalance under way. Raises CommitFailed if this consumer is no
        longer a member of the group (the members that own its partitions read the records again),
        Refused if a broker refuses for good, RequestTimedOut after `timeout_ms` (default
        default_api_timeout_ms).
        """
        await self._committing.commit(offsets, timeout_ms)

    async def committed(
        self, partitions: Iterable[Partition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch the group's committed offsets of these partitions; if None, of those assigned.

        The value is None if nothing is committed. Raises Refused and RequestTimedOut as `commit`.
        """
        return await self._committing.committed(partitions, timeout_ms)

    async def group_lag(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Return for each committed partition the number of offsets from the commit to the end."""
        return await self._committing.group_lag(timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group id with this member's id and generation, for `Producer.send_offsets`."""
        return self._committing.group_metadata()

    # -- how far

    partitions_for = asked(questions.partitions_for)
    beginning_offsets = asked(questions.beginning_offsets)
    end_offsets = asked(questions.end_offsets)
    offsets_for_times = asked(questions.offsets_for_times)
    client_instance_id = asked(questions.client_instance_id)

    def high_watermark(self, partition: Partition) -> int | None:
        """Return the high watermark that the newest fetch reported; None before the first."""
        return self._seeking.high_watermark(partition)

    def lag(self, partition: Partition | None = None) -> int | None:
        """Return how many offsets are still to read in a partition, or in all assigned partitions.

        They are counted up to the high watermark of the newest fetch, or under read_committed to
        the last stable offset; transaction markers count too. Return None while the lag of any of
        the partitions is unknown.
        """
        return self._seeking.lag(partition)

    def metrics(self) -> dict[str, float]:
        """Return the consumer's metrics, by the names that Kafka's consumer uses.

        Totals count from the consumer's creation. Rates, averages and maxima cover the last 30 to
        60 seconds; averages and maxima are NaN if there was nothing in that time.
        """
        return self._engine.read_metrics()
