"""The sink: rows to records, at least once.

Each task writes its rows with acks=all and answers only when every one was acknowledged; a task
that Spark runs again writes its rows again. Owns the columns a row may have and the refusal of rows
that cannot be records; the producer owns batching, partitioning and retries.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from ..client.records import ProducerRecord
from ..client.sync_producer import Producer, SyncBatchDelivery
from .cluster import cluster_for
from .options import OptionError, SinkOptions

_TEXT = (StringType, BinaryType)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    records: int


class RowError(ValueError):
    """A row that cannot become a record; the text names its position in the task, from 0."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row} of the task: {why}")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse, before any job starts, columns that the sink does not know or cannot write."""
    types = {field.name: field.dataType for field in schema}
    if len(types) < len(schema):
        raise OptionError("columns", ", ".join(schema.names), "a name is there twice")
    for name, data_type in types.items():
        if name not in ("key", "value", "headers", "topic", "partition"):
            raise OptionError(
                "columns", name, "a row has key, value, headers, topic and partition, no more"
            )
        if not _fits(name, data_type):
            raise OptionError("columns", f"{name} {data_type.simpleString()}", _allowed(name))
    if "value" not in types:
        raise OptionError("columns", ", ".join(types), "a column 'value' is needed")
    if "topic" not in types and options.topic is None:
        raise OptionError("topic", None, "give the option topic, or a column 'topic'")


def _fits(name: str, data_type: DataType) -> bool:
    if name == "partition":
        return isinstance(data_type, IntegerType)
    if name == "topic":
        return isinstance(data_type, StringType)
    if name == "headers":
        element = data_type.elementType if isinstance(data_type, ArrayType) else None
        return isinstance(element, StructType) and [
            (f.name, type(f.dataType)) for f in element
        ] == [("key", StringType), ("value", BinaryType)]
    return isinstance(data_type, _TEXT)


def _allowed(name: str) -> str:
    return {
        "partition": "an int is needed",
        "topic": "a string is needed",
        "headers": "array<struct<key string, value binary>> is needed",
    }.get(name, "a string or binary is needed")


class _Writing:
    """What batch and streaming writers share: the task's work."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Write a task's rows; returns when every one was acknowledged, raises if one was not."""
        producer = cluster_for(self.options.client).producer()
        under_way: deque[SyncBatchDelivery] = deque()
        count = 0
        for batch in iterator:
            for place, rows in _by_place(batch, self.options.topic, count).items():
                _check_place(producer, place, rows.first_row)
                under_way.append(
                    producer.send_batch(place.topic, rows.records, partition=place.partition)
                )
            count += batch.num_rows
            while under_way and under_way[0].done():
                under_way.popleft().result()
        producer.flush()
        for delivery in under_way:
            delivery.result()
        return Written(count)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every record was acknowledged before its task answered."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was acknowledged stays, as at-least-once says."""


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: every record was acknowledged before its task answered."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was acknowledged stays, as at-least-once says."""


class Place(NamedTuple):
    """Where rows go."""

    topic: str
    partition: int | None
    """None: as the key says."""


@dataclass
class Rows:
    """Rows of one place, in their order."""

    first_row: int
    records: list[ProducerRecord]


def _check_place(producer: Producer, place: Place, row: int) -> None:
    topic, partition = place
    if partition is None:
        return
    known = producer.partitions_for(topic)
    if partition not in known:
        raise RowError(row, f"partition {partition}, but {topic} has {len(known)} partitions")


def _by_place(batch: pa.RecordBatch, topic: str | None, first_row: int) -> dict[Place, Rows]:
    """Sort a batch's rows by where they go, in their order."""
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() for name in batch.schema.names
    }
    nothing = [None] * batch.num_rows
    rows = zip(
        nothing if topic is not None else columns["topic"],
        columns.get("partition", nothing),
        columns.get("key", nothing),
        columns["value"],
        columns.get("headers", nothing),
        strict=True,
    )
    places: dict[Place, Rows] = {}
    for row, (named, partition, key, value, headers) in enumerate(rows, start=first_row):
        place = Place(named if topic is None else topic, partition)
        if not place.topic:
            raise RowError(row, f"the topic is {place.topic!r}")
        record = ProducerRecord(_bytes(value), _bytes(key), _headers(row, headers))
        known = places.get(place)
        if known is None:
            places[place] = Rows(row, [record])
        else:
            known.records.append(record)
    return places


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(
    row: int, headers: list[dict[str, Any] | None] | None
) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for header in headers or ():
        if header is None or header["key"] is None:
            raise RowError(row, "a header without a key")
        found.append((header["key"], header["value"]))
    return found
