"""The source: batch and streaming reads of topics as Arrow batches.

This module decides what a query reads and when; columns.py decodes records and offsets.py computes
ranges. Readers are pickled into tasks, so they open no connection before they are used: connections
are kept in `cluster`, one set for each Python worker.
"""

import logging
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ..client.errors import LogTruncated, OffsetOutOfRange
from ..client.records import RawRecords
from ..protocol.errors import RemoteProtocolError
from ..protocol.types import ZERO_UUID, TopicPartition, uuid_to_text
from . import offsets as arithmetic
from .admission import Gathering
from .cluster import Cluster, cluster_for
from .columns import RecordBatches, decode_batches
from .committed import visible
from .group_progress import GroupProgress
from .offsets import DataLoss, OffsetRange
from .options import LARGEST, Offsets
from .planning import Plan, tasks, with_named
from .source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

log = logging.getLogger(__name__)

_TYPES: Final = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
}


def schema_of(columns: Sequence[str]) -> StructType:
    """Return the schema with these columns, in the connector's types."""
    # Built by hand: a worker has no JVM to parse DDL with.
    schema = StructType()
    for name in columns:
        schema = schema.add(name, _TYPES[name])
    return schema


class RangePartition(InputPartition):
    """The partition of one task: a range of offsets of one topic partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class _Reading:
    """The part that BatchReader and StreamReader share: a task reads one range of offsets."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def cluster(self) -> Cluster:
        return cluster_for(self.options.client, self.options.patience)

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        """Read one range; end exactly at its end, also across gaps and control records.

        Raise RemoteProtocolError if the broker's bytes are wrong, DataLoss if records are gone and
        failOnDataLoss is true.
        """
        assert isinstance(partition, RangePartition)
        wanted = partition.wanted
        schema = to_arrow_schema(self.schema, timezone="UTC")
        made = RecordBatches(wanted.topic, wanted.partition, schema)
        check_crcs = self.options.client.get("check.crcs", "true").lower() != "false"
        is_told = False
        for raw in self._fetched(wanted):
            if not is_told and _is_another_topic(raw, wanted):
                is_told = True
                self._lost(f"topic {wanted.topic} was deleted and made anew after this was planned")
            batches = visible(raw, check_crcs=check_crcs)
            meant = range(raw.position, wanted.end)
            try:
                for columns in decode_batches(raw.data, batches, meant, schema.names):
                    yield from made.of(columns)
            except RemoteProtocolError as error:
                name = f"{wanted.topic}-{wanted.partition}"
                raise RemoteProtocolError(f"{name}: {error}") from error

    def _fetched(self, wanted: OffsetRange) -> Iterator[RawRecords]:
        """Yield the whole batches that hold the range; report which of its records are lost."""
        partition = TopicPartition(wanted.topic, wanted.partition)
        position = wanted.start
        is_fresh = True
        while position < wanted.end:
            try:
                for raw in self.cluster().read(partition, position, wanted.end):
                    self._check_is_written(raw)
                    position = raw.next_position
                    is_fresh = False
                    yield raw
            except (LogTruncated, OffsetOutOfRange) as error:
                if error.partition != partition:
                    continue  # an error of an earlier read of another partition
                if isinstance(error, OffsetOutOfRange):
                    position = self._after_gap(wanted, position)
                elif is_fresh:
                    is_fresh = False  # the worker knew an older topic of this name
                else:
                    self._lost(str(error))
            except DataLoss as loss:
                self._lost(str(loss))
                return

    def _after_gap(self, wanted: OffsetRange, position: int) -> int:
        """Report that the log does not hold `position`; return the offset to continue at."""
        name = f"{wanted.topic}-{wanted.partition}"
        where = {wanted.topic: (wanted.partition,)}
        first = self.cluster().earliest(where)[wanted.topic][wanted.partition]
        if first <= position:
            self._lost(f"{name} ends before offset {position}, which was to be read")
            return wanted.end
        self._lost(f"{name}: offsets {position} to {first} were deleted before the read")
        return first

    def _check_is_written(self, raw: RawRecords) -> None:
        """Raise RemoteProtocolError for a batch beyond the log's end.

        Its base offset, which has no checksum, is wrong then. The end that came with the fetch may
        be older than the batches; only then ask for the end again.
        """
        if raw.next_position <= raw.high_watermark:
            return
        latest = self.cluster().latest({raw.topic: (raw.partition,)})[raw.topic][raw.partition]
        if raw.next_position > latest:
            raise RemoteProtocolError(
                f"{raw.topic}-{raw.partition} ends at {latest}, "
                f"and a batch came that ends at {raw.next_position}"
            )

    def _lost(self, why: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{why}. Set failOnDataLoss to false to go on without them")
        log.warning("%s; going on, as failOnDataLoss is false", why)


def _is_another_topic(raw: RawRecords, wanted: OffsetRange) -> bool:
    is_known = bool(wanted.topic_id) and raw.topic_id != ZERO_UUID
    return is_known and uuid_to_text(raw.topic_id) != wanted.topic_id


class BatchReader(_Reading, DataSourceReader):
    """Reads everything between two sets of offsets, both fixed when the job is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one task for each partition with records to read, or more if options say so."""
        plan = Plan(self.options, self.cluster())
        plan.check_complete()
        start, end = plan.between(self._lost)
        return [RangePartition(each) for each in tasks(self.options, start, end, plan.topic_ids)]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches; Spark keeps their offsets in its checkpoint."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None
        self._topic_ids: dict[str, str] = {}
        self._gathering = Gathering(options.admission)
        self._is_under_way = False
        group = options.commit_offsets_group
        self._told = None if group is None else GroupProgress(group, options.client)

    def initialOffset(self) -> dict[str, Any]:
        """Choose where a query without a checkpoint starts; the same at each call."""
        if self._initial is None:
            plan = Plan(self.options, self.cluster())
            plan.check_complete()
            self._initial = plan.start(self._lost)
        return arithmetic.to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return `maxOffsetsPerTrigger` as Spark's own limit.

        Spark's limits cannot hold a minimum and a maximum together, so the minimum is kept here.
        Spark passes this limit to `latestOffset`, or another one if everything is to be read.
        """
        admission = self.options.admission
        if admission.max_offsets is None and admission.min_offsets is not None:
            return ReadMaxRows(LARGEST)
        return (
            ReadAllAvailable()
            if admission.max_offsets is None
            else ReadMaxRows(admission.max_offsets)
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query at the present end of the logs."""
        self._target = Plan(self.options, self.cluster()).latest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Choose the end of the next micro-batch.

        At every trigger Spark passes the end of what it has finished, which is then committed for
        the group of `commitOffsetsGroup`. Spark's `commit` comes later, and never for the last
        batch.
        """
        before = arithmetic.from_json(start)
        latest = self._latest(before)
        if self._told is not None:
            self._told.tell(before)
        if self._target is not None:
            latest = arithmetic.at_most(latest, self._target, before)
        new = arithmetic.new_partitions(before, latest)
        earliest = self.cluster().earliest(new) if new else {}
        full_start = arithmetic.with_new_partitions(before, latest, earliest)
        is_whole = not arithmetic.has_shrunk(full_start, latest)
        if isinstance(limit, ReadMaxRows) and self._target is None and is_whole:
            waiting = arithmetic.waiting(full_start, latest)
            if self._gathering.is_too_early(waiting, monotonic()):
                return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return arithmetic.to_json(arithmetic.limited(full_start, latest, most))

    def _latest(self, before: Offsets) -> Offsets:
        """Ask where all partitions end now, and report what of `before` is lost."""
        # A restart may name other topics than its checkpoint; once the query runs, they are known.
        expected = before if self._is_under_way else with_named(self.options, before)
        plan = Plan(self.options, self.cluster(), expected)
        if not self._is_under_way:
            for name in plan.missing():
                self._lost(f"the cluster does not have {name}")
            self._is_under_way = True
        for topic, topic_id in plan.topic_ids.items():
            if self._topic_ids.get(topic, topic_id) != topic_id:
                self._lost(
                    f"topic {topic} was deleted and made anew (seen because the query was running: "
                    "a checkpoint holds no topic ids)"
                )
        self._topic_ids.update(plan.topic_ids)
        latest = self._seen = plan.latest()
        for why in arithmetic.losses(before, latest):
            self._lost(why)
        return latest

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the topics end, which Spark reports as progress to show the lag.

        Return None before the first micro-batch is planned.
        """
        return None if self._seen is None else arithmetic.to_json(self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks that read from `start` to `end`, one or more for each partition."""
        before, after = arithmetic.from_json(start), arithmetic.from_json(end)
        new = arithmetic.new_partitions(before, after)
        if new:
            earliest = self.cluster().earliest(new)
            for topic, by in earliest.items():
                for partition, first in by.items():
                    if first:
                        self._lost(f"{topic}-{partition} is new here and begins at {first}, not 0")
            before = arithmetic.with_new_partitions(before, after, earliest)
        planned = tasks(self.options, before, after, self._topic_ids)
        return [RangePartition(each) for each in planned]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, because Spark's checkpoint is the only place where progress counts."""

    def stop(self) -> None:
        """Close the progress reporter; the worker's other connections stay for the next query."""
        if self._told is not None:
            self._told.close()
