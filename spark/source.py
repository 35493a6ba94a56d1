"""The source: batch and streaming reads of topics as Arrow batches.

Owns what a query reads and when; never decodes a record (columns.py) nor computes a range
(offsets.py). Readers are pickled into tasks, so they open no connection before they are used:
connections live in `cluster`, one set for each Python worker.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
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

from ..client.errors import OffsetOutOfRange
from ..protocol.types import TopicPartition
from . import offsets as arithmetic
from .cluster import Cluster, cluster_for
from .columns import HEADERS_TYPE, Columns, decode
from .offsets import DataLoss, OffsetRange
from .options import Offsets, SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

log = logging.getLogger(__name__)

ROWS_PER_BATCH = 10_000
"""Spark handles Arrow batches of this size best; larger record batches are cut."""


def schema_of(include_headers: bool) -> StructType:
    """Give the connector's columns; `headers` only where it is asked for."""
    # Built by hand: a worker has no JVM to parse DDL with.
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema = schema.add("headers", ArrayType(header))
    return schema


class RangePartition(InputPartition):
    """One task: a range of offsets of one partition."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class _Reading:
    """What batch and streaming readers share: the schema, and reading one range in a task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def cluster(self) -> Cluster:
        return cluster_for(self.options.client)

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        """Read one range, ending exactly at its end also across gaps and control records."""
        assert isinstance(partition, RangePartition)
        wanted = partition.wanted
        arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        for data in self._batches_of(wanted):
            for columns in decode(
                data, wanted.start, wanted.end, with_headers=self.options.include_headers
            ):
                yield from _arrow_batches(columns, wanted, arrow_schema)

    def _batches_of(self, wanted: OffsetRange) -> Iterator[memoryview]:
        partition = TopicPartition(wanted.topic, wanted.partition)
        position = wanted.start
        while position < wanted.end:
            try:
                for raw in self.cluster().read(partition, position, wanted.end):
                    position = raw.next_position
                    yield raw.data
            except OffsetOutOfRange:
                name = f"{wanted.topic}-{wanted.partition}"
                where = {wanted.topic: (wanted.partition,)}
                first = self.cluster().earliest(where)[wanted.topic][wanted.partition]
                if first <= position:
                    why = f"{name} ends before offset {position}, which was to be read"
                    self._lost(why)
                    return
                self._lost(f"{name}: offsets {position} to {first} were deleted before the read")
                position = first

    def _lost(self, why: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{why}. Set failOnDataLoss to false to go on without them")
        log.warning("%s; going on, as failOnDataLoss is false", why)

    def _bounds(self) -> tuple[Offsets, Offsets]:
        """Ask for the earliest and the latest offsets of every partition that is read."""
        cluster = self.cluster()
        partitions = self.options.assigned or cluster.partitions_of(self.options.topics)
        return cluster.earliest(partitions), cluster.latest(partitions)

    def _range_partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        # Spark makes one partition of its own of an empty list, and reads it.
        found = arithmetic.ranges(start, end) or [OffsetRange("", 0, 0, 0)]
        return [RangePartition(each) for each in found]


class BatchReader(_Reading, DataSourceReader):
    """Reads what lies between two sets of offsets, both fixed when the job is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """Plan one task for each partition that holds something to read."""
        earliest, latest = self._bounds()
        start = arithmetic.resolve("startingOffsets", self.options.starting, earliest, latest)
        end = arithmetic.resolve("endingOffsets", self.options.ending, earliest, latest)
        for topic, by in end.items():
            for partition, offset in by.items():
                first, last = earliest[topic][partition], latest[topic][partition]
                if start[topic][partition] < first or offset > last:
                    self._lost(
                        f"{topic}-{partition} holds offsets {first} to {last}, wanted were "
                        f"{start[topic][partition]} to {offset}"
                    )
                    start[topic][partition] = max(first, start[topic][partition])
                    by[partition] = min(last, offset)
        return self._range_partitions(start, end)


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches; Spark keeps the offsets, in its checkpoint."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._seen: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Choose where a query without a checkpoint starts; the same at each call."""
        if self._initial is None:
            earliest, latest = self._bounds()
            self._initial = arithmetic.resolve(
                "startingOffsets", self.options.starting, earliest, latest
            )
        return arithmetic.to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Give `maxOffsetsPerTrigger` as Spark's own limit."""
        most = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the end of the query at what is there now."""
        self._target = self._bounds()[1]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Choose the end of the next micro-batch."""
        before = arithmetic.from_json(start)
        earliest, latest = self._bounds()
        self._seen = latest
        if self._target is not None:
            latest = _at_most(latest, self._target)
        try:
            arithmetic.check_progress(before, latest)
        except DataLoss as loss:
            self._lost(str(loss))
            latest = arithmetic.never_behind(before, latest)
        full_start = arithmetic.with_new_partitions(before, latest, earliest)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return arithmetic.to_json(arithmetic.limited(full_start, latest, most))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Tell Spark's progress where the topics end, so that lag can be seen."""
        return None if self._seen is None else arithmetic.to_json(self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan one task for each partition that moved between two offsets."""
        before, after = arithmetic.from_json(start), arithmetic.from_json(end)
        missing = {t: {p: 0 for p in by if p not in before.get(t, {})} for t, by in after.items()}
        if any(missing.values()):
            earliest = self.cluster().earliest({t: tuple(by) for t, by in missing.items() if by})
            before = arithmetic.with_new_partitions(before, after, earliest)
        return self._range_partitions(before, after)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint is the only place where progress counts."""

    def stop(self) -> None:
        """Leave the worker's connections to the next query."""


def _at_most(offsets: Offsets, target: Offsets) -> Offsets:
    return {
        topic: {p: min(offsets.get(topic, {}).get(p, end), end) for p, end in by.items()}
        for topic, by in target.items()
    }


def _arrow_batches(
    columns: Columns, wanted: OffsetRange, schema: pa.Schema
) -> "Iterator[RecordBatch]":
    count = len(columns.offsets)
    if count == 0:
        return
    arrays = [
        columns.keys,
        columns.values,
        pa.repeat(pa.scalar(wanted.topic), count),
        pa.array(np.full(count, wanted.partition, dtype=np.int32)),
        pa.array(columns.offsets),
        pa.array(columns.timestamps_ms * 1000).cast(pa.timestamp("us", tz="UTC")),
        pa.array(np.full(count, columns.timestamp_type, dtype=np.int32)),
    ]
    if len(schema) > len(arrays):
        arrays.append(pa.nulls(count, HEADERS_TYPE) if columns.headers is None else columns.headers)
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(typed, schema=schema)
    for first in range(0, count, ROWS_PER_BATCH):
        yield batch.slice(first, ROWS_PER_BATCH)
