"""The two classes of a connector: one plans tasks, the other moves records.

A connector is found by its entry point in the group `minikafka.connectors`, or as `module:Class`.
Tasks are sync, and then run in a thread of their own (or a process, `tasks.isolation=process`), or
async, and then run on the worker's loop. All names and the order of calls are those of Kafka's
Connect (org.apache.kafka.connect.{source,sink}; KIP-26, KIP-618 transactions, KIP-875 offsets).

A task raises `Retry` to be given the same batch again. Any other exception fails the task.
"""

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from ..runtime.version import VERSION
from .config_def import ConfigDef, ConfigValue
from .records import SinkRecord, SourceRecord

if TYPE_CHECKING:
    import pyarrow

Props = Mapping[str, str]
"""The configuration of a connector or a task, as texts."""
SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class Retry(MinikafkaError):
    """The batch in hand cannot be taken now: it is given to the task again after `after_ms`."""

    def __init__(self, why: str, after_ms: int | None = None) -> None:
        super().__init__(why)
        self.after_ms = after_ms
        """Milliseconds; None means the task's own timeout or the worker's back-off."""


# ------------------------------------------------------------------------------------ contexts


class OffsetReader(Protocol):
    """The offsets that the worker has committed for this connector."""

    def read(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the offset of `partition`, or None if there is none."""

    def read_all(
        self, partitions: Iterable[SourcePartition]
    ) -> list[tuple[SourcePartition, SourceOffset | None]]:
        """Return the offset of each partition, in order."""


class TransactionControl(Protocol):
    """The ends of a source's transactions, with `transaction.boundary=connector` (KIP-618)."""

    def commit(self, record: SourceRecord | None = None) -> None:
        """Ask for a commit after `record`, or after the batch that `poll` returns next."""

    def abort(self, record: SourceRecord | None = None) -> None:
        """Ask that what is open until `record`, or until the end of the next batch, is aborted."""


class ConnectorContext(Protocol):
    """The worker, as a connector sees it."""

    @property
    def offsets(self) -> OffsetReader:
        """The committed offsets; of a source."""

    def request_reconfiguration(self) -> None:
        """Ask that `task_configs` is called again, as when the parts of the source changed."""

    def fail(self, error: Exception) -> None:
        """Make the connector FAILED with this error."""


class SourceContext(Protocol):
    """The worker, as a source task sees it."""

    @property
    def offsets(self) -> OffsetReader:
        """The committed offsets of this connector."""

    @property
    def poll_timeout_ms(self) -> int:
        """How long `poll` may block at most, so that stops and commits are in time."""

    @property
    def transaction(self) -> TransactionControl | None:
        """Set if the connector decides where transactions end."""

    @property
    def stopping(self) -> bool:
        """True from the moment the task is asked to stop."""


class SinkContext(Protocol):
    """The worker, as a sink task sees it."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this task reads."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset` with the next fetch; in `open` and anywhere else."""

    def timeout(self, after_ms: int) -> None:
        """Give the batch again after this time, if `put` raises Retry without a time."""

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch nothing of these partitions until `resume`."""

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch of these partitions again."""

    def request_commit(self) -> None:
        """Ask that offsets are committed after this batch and not at the next interval."""

    def report(self, record: SinkRecord, error: Exception) -> Awaitable[None]:
        """Hand over a record that cannot be written, to the dead letters (KIP-610).

        The offsets behind the record are not committed before it is there. Raises `error` where
        `errors.tolerance` is `none`.
        """


# ---------------------------------------------------------------------------------- connectors


class Connector:
    """Plans the tasks of one connector. The same instance may be started only once."""

    config: ClassVar[ConfigDef] = ConfigDef()
    """The keys of its configuration, beside the keys that every connector has."""
    task: ClassVar[type[Any]]
    """The class of its tasks."""
    version: ClassVar[str] = VERSION

    props: Props
    context: ConnectorContext

    def start(self, props: Props, context: ConnectorContext) -> None:
        """Begin; raise if the configuration cannot work."""
        self.props, self.context = props, context

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return the configuration of each task, at most `max_tasks`; here one task does all."""
        return [self.props]

    def stop(self) -> None:
        """End what `start` began."""

    def validate(self, props: Props) -> list[ConfigValue]:
        """Return what is known of each key of `config`, with all errors."""
        return self.config.validate(props)

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Judge offsets that a user sets; None removes one. Raise ConnectError to refuse (KIP-875).

        Return True if the connector has looked at them. Keys are source partitions as tuples of
        items, or TopicPartitions.
        """
        return False


class SourceConnector(Connector):
    """A connector whose tasks read a system and hand out SourceRecords."""

    def exactly_once_support(self, props: Props) -> bool:
        """Return True if what was committed is never read again nor skipped, with these props."""
        return False

    def can_define_transaction_boundaries(self, props: Props) -> bool:
        """Return True if its tasks use `context.transaction`."""
        return False


class SinkConnector(Connector):
    """A connector whose tasks are given SinkRecords and write them to a system."""


class ConnectError(MinikafkaError):
    """A connector cannot do what it was asked for; the message says what and why."""


# --------------------------------------------------------------------------------------- tasks


class SourceTask:
    """Reads a part of a system. All calls come from one thread."""

    props: Props
    context: SourceContext

    def start(self, props: Props, context: SourceContext) -> None:
        """Open the source; `context.offsets` says where to go on."""
        self.props, self.context = props, context

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return what there is to read; block at most `context.poll_timeout_ms`."""
        raise NotImplementedError

    def commit(self) -> None:
        """Be told that the offsets of all records handed out so far may have been committed."""

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Be told that `record` is in its topic at `metadata`, or was filtered or skipped: None."""

    def stop(self) -> None:
        """Close the source. Called after the last `poll`."""


class AsyncSourceTask:
    """Reads a part of a system on the worker's loop: it awaits, and never blocks."""

    props: Props
    context: SourceContext

    async def start(self, props: Props, context: SourceContext) -> None:
        """Open the source; `context.offsets` says where to go on."""
        self.props, self.context = props, context

    def records(self) -> AsyncIterator[Sequence[SourceRecord]]:
        """Yield batches. The next one is asked for when the worker has room for it."""
        raise NotImplementedError

    async def commit(self) -> None:
        """Be told that the offsets of all records handed out so far may have been committed."""

    async def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Be told that `record` is in its topic at `metadata`, or was filtered or skipped: None."""

    async def stop(self) -> None:
        """Close the source. `records` is cancelled before."""


class SinkTask:
    """Writes records to a system. All calls come from one thread."""

    props: Props
    context: SinkContext

    def start(self, props: Props, context: SinkContext) -> None:
        """Connect to the system."""
        self.props, self.context = props, context

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Take these partitions; `context.seek` where the system knows a better offset."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take a batch, perhaps an empty one. It need not be durable before `flush`."""
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make all that lies before these offsets durable."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed: none beyond what is safe."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give these partitions back; what was put and not flushed comes again elsewhere."""

    def stop(self) -> None:
        """Disconnect. Called after the last `close`."""


class ColumnSinkTask(SinkTask):
    """A sink that takes whole batches as columns, without an object per record.

    It is used where no transformation and no key or value converter needs single records; else the
    same records come by `put`.
    """

    def put_columns(self, partition: TopicPartition, batch: "pyarrow.RecordBatch") -> None:
        """Take the columns offset int64, timestamp_ms int64, key binary, value binary."""
        raise NotImplementedError


class AsyncSinkTask:
    """Writes records to a system on the worker's loop: it awaits, and never blocks."""

    props: Props
    context: SinkContext

    async def start(self, props: Props, context: SinkContext) -> None:
        """Connect to the system."""
        self.props, self.context = props, context

    async def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Take these partitions; `context.seek` where the system knows a better offset."""

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Take a batch, perhaps an empty one. It need not be durable before `flush`."""
        raise NotImplementedError

    async def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make all that lies before these offsets durable."""

    async def pre_commit(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed: none beyond what is safe."""
        await self.flush(offsets)
        return offsets

    async def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give these partitions back; what was put and not flushed comes again elsewhere."""

    async def stop(self) -> None:
        """Disconnect. Called after the last `close`."""
